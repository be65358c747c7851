"""The commands from outside: arguments, exit codes, and errors in one line."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from spectrace import __version__
from spectrace.attach import discover, leave, rank_status, readers, ring_file
from spectrace.attach.handle import TakenOut
from spectrace.cli import attach, status
from spectrace.cli.main import app, main
from spectrace.cli.screens import JsonScreen, LineScreen
from spectrace.cli.stopping import SIGNALS, stop_on_signals
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Run
from spectrace.probe.layout import Origin, Seat, State, Word
from tests.helpers.anything import any_run
from tests.helpers.probe_ring import make_ring

RUN = any_run("TP0", "TP1")
RUNNER = CliRunner()


def test_a_command_that_there_is_not_is_told_what_it_is_like() -> None:
    """One letter short of `attach`."""
    result = RUNNER.invoke(app, ["attac"])
    assert result.exit_code == 2
    assert "Did you mean 'attach'?" in result.output


def test_the_version_is_printed() -> None:
    """`--version` needs no command."""
    result = RUNNER.invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"spectrace {__version__}\n")


@pytest.mark.parametrize(
    "command", ["attach", "detach", "mode", "status", "doctor", "serve", "record", "view", "export"]
)
def test_every_command_explains_itself(command: str) -> None:
    """Help costs nothing and names no flag that does nothing."""
    result = RUNNER.invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert command in result.output


@pytest.mark.parametrize("command", [["mode", "host"], ["sample", "10"]])
def test_a_switch_is_asked_for_by_process_or_by_address(command: list[str]) -> None:
    """Both are refused before anything is looked for."""
    result = RUNNER.invoke(app, [*command, "1", "--url", "http://localhost:1"])
    assert result.exit_code == 2
    assert "one of them" in " ".join(result.output.split())


@pytest.mark.parametrize("arguments", [[], ["1", "--url", "http://localhost:1"]])
def test_attach_wants_a_process_or_an_address(arguments: list[str]) -> None:
    """Neither and both are refused before anything is looked for."""
    assert RUNNER.invoke(app, ["attach", *arguments]).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["attach", "--url", ""], "'' is no address of a server"),
        (["attach", "--url", "http://[::1"], "is no address of a server"),
        (["attach", "0"], "0 is no process id"),
        (["attach", "--", "-7"], "-7 is no process id"),
        (["detach", "0"], "0 is no process id"),
        (["mode", "host", "--url", ""], "'' is no address of a server"),
        (["sample", "10", "--url", "http://[::1"], "is no address of a server"),
        (["sample", "10", "0"], "0 is no process id"),
    ],
)
def test_what_cannot_be_a_server_is_told_in_a_sentence(arguments: list[str], said: str) -> None:
    """An empty address is one that was given, and 0 is not any process."""
    error = RUNNER.invoke(app, arguments).exception
    assert isinstance(error, SpectraceError)
    assert said in str(error)


def test_attach_refuses_what_is_no_duration() -> None:
    """A number without unit is an error of usage."""
    result = RUNNER.invoke(app, ["attach", "1", "--duration", "30"])
    assert result.exit_code == 2
    assert "30s" in result.output


@pytest.mark.parametrize(
    ("arguments", "seconds", "screen"),
    [
        (["70", "--duration", "2m", "--json"], 120.0, JsonScreen),
        (["--url", "http://127.0.0.1:30000", "--no-page"], None, LineScreen),
    ],
)
def test_attach_passes_on_what_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], seconds: float | None, screen: type
) -> None:
    """The server is found by process or address; the exit code is that of tracing."""
    seen: list[tuple[Run, type, float | None]] = []

    def traced(
        run: Run,
        _session: object,
        shown: object,
        _stop: object,
        *,
        duration_s: float | None,
        page: str | None,
        exported: object,
    ) -> int:
        assert (page is None) is ("--no-page" in arguments)
        assert exported is None
        seen.append((run, type(shown), duration_s))
        return 3

    monkeypatch.setattr(discover, "find_by_pid", {70: RUN}.__getitem__)
    monkeypatch.setattr(discover, "find_by_url", {"http://127.0.0.1:30000": RUN}.__getitem__)
    monkeypatch.setattr(attach, "trace", traced)
    assert RUNNER.invoke(app, ["attach", *arguments]).exit_code == 3
    assert seen == [(RUN, screen, seconds)]


def test_an_error_is_one_line_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, nothing on stdout."""

    def failing(_pid: int) -> Run:
        raise SpectraceError("There is no process 5:\nlook again.", exit_code=4)

    monkeypatch.setattr(discover, "find_by_pid", failing)
    monkeypatch.setattr(sys, "argv", ["spectrace", "attach", "5"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 4
    assert capsys.readouterr() == ("", "spectrace: There is no process 5: look again.\n")


def detach_with(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    traced: list[int],
    take_out: Callable[[int], TakenOut],
) -> tuple[int, str]:
    """Runs `spectrace detach` on a server of which some ranks have a ring."""
    for pid in traced:
        (folder / str(pid)).touch()
    monkeypatch.setattr(discover, "find_by_pid", {72: RUN}.__getitem__)
    monkeypatch.setattr(ring_file, "ring_path", lambda pid: folder / str(pid))

    def told_before(pid: int, *, was_there: bool) -> TakenOut:
        assert was_there
        return take_out(pid)

    monkeypatch.setattr(leave, "take_out_pid", told_before)
    result = RUNNER.invoke(app, ["detach", "72"])
    return result.exit_code, result.output


def test_detach_takes_the_probe_out_of_all_ranks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Any process of the server will do."""
    code, output = detach_with(
        monkeypatch, tmp_path, [71, 72], lambda _: TakenOut(True, (), "The probe is out.")
    )
    assert code == 0
    assert output == "The probe is out of TP0 and TP1: the server goes on without it.\n"


def test_detach_goes_on_after_a_rank_that_does_not_let_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its reason is said, and the exit code is not 0."""

    def take_out(pid: int) -> TakenOut:
        if pid == 71:
            raise SpectraceError("The ring cannot be removed.")
        return TakenOut(True, (), "")

    code, output = detach_with(monkeypatch, tmp_path, [71, 72], take_out)
    assert code == 1
    assert output == (
        "The probe is out of TP1: the server goes on without it.\n"
        "TP0 keeps the probe: The ring cannot be removed.\n"
    )


def test_detach_says_where_there_was_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is no error that a server is as one wants it."""
    code, output = detach_with(monkeypatch, tmp_path, [], lambda _: TakenOut(False, (), ""))
    assert (code, output) == (0, "Server 70 is not traced: there was nothing to take out.\n")


def look_at_servers(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> str:
    """Runs `spectrace status` with one server, rank TP0 of which is traced by this process."""
    writer = make_ring(folder / "71")
    writer.close()
    view = RingView(folder / "71")
    view.set_word(Word.STATE, State.TRACING)
    view.set_word(Word.CYCLES, 1234)
    view.set_word(Word.LOST_RECORDS, 5)
    readers.sit_down(view)
    view.close()
    monkeypatch.setattr(discover, "list_runs", lambda: [RUN])
    monkeypatch.setattr(ring_file, "ring_path", lambda pid: folder / str(pid))
    result = RUNNER.invoke(app, ["status", *arguments])
    assert result.exit_code == 0
    return result.output


def test_status_lists_ranks_and_who_traces_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One line a rank, the server named once."""
    lines = look_at_servers(monkeypatch, tmp_path).splitlines()
    assert lines[0].split() == ["server", "rank", "process", "state", "timing", "cycles", "lost"]
    words = f"70 TP0 71 traced (injected) by process {os.getpid()} off 1,234 5"
    assert lines[1].split() == words.split()
    assert lines[2].split() == ["TP1", "72", "not", "traced", "\u2013", "\u2013", "\u2013"]


def test_status_is_also_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An array of servers with their ranks."""
    output = look_at_servers(monkeypatch, tmp_path, "--json")
    (server,) = msgspec.json.decode(output)
    assert server["server_pid"] == 70
    assert server["ranks"][0]["controller_pid"] == os.getpid()
    assert server["ranks"][0]["losses"]["records"] == 5
    assert server["ranks"][1]["state"] == "not traced"


def test_status_without_servers_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing found is no error."""
    monkeypatch.setattr(discover, "list_runs", list)
    result = RUNNER.invoke(app, ["status"])
    assert (result.exit_code, result.output) == (
        0,
        "No SGLang server runs here, or none that you may see.\n",
    )


def test_a_reader_that_is_silent_reads_no_more(tmp_path: Path) -> None:
    """A controller without a sign of life for 30 s is not named."""
    make_ring(tmp_path / "ring").close()
    view = RingView(tmp_path / "ring")
    view.set_word(Word.STATE, State.TRACING)
    readers.sit_down(view)
    heard = rank_status.describe(RUN.ranks[0], view)
    view.set_word(Word.SEATS + Seat.HEARTBEAT_NS, time.monotonic_ns() - 30_100_000_000)
    quiet = rank_status.describe(RUN.ranks[0], view)
    view.close()
    assert (quiet.state, quiet.controller_pid) == ("traced", None)
    assert heard.controller_pid == os.getpid()


def test_a_loop_that_nobody_traces_is_asleep(tmp_path: Path) -> None:
    """It brought its own probe, which waits for the next reader: nothing has left."""
    make_ring(tmp_path / "ring").close()
    view = RingView(tmp_path / "ring")
    states = []
    for state, origin in (
        (State.DETACHED, Origin.LOOP),
        (State.LOADED, Origin.PLUGIN),
        (State.DETACHED, Origin.INJECTED),
    ):
        view.set_word(Word.STATE, state)
        view.set_word(Word.ORIGIN, origin)
        states.append(rank_status.describe(RUN.ranks[0], view))
    view.close()
    assert [rank.state for rank in states] == ["asleep", "asleep", "left"]
    assert [status._state(rank) for rank in states] == [
        "asleep (loop)",
        "asleep (plugin)",
        "left (injected), nobody reads",
    ]


def test_what_the_probe_says_of_itself_is_noted_once_a_server(tmp_path: Path) -> None:
    """An untried release, what is not seen, ranges that broke, and boundaries without times."""
    writer = make_ring(tmp_path / "ring")
    writer.info(
        {
            "untried": "Untried: a release.",
            "missing": ["Worker.draft", "Worker.verify"],
            "ranges": "NVTX off: it failed with RuntimeError: full",
        }
    )
    writer.close()
    view = RingView(tmp_path / "ring")
    for word, count in (
        (Word.NO_EVENT, 1000),
        (Word.EVENT_LOST, 200),
        (Word.EVENT_CAPTURING, 30),
        (Word.EVENT_OTHER_STREAM, 4),
    ):
        view.set_word(word, count)
    ranks = tuple(rank_status.describe(rank, view) for rank in RUN.ranks)
    view.close()
    server = status.ServerStatus(run_id="", server_pid=70, command=(), ranks=ranks)
    assert status.notes([server]) == [
        "70: Untried: a release.",
        "70: Not seen: Worker.draft, Worker.verify.",
        "70: NVTX off: it failed with RuntimeError: full",
        "70: TP0: 1,234 boundaries of the device were not timed.",
        "70: TP1: 1,234 boundaries of the device were not timed.",
    ]


@pytest.fixture
def handlers() -> Iterator[None]:
    """Puts back what a test does to the handlers of signals."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", SIGNALS)
def test_signals_become_a_wish_to_stop(number: signal.Signals) -> None:
    """Those that follow are ignored, also afterwards, when the process is about to end."""
    with stop_on_signals() as stop:
        wishes = [stop.requested]
        os.kill(os.getpid(), number)
        wishes.append(stop.requested)
        os.kill(os.getpid(), number)
    os.kill(os.getpid(), number)
    assert wishes == [False, True]
    assert {signal.getsignal(each) for each in SIGNALS} == {signal.SIG_IGN}


@pytest.mark.usefixtures("handlers")
def test_without_a_wish_to_stop_the_handlers_are_put_back() -> None:
    """Who calls the commands from a program of their own keeps what was set."""
    before = [signal.getsignal(number) for number in SIGNALS]
    with stop_on_signals():
        pass
    assert [signal.getsignal(number) for number in SIGNALS] == before


@pytest.mark.usefixtures("handlers")
def test_an_ignored_signal_stays_ignored() -> None:
    """Under nohup a closed terminal ends nothing."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not stop.requested
