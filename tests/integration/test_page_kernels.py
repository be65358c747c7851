"""The page has a window opened on the kernels of a server that it traces, or says why not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import spectrace
from tests.helpers.attach_rounds import belongings
from tests.helpers.command import TIMEOUT_S, first_line_with, start
from tests.helpers.cupti_site.cupti.cupti import AFTER_NS, LONG_NS
from tests.helpers.fake_worker import FakeWorker
from tests.helpers.gpu_site import GpuSite
from tests.helpers.page import SERVE, Paged, paged, until
from tests.helpers.page_wishes import JSON, ask, attach, has_left, leave, newest, run_of, wait_for
from tests.helpers.shared_files import left_of
from tests.helpers.simulated_server import SimulatedServer

pytestmark = pytest.mark.beside_others

NOBODY = 65534
CYCLES = 20
LONG = 1000  # cycles, the most that a page asks for
VISITORS = ("--batch", "3", "--scale", "0.2", "--visitors")
WITHOUT_END = 10_000_000
COMPARED = 20  # requests
AROUND_NS = 50_000_000  # cycles before and behind the window have no kernels
OPEN = {"open": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's command runs, and records."""
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Paged]:
    """The page of a command that traces nothing by itself."""
    with paged(*SERVE, folder=folder) as it:
        yield it


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> GpuSite:
    """What makes a server look like one on a GPU."""
    return GpuSite(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, site: GpuSite) -> Iterator[SimulatedServer]:
    """Two ranks with a CUPTI that makes records up."""
    folder = tmp_path_factory.mktemp("server")
    with SimulatedServer(folder, "TP0", "TP1", packages=[site.path]) as it:
        yield it


@pytest.fixture
def traced(page: Paged, server: SimulatedServer) -> Iterator[str]:
    """The run of the server, traced from the page; it is left as it was found."""
    run = attach(page, server.pid)
    wait_for(page, run, newest(page, run) + 5)
    yield run
    if run_of(page, run)["steerable"]:
        leave(page, run)
    assert has_left(server)
    assert left_of(server.pids.values()) == []


def looking(page: Paged, run: str) -> dict[str, Any]:
    """How far the look at a run is; nothing before there was one."""
    return dict(run_of(page, run)["looking"] or {})


def asked(page: Paged, run: str, cycles: int) -> None:
    """Asks for a look, which the page takes on."""
    answer = ask(page, f"runs/{run}/kernels", {"cycles": cycles})
    assert (answer.status_code, answer.json()) == (202, {}), answer.text


def until_stage(page: Paged, run: str, *stages: str) -> dict[str, Any]:
    """Waits until the look is so far."""
    until(lambda: looking(page, run).get("stage") in stages)
    return looking(page, run)


def refused(page: Paged, run: str) -> str:
    """Why a look is not even begun."""
    answer = ask(page, f"runs/{run}/kernels", {"cycles": CYCLES})
    assert answer.status_code == 409, answer.text
    return str(answer.json()["detail"])


def prospect(page: Paged, run: str) -> dict[str, Any]:
    """What stands in the way of a look, as the page says it before."""
    return dict(page.get(f"/api/runs/{run}/kernels/prospect"))


def cycles_between(page: Paged, run: str, from_ns: int, to_ns: int) -> list[dict[str, Any]]:
    """The cycles that began in a stretch of time, UNIX ns, however many have come since."""
    found: list[dict[str, Any]] = []
    before = ""
    while not found or int(found[-1]["t0"]) >= from_ns:
        more = page.get(f"/api/runs/{run}/cycles?limit=2000{before}")["cycles"]
        if not more:
            break
        found += more
        before = f"&before={more[-1]['n']}"
    return [cycle for cycle in found if from_ns <= int(cycle["t0"]) <= to_ns]


