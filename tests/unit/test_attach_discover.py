"""Telling ranks and servers by the titles and the tree of processes."""

from __future__ import annotations

import psutil
import pytest

from spectrace.attach import discover
from spectrace.attach.discover import _Process
from spectrace.errors import SpectraceError

# A server with TP 2, one with two DP replicas, both below shells, and something else.
TREE = {
    process.pid: process
    for process in (
        _Process(1, 0, ("/sbin/init",)),
        _Process(10, 1, ("bash",)),
        _Process(11, 10, ("python", "-m", "sglang.launch_server", "--tp", "2")),
        _Process(12, 11, ("sglang::scheduler_TP1",)),
        _Process(13, 11, ("sglang::scheduler_TP0",)),
        _Process(14, 11, ("sglang::detokenizer",)),
        _Process(20, 1, ("python", "serve.py")),
        _Process(21, 20, ("sglang::data_parallel_controller",)),
        _Process(22, 21, ("sglang::scheduler_DP0",)),
        _Process(23, 21, ("sglang::scheduler_DP1",)),
        _Process(30, 1, ("python", "other.py")),
    )
}
ROOTS = {12: 11, 13: 11, 22: 20, 23: 20}


def title_of(release: str, **rank: int) -> str:
    """The title as a release of SGLang composes it from the ranks of what there are several of.

    Read in `run_scheduler_process` and `configure_scheduler_process` of 0.4.6 to 0.5.23.
    """
    order = {
        "0.4.6": ("DP", "TP"),
        "0.5.1": ("DP", "TP", "EP", "PP"),
        "0.5.6": ("DP", "PP", "TP", "EP"),
        "0.5.9": ("DP", "PP", "ATTN_CP", "MOE_DP", "TP", "EP"),
    }[release]
    return "sglang::scheduler" + "".join(f"_{one}{rank[one]}" for one in order if one in rank)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        (title_of("0.4.6", TP=0), "TP0"),
        (title_of("0.4.6", DP=1, TP=0), "DP1 TP0"),
        (title_of("0.5.1", DP=1, TP=3, EP=2, PP=0), "DP1 TP3 EP2 PP0"),
        (title_of("0.5.6"), "TP0"),
        (title_of("0.5.6", DP=1), "DP1"),
        (title_of("0.5.6", DP=1, PP=0, TP=3, EP=2), "DP1 PP0 TP3 EP2"),
        (title_of("0.5.9", TP=11), "TP11"),
        (title_of("0.5.9", DP=0, ATTN_CP=1, MOE_DP=2, TP=3), "DP0 ATTN_CP1 MOE_DP2 TP3"),
        ("sglang::detokenizer", None),
        ("sglang::detokenizer_router", None),
        ("sglang::tokenizer_worker:71", None),
        ("sglang::data_parallel_controller", None),
        ("sglang::schedulers", None),
        ("python", None),
        ("", None),
    ],
)
def test_rank_is_named_by_its_title(title: str, name: str | None) -> None:
    """A scheduler's title gives its rank, in the order of the title; others give none."""
    assert discover.rank_name(title) == name


def test_engine_within_any_program_is_its_server() -> None:
    """`sglang.Engine` starts its schedulers below the program, whatever that is called."""
    table = {
        1: _Process(1, 0, ("/sbin/init",)),
        5: _Process(5, 1, ("/opt/bin/rollout", "--epochs", "3")),
        6: _Process(6, 5, ("sglang::scheduler",)),
        7: _Process(7, 5, ("sglang::tokenizer_worker:7",)),
    }
    roots = discover._roots(table)
    assert roots == {6: 5}
    assert discover._root_of(7, table, {5}) == 5


def test_ranks_are_numbered_by_engine_in_the_order_of_their_start() -> None:
    """A title that comes again is of a later engine, also if its process id is lower."""
    table = {
        pid: _Process(pid, 1, (title,), began=began)
        for pid, title, began in (
            (9, "sglang::scheduler_TP0", 1),
            (8, "sglang::scheduler_TP1", 1),
            (3, "sglang::scheduler_TP0", 2),
        )
    }
    assert [(rank.name, rank.pid) for rank in discover._ranks(table, table)] == [
        ("TP0", 9),
        ("TP1", 8),
        ("ENGINE2 TP0", 3),
    ]


def test_names_sort_by_number() -> None:
    """TP2 comes before TP10."""
    names = ["DP1 TP0", "DP0 TP10", "DP0 TP2"]
    assert sorted(names, key=discover._natural) == ["DP0 TP2", "DP0 TP10", "DP1 TP0"]


def test_root_is_above_the_scheduler_and_its_controller() -> None:
    """The server is the scheduler's parent, or its parent's where DP stands between."""
    assert discover._roots(TREE) == ROOTS


def test_scheduler_whose_server_was_killed_is_its_own_root() -> None:
    """What the init process adopts does not make every process part of a server."""
    table = {
        1: discover._Process(1, 0, ("/sbin/init",)),
        5: discover._Process(5, 1, ("sglang::scheduler",)),
        6: discover._Process(6, 1, ("/bin/sleep", "60")),
    }
    roots = discover._roots(table)
    assert roots == {5: 5}
    assert discover._root_of(6, table, set(roots.values())) is None


def test_server_may_be_the_first_process_of_a_container() -> None:
    """As process 1 it is the root of its schedulers."""
    table = {
        1: discover._Process(1, 0, ("python3", "-m", "sglang.launch_server")),
        5: discover._Process(5, 1, ("sglang::scheduler",)),
    }
    assert discover._roots(table) == {5: 1}


@pytest.mark.parametrize(
    ("pid", "root"),
    [(11, 11), (13, 11), (14, 11), (10, 11), (20, 20), (21, 20), (23, 20), (30, None)],
)
def test_any_process_of_a_server_leads_to_its_root(pid: int, root: int | None) -> None:
    """Launcher, scheduler, detokenizer, controller and the shell above all mean the server."""
    assert discover._root_of(pid, TREE, set(ROOTS.values())) == root


def test_process_above_two_servers_is_refused() -> None:
    """Where it is not clear which server is meant the error names them."""
    with pytest.raises(SpectraceError, match=r"2 SGLang servers.*11, 20"):
        discover._root_of(1, TREE, set(ROOTS.values()))


@pytest.mark.parametrize(
    "command",
    [
        ("python", "-m", "sglang.launch_server", "--tp", "2"),
        ("/usr/bin/python3.11", "-u", "-X", "dev", "-m", "sglang.launch_server"),
        ("python3", "/opt/bin/sglang", "serve", "--port", "1"),
        ("python", "python/sglang/launch_server.py"),
        ("sglang::detokenizer",),
    ],
)
def test_server_that_starts_is_known_by_whole_words(command: tuple[str, ...]) -> None:
    """A module, the command `serve`, or a title."""
    assert discover._is_starting(_Process(5, 1, command))


@pytest.mark.parametrize(
    "command",
    [
        ("python", "-c", "open('sglang.launch_server.log')"),
        ("python", "-c", "-m", "sglang.launch_server"),
        ("python", "watch.py", "-m", "sglang.launch_server"),
        ("python", "-m", "sglang.bench_serving"),
        ("python", "/opt/bin/sglang", "generate"),
        ("python",),
        ("grep", "-m", "sglang.launch_server"),
        ("vim", "sglang serve"),
        ("bash", "-c", "python -m sglang.launch_server"),
        (),
    ],
)
def test_what_only_names_the_server_does_not_start_one(command: tuple[str, ...]) -> None:
    """An editor, a search, or another program of SGLang."""
    assert not discover._is_starting(_Process(5, 1, command))