def launched_outside(cycle: dict[str, Any], kernels: dict[str, Any]) -> list[str]:
    """Phases of kernels of a cycle that were launched in no such phase of their rank."""
    [share] = [one for one in cycle["ranks"] if one["rank"] == kernels["rank"]]
    found = []
    for began, place in zip(kernels["start"], kernels["phase"], strict=True):
        name = kernels["phases"][place]
        spans = [one[2:4] for one in share["phases"] if one[:2] == [name, "host"]]
        if not any(begin <= began - AFTER_NS < end for begin, end in spans):
            found.append(name)
    return found


def answers_without_us() -> dict[str, list[int]]:
    """What the first requests get of a worker that nobody traces."""
    with FakeWorker("v2", *VISITORS, str(COMPARED)) as worker:
        return worker.account().answers


def test_kernels_of_the_cycles_come_back_and_tokens_are_those_of_a_server_left_alone(
    page: Paged, site: GpuSite
) -> None:
    """A worker on the simulated GPU: each kernel is in its phase, and nothing synchronized."""
    site.refuses("")
    with FakeWorker("v2", *VISITORS, str(WITHOUT_END), packages=[site.path]) as worker:
        threads = belongings(worker.pid).threads
        run = attach(page, worker.pid)
        wait_for(page, run, newest(page, run) + 5)
        assert (looking(page, run), run_of(page, run)["looks"]) == ({}, 0)
        assert prospect(page, run) == OPEN
        before = worker.counters()["syncs"]
        asked(page, run, CYCLES)
        assert until_stage(page, run, "done", "refused") == {
            "stage": "done",
            "cycles": CYCLES,
            "why": "",
            "mend": "",
        }
        until(lambda: run_of(page, run)["looks"] == 1)
        [look] = page.get(f"/api/runs/{run}/looks")["looks"]
        assert (look["source"], look["cycles"]) == ("window", CYCLES)
        first_ns, last_ns = int(look["start_ns"]), int(look["end_ns"])
        seen = {}
        for cycle in cycles_between(page, run, first_ns - AROUND_NS, last_ns + AROUND_NS):
            found = page.get(f"/api/runs/{run}/cycles/{cycle['n']}/kernels")
            assert found["t0"] == cycle["t0"]
            for kernels in found["ranks"]:
                seen[cycle["n"]] = len(kernels["start"])
                assert first_ns <= int(cycle["t0"]) <= last_ns
                assert launched_outside(cycle, kernels) == []
                spans = zip(kernels["start"], kernels["end"], strict=True)
                assert {ended - began for began, ended in spans} == {LONG_NS}
                assert kernels["start"] == sorted(kernels["start"])
                assert set(kernels["classes"]) == {"communication"}
        [count] = look["cycles_seen"].values()
        assert count == CYCLES * 3 // 4  # a quarter showed graphs whole
        assert set(seen) <= set(range(min(seen), min(seen) + count))
        assert sum(time["kernels"] for time in look["kernels"] if time["phase"]) == sum(
            seen.values()
        )
        leave(page, run)
        assert left_of([worker.pid]) == []
        assert belongings(worker.pid).threads == threads
        assert worker.counters()["syncs"] == before == 0
        answers = worker.stop().answers
    expected = answers_without_us()
    common = expected.keys() & answers.keys()
    assert len(common) >= COMPARED // 2
    assert {name: answers[name] for name in common} == {name: expected[name] for name in common}


@pytest.mark.parametrize(
    ("answer", "why", "mend"),
    [
        ("39", "Another tool has CUPTI for itself", "End that tool"),
        ("35", "lets only administrators look", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("14", "is older than the package", "of the same release"),
        ("43", "does not record kernels on this GPU", "Use a whole GPU"),
        ("7", "CUPTI refuses.", "without kernels"),
        ("no driver", "CUPTI finds no driver", "NVIDIA_DRIVER_CAPABILITIES"),
        ("no library", "lacks the package cupti-python, or CUPTI's library", "pip install"),
    ],
)
def test_what_cupti_refuses_is_said_and_tracing_goes_on(  # noqa: PLR0913, PLR0917 - parameters
    page: Paged,
    server: SimulatedServer,
    site: GpuSite,
    traced: str,
    answer: str,
    why: str,
    mend: str,
) -> None:
    """The rank, the cause and what to do; the server has no thread more and no file is left."""
    threads = [belongings(pid).threads for pid in server.pids.values()]
    looks = run_of(page, traced)["looks"]
    site.refuses(answer)
    asked(page, traced, CYCLES)
    found = until_stage(page, traced, "done", "refused")
    site.refuses("")
    assert (found["stage"], found["cycles"]) == ("refused", CYCLES)
    assert found["why"].startswith(("TP0: ", "TP1: "))
    assert why in found["why"]
    assert mend in found["mend"]
    wait_for(page, traced, newest(page, traced) + 5)
    assert run_of(page, traced)["looks"] == looks
    assert [belongings(pid).threads for pid in server.pids.values()] == threads
    assert not any(path.suffix == ".kernels" for path in left_of(server.pids.values()))


def test_a_window_without_a_record_shows_nothing_and_says_so(
    page: Paged, site: GpuSite, traced: str
) -> None:
    """As where a profiler takes them; nothing is stored of it."""
    looks = run_of(page, traced)["looks"]
    site.refuses("no records")
    asked(page, traced, CYCLES)
    found = until_stage(page, traced, "done", "refused")
    site.refuses("")
    assert (found["stage"], "no record of a kernel" in found["why"]) == ("refused", True)
    assert "A profiler may have begun" in found["mend"]
    assert run_of(page, traced)["looks"] == looks


@pytest.mark.parametrize(
    ("version", "why", "mend"),
    [
        (None, "lacks the package cupti-python", "pip install"),
        ("12.8.0", "runs with CUDA 12", "spectrace import"),
        ("11.0", "is older than the package", "of the same release"),
    ],
)
def test_what_is_seen_from_outside_is_said_before_the_server_is_asked(  # noqa: PLR0913, PLR0917 - parameters
    page: Paged, site: GpuSite, traced: str, version: str | None, why: str, mend: str
) -> None:
    """The page has it before a person agrees to anything, and a wish is refused with the same."""
    assert prospect(page, traced) == OPEN
    site.installed(version)
    found, detail = prospect(page, traced), refused(page, traced)
    site.installed("13.4.0")
    assert found["open"] is False
    assert why in found["why"]
    assert mend in found["mend"]
    assert detail == f"{found['why']} {found['mend']}"


def test_without_a_gpu_there_is_nothing_to_look_at(page: Paged, tmp_path: Path) -> None:
    """The server is not asked for anything."""
    with SimulatedServer(tmp_path, "TP0") as plain:
        run = attach(page, plain.pid)
        found = prospect(page, run)
        assert (found["open"], "no GPU" in found["why"]) == (False, True)
        assert "no GPU" in refused(page, run)
        assert looking(page, run) == {}
        leave(page, run)
        assert has_left(plain)


def ordered(server: SimulatedServer, what: str) -> None:
    """Has all ranks do something."""
    for rank in server.pids:
        server.order(rank, what)
    until(lambda: all(server.does(rank) == what for rank in server.pids))


def test_one_window_at_a_time_and_detaching_ends_it(
    page: Paged, server: SimulatedServer, traced: str
) -> None:
    """A second wish is refused while the first goes on; what was ended is said to be."""
    asked(page, traced, LONG)
    assert "one at a time" in refused(page, traced)
    until_stage(page, traced, "open")
    ordered(server, "pause")  # no cycle ends the window meanwhile
    assert "one at a time" in refused(page, traced)
    leave(page, traced)
    ordered(server, "decode")
    found = until_stage(page, traced, "done", "refused")
    assert (found["stage"], found["cycles"]) == ("refused", LONG)
    assert "Tracing was ended before the window was over" in found["why"]
    assert left_of(server.pids.values()) == []
    answer = ask(page, f"runs/{traced}/kernels", {"cycles": CYCLES})
    assert (answer.status_code, "not traced from here" in answer.text) == (404, True)


def test_where_cycles_are_sampled_those_that_are_kept_have_kernels(
    page: Paged, traced: str
) -> None:
    """Of 15 cycles behind the quarter of whole graphs every third one is there on each rank."""
    answer = ask(page, f"runs/{traced}/timing", {"sample_every": 3})
    assert answer.status_code == 200, answer.text
    until(lambda: run_of(page, traced)["sample_every"] == 3)
    wait_for(page, traced, max(one["from_cycle"] for one in answer.json()["switches"]) + 3)
    asked(page, traced, CYCLES)
    assert until_stage(page, traced, "done", "refused")["stage"] == "done"
    until(lambda: run_of(page, traced)["looks"] == 1)
    [look] = page.get(f"/api/runs/{traced}/looks")["looks"]
    assert look["cycles_seen"] == {"TP0": 5, "TP1": 5}
    launched = {time["phase"] for time in look["kernels"]}
    assert "" in launched  # what the cycles launched that were left out
    assert len(launched) > 1


def test_a_recording_that_goes_on_has_the_look_and_its_kernels(
    page: Paged, folder: Path, traced: str
) -> None:
    """Saved at its end, with the cycles that the look saw."""
    wish = {"name": "looked", "max_bytes": 100_000_000}
    assert ask(page, f"runs/{traced}/recording", wish).status_code == 200
    asked(page, traced, CYCLES)
    assert until_stage(page, traced, "done", "refused")["stage"] == "done"
    told = ask(page, f"runs/{traced}/recording/stop", {}).json()
    assert (told["active"], told["problem"]) == (False, "")
    with spectrace.open(folder / told["name"]) as recording:
        assert recording.looks.num_rows == 1
        seen = recording.kernels.group_by(["rank", "number"]).aggregate([("start_ns", "count")])
    assert seen.num_rows == 2 * CYCLES * 3 // 4


def test_a_server_that_dies_in_the_window_is_said_to_have_ended(
    page: Paged, site: GpuSite, tmp_path: Path
) -> None:
    """The run stays with what was collected."""
    with SimulatedServer(tmp_path, "TP0", packages=[site.path]) as mortal:
        run = attach(page, mortal.pid)
        wait_for(page, run, 5)
        asked(page, run, LONG)
        until_stage(page, run, "open")
        os.kill(mortal.pids["TP0"], signal.SIGKILL)
        until(lambda: run_of(page, run)["state"] == "server_gone")
        found = until_stage(page, run, "refused")
    assert "The server has ended before its window was over" in found["why"]


def test_who_only_reads_along_is_told_who_decides(page: Paged, server: SimulatedServer) -> None:
    """Before, and when asking."""
    first = start("attach", str(server.pid), "--no-page")
    first_line_with(first, "cycles/s")
    run = attach(page, server.pid)
    found, detail = prospect(page, run), refused(page, run)
    leave(page, run)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=TIMEOUT_S)
    assert found["open"] is False
    assert f"process {first.pid}" in found["why"]
    assert detail == f"{found['why']} {found['mend']}"
    assert has_left(server)