@pytest.mark.parametrize(("pid", "starting"), [(11, 11), (14, 11), (10, 11), (1, None), (30, None)])
def test_starting_server_is_found_from_its_processes(pid: int, starting: int | None) -> None:
    """From itself, from below and from the shell above; not from process 1, above all."""
    tree = {pid: process for pid, process in TREE.items() if pid not in {12, 13}}
    tree[14] = _Process(14, 11, ("python", "-c", "spawn_main()"))
    assert discover._starting(pid, tree) == starting


def test_starting_server_has_to_be_waited_for() -> None:
    """The error names the process that starts, which may be below the one that was given."""
    tree = {pid: process for pid, process in TREE.items() if pid not in {12, 13}}
    assert "process 11 is still starting" in str(discover._why_not(10, tree, {}))


@pytest.mark.parametrize("pid", [0, -1])
def test_what_is_no_process_id_is_refused(pid: int) -> None:
    """It is not looked for."""
    with pytest.raises(SpectraceError, match=f"^{pid} is no process id"):
        discover.find_by_pid(pid)


def test_the_port_that_was_looked_at_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a port in the address that of the scheme is looked at, which SGLang has not."""
    monkeypatch.setattr(psutil, "net_connections", lambda _kind: [])
    with pytest.raises(SpectraceError, match=r"127\.0\.0\.1, port 80, .*add :30000\.$"):
        discover.find_by_url("http://127.0.0.1")
    with pytest.raises(SpectraceError, match=r"at http://127\.0\.0\.1:30001 on .*server up"):
        discover.find_by_url("http://127.0.0.1:30001")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:30000", ("127.0.0.1", 30000)),
        ("localhost:30000/v1", ("localhost", 30000)),
        ("http://[::1]:8000/generate", ("::1", 8000)),
        ("https://localhost", ("localhost", 443)),
    ],
)
def test_address_is_understood(url: str, expected: tuple[str, int]) -> None:
    """Host and port are found with and without a scheme, and by the scheme's default."""
    assert discover._host_and_port(url) == expected


@pytest.mark.parametrize(
    "url",
    ["", "http://", "http://localhost:port", "ftp://localhost", "::", "http://[::1", "localhost:0"],
)
def test_senseless_address_is_refused(url: str) -> None:
    """What is no address of a server is refused with an example of one."""
    with pytest.raises(SpectraceError, match="write it like http://127"):
        discover.find_by_url(url)


def test_host_that_cannot_be_one_is_refused() -> None:
    """A label of more than 63 letters is not even looked for."""
    with pytest.raises(SpectraceError, match="is not known"):
        discover.find_by_url(f"http://{'a' * 64}.example:30000")


def test_address_of_another_machine_is_refused() -> None:
    """Attach works only where the server runs, and the error says so."""
    with pytest.raises(SpectraceError, match="is not on this machine"):
        discover.find_by_url("http://192.0.2.1:30000")


@pytest.mark.parametrize(
    ("listening", "addresses", "answers"),
    [
        ("0.0.0.0", {"127.0.0.1"}, True),  # noqa: S104 - compared, not bound
        ("::", {"127.0.0.1"}, True),
        ("127.0.0.1", {"127.0.0.1", "::1"}, True),
        ("::ffff:127.0.0.1", {"127.0.0.1"}, True),
        ("127.0.0.1", {"0.0.0.0"}, True),  # noqa: S104 - compared, not bound
        ("10.1.2.3", {"127.0.0.1"}, False),
    ],
)
def test_listener_must_answer_at_the_address(
    listening: str, addresses: set[str], answers: bool
) -> None:
    """A socket counts if it is bound to the address asked for, or to all."""
    assert discover._serves(listening, addresses) is answers


def test_anchor_is_one_moment_on_both_clocks() -> None:
    """Two anchors differ by the same distance on both clocks."""
    unix_1, monotonic_1 = discover._anchor()
    unix_2, monotonic_2 = discover._anchor()
    assert abs((unix_2 - unix_1) - (monotonic_2 - monotonic_1)) < 1_000_000