@pytest.mark.parametrize(
    ("wish", "headers", "status", "why"),
    [
        ({"cycles": 0}, JSON, 400, "from 1 to 1000"),
        ({"cycles": 1001}, JSON, 400, "from 1 to 1000"),
        ({"cycles": 2.5}, JSON, 400, "from 1 to 1000"),
        ({}, JSON, 400, "cycles"),
        ({"cycles": 20, "more": 1}, JSON, 400, "more"),
        ({"cycles": "2" * 2000}, JSON, 413, "too long"),
        ({"cycles": 20}, {"content-type": "text/plain"}, 415, "application/json"),
        ({"cycles": 20}, JSON | {"origin": "http://evil.example"}, 403, "own page"),
        ({"cycles": 20}, JSON | {"host": "evil.example"}, 403, "127.0.0.1"),
    ],
)
def test_what_is_no_wish_of_the_page_opens_no_window(  # noqa: PLR0913, PLR0917 - parameters
    page: Paged, traced: str, wish: object, headers: dict[str, str], status: int, why: str
) -> None:
    """It is answered with a sentence."""
    before = looking(page, traced)
    answer = ask(page, f"runs/{traced}/kernels", wish, headers)
    assert (answer.status_code, why in answer.text) == (status, True), answer.text
    assert looking(page, traced) == before


def test_a_run_that_is_not_traced_from_here_can_be_asked_for_nothing(page: Paged) -> None:
    """Neither for a window nor for what is in its way; and there is nothing of it to read."""
    nobody = "0" * 32
    answers = [
        ask(page, f"runs/{nobody}/kernels", {"cycles": CYCLES}),
        *(
            httpx.get(f"{page.url}/api/runs/{nobody}/{path}", timeout=TIMEOUT_S)
            for path in ("kernels/prospect", "looks", "cycles/1/kernels")
        ),
    ]
    assert [answer.status_code for answer in answers] == [404] * 4
    assert [answer.json()["detail"][:32] for answer in answers] == [
        *["This run is not traced from here"] * 2,
        *["There is no such run: /api/state"] * 2,
    ]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process of somebody else")
def test_somebody_else_on_this_machine_opens_no_window(page: Paged, traced: str) -> None:
    """Everybody reaches loopback: the kernel is asked whose connection it is."""
    host, port = page.url.removeprefix("http://").split(":")
    head = f"HTTP/1.1\\r\\nhost: {host}:{port}\\r\\nconnection: close\\r\\n"
    body = 'content-type: application/json\\r\\ncontent-length: 14\\r\\n\\r\\n{"cycles": 20}'
    # The user changes within: it may have no access to this interpreter, nor to its library.
    code = (
        "import os, socket\n"
        f"os.setuid({NOBODY})\n"
        "for how, what in (('GET', 'looks'), ('GET', 'kernels/prospect'), ('POST', 'kernels')):\n"
        "    to = socket.socket()\n"
        f"    to.connect(({host!r}, {port}))\n"
        f"    asked = how + ' /api/runs/{traced}/' + what + ' {head}{body}'\n"
        "    to.sendall(asked.encode())\n"
        "    found = b''\n"
        "    while chunk := to.recv(65536): found += chunk\n"
        "    print(found.decode().split(' ', 1)[1].splitlines()[0], found[-200:])\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    said = done.stdout.splitlines()
    assert [line[:3] for line in said] == ["200", "403", "403"]
    assert all("Only the account that runs spectrace" in line for line in said[1:])


def test_a_page_that_is_shared_opens_no_window(server: SimulatedServer) -> None:
    """Who has shown the token looks; to a server on this machine it can ask for nothing."""
    word = "0123456789abcdef"
    shown = JSON | {"authorization": f"Bearer {word}"}
    with paged(*SERVE, "--token", word) as shared:
        asked_for = [
            ask(shared, f"servers/{server.pid}/attach", {}, shown),
            ask(shared, f"runs/{'0' * 32}/kernels", {"cycles": CYCLES}, shown),
        ]
    assert [answer.status_code for answer in asked_for] == [403, 404]
    assert has_left(server)


def test_the_page_of_attach_looks_at_kernels_too(server: SimulatedServer) -> None:
    """Of the server that the command traces; Ctrl-C leaves it as it was."""
    with paged("attach", str(server.pid), "--port", "0") as shown:
        (run,) = until(shown.runs)
        wait_for(shown, run["run"], 5)
        asked(shown, run["run"], CYCLES)
        assert until_stage(shown, run["run"], "done", "refused")["stage"] == "done"
        [look] = shown.get(f"/api/runs/{run['run']}/looks")["looks"]
        assert set(look["cycles_seen"]) == {"TP0", "TP1"}
    assert has_left(server)
    assert left_of(server.pids.values()) == []
