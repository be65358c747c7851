"""Following a session: what is shown when, and what is said at the end."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import msgspec
import pytest
from rich.console import Console

from spectrace.attach.handle import TakenOut
from spectrace.attach.session import End, RankState, SessionFacts, Stall
from spectrace.cli.attach import exit_code, trace
from spectrace.cli.follow import Clock, Follower
from spectrace.cli.report import Exported
from spectrace.cli.screens import JsonScreen, LineScreen, LiveScreen, Screen
from spectrace.cli.stopping import Stop
from spectrace.cli.window import CycleWindow
from spectrace.errors import SpectraceError
from spectrace.model import Cycle, RequestRow, Run
from tests.helpers.anything import any_cycle, any_rank, any_run

S = 1_000_000_000
RUN = any_run("TP0", "TP1", anchor_unix_ns=5_000 * S, engine="sglang 0.5.23")


def cycle_of(number: int, tokens: int = 2) -> Cycle:
    """A speculative cycle of 10 ms with one request."""
    rank = any_rank(start_ns=0, end_ns=10_000_000, probe_ns=20_000)
    row = RequestRow(request_id="a", correct_drafts=tokens - 1, output_tokens=tokens)
    return any_cycle(number, rank, requests=(row,))


class FakeClock(Clock):
    """Time passes in sleeps alone; after each, `then` is called with the seconds passed."""

    def __init__(self, then: Callable[[float], None] = lambda _: None) -> None:
        self.passed_ns = 0
        self._then = then

    def now_ns(self) -> int:
        """The time since the start."""
        return self.passed_ns

    def sleep(self, seconds: float) -> None:
        """Lets the time pass."""
        self.passed_ns += round(seconds * S)
        self._then(self.passed_ns / S)


class FakeSession:
    """A server with two ranks that gives one cycle a poll."""

    def __init__(self) -> None:
        self.run = RUN
        self.end: End | None = None
        self.last_cycles: list[Cycle] = []
        self.installed = True
        self.detached = 0
        self.taken_out = [TakenOut(True, (), ""), TakenOut(True, (), "")]
        self.number = 0
        self.heard: list[str] = []

    def poll(self) -> list[Cycle]:
        """The next cycle."""
        self.number += 1
        return [cycle_of(self.number)]

    def news(self) -> list[str]:
        """What the test has put there."""
        news, self.heard = self.heard, []
        return news

    def facts(self) -> SessionFacts:
        """Both ranks are traced, unless their server has ended."""
        alive = self.end is not End.SERVER_DIED
        ranks = tuple(
            RankState(
                name=rank.name, pid=rank.pid, state="tracing", alive=alive, cycles=1, lost_records=0
            )
            for rank in RUN.ranks
        )
        return SessionFacts(
            engine="sglang 0.5.23",
            algorithm="EAGLE3",
            worker="EAGLEWorkerV2",
            device="cuda",
            overlap=False,
            unhooked=(),
            ranks=ranks,
            lost_records=0,
            missing_cycles=0,
            errors=(),
        )

    def stall(self) -> list[Stall]:
        """2 ms on the first rank."""
        return [
            Stall(
                rank="TP0",
                stop_ms=0.5,
                loading_ms=1.0,
                installing_ms=0.5,
                total_ms=2.0,
                installed=self.installed,
            )
        ]

    def detach(self) -> list[TakenOut]:
        """Counts how often it was asked."""
        self.detached += 1
        return self.taken_out


def lines_of(
    session: FakeSession, *, duration_s: float | None = None, clock: FakeClock | None = None
) -> list[str]:
    """What is printed where the output is no terminal."""
    stream = io.StringIO()
    screen = LineScreen(Console(file=stream, width=100))
    Follower(session, screen, clock or FakeClock()).follow(Stop(), duration_s)
    return stream.getvalue().splitlines()


def objects_of(session: FakeSession, duration_s: float) -> list[dict[str, Any]]:
    """What is written with --json."""
    stream = io.StringIO()
    Follower(session, JsonScreen(stream), FakeClock()).follow(Stop(), duration_s)
    return [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]


def test_json_is_one_object_a_second_and_one_of_the_session() -> None:
    """After 3 s of 20 polls a second there are 2 or 3 objects, and a final one of all 60."""
    objects = objects_of(FakeSession(), 3.0)
    assert [found["final"] for found in objects] == [False] * (len(objects) - 1) + [True]
    assert len(objects) - 1 in (2, 3)
    assert objects[-1]["summary"]["cycles"] == 60
    assert objects[-1]["summary"]["window_s"] == 3.0
    assert objects[-1]["unix_ns"] == 5_003 * S
    assert objects[0]["session"]["engine"] == "sglang 0.5.23"
    assert [rank["name"] for rank in objects[0]["session"]["ranks"]] == ["TP0", "TP1"]
    assert objects[0]["stall"][0]["total_ms"] == 2.0
    assert [removal["removed"] for removal in objects[-1]["removals"]] == [True, True]


def test_the_window_is_the_last_ten_seconds() -> None:
    """After 15 s a report covers 10 s, whose rate is still 20 cycles/s."""
    *_, last, _ = objects_of(FakeSession(), 15.0)
    assert last["summary"]["window_s"] == 10.0
    assert last["summary"]["cycles_per_s"] == pytest.approx(20.0, rel=0.01)


def test_what_was_still_in_the_rings_counts() -> None:
    """The last cycles come with detaching."""
    session = FakeSession()
    session.last_cycles = [cycle_of(1000), cycle_of(1001)]
    assert objects_of(session, 1.0)[-1]["summary"]["cycles"] == 22


def test_lines_say_stall_then_figures_then_what_was_taken_out() -> None:
    """One line a second, and the table of the session at the end.

    Within the first second there are 21 polls: at 0 s, 0.05 s and so on to 1 s.
    """
    lines = lines_of(FakeSession(), duration_s=2.0)
    assert lines[0] == (
        "TP0 was held up for 2.00 ms: stop 0.50 ms, loading 1.00 ms, installing 0.50 ms."
    )
    assert lines[1].startswith("21 cycles/s, 42 tokens/s, cycle 10.0 ms, accept length 2.00")
    assert "The probe is out of TP0 and TP1: the server goes on without it." in lines
    assert "The whole session, 2.0 s:" in lines


def test_a_wish_to_stop_ends_it_within_a_poll() -> None:
    """Ctrl-C after 1 s leaves at once and detaches once."""
    session, stop = FakeSession(), Stop()
    clock = FakeClock(lambda passed_s: stop.request() if passed_s >= 1 else None)
    report = Follower(session, LineScreen(Console(file=io.StringIO())), clock).follow(stop)
    assert clock.passed_ns == S
    assert session.detached == 1
    assert (report.final, report.end, exit_code(report)) == (True, None, 0)


def test_a_wish_to_stop_before_the_first_poll_still_detaches() -> None:
    """Ctrl-C while attaching is heard when attaching is over."""
    session, stop = FakeSession(), Stop()
    stop.request()
    report = Follower(session, JsonScreen(io.StringIO()), FakeClock()).follow(stop)
    assert session.detached == 1
    assert report.summary.cycles == 0


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        (End.SERVER_DIED, 3, "The server has ended. What was measured until then:"),
        (End.TAKEN_OUT, 0, "The probe is out of the server: another command took it out"),
        (End.PROBE_FAILED, 1, "The probe met an error of its own"),
    ],
)
def test_an_end_from_outside_is_said_and_has_its_exit_code(end: End, code: int, said: str) -> None:
    """What was collected is shown all the same."""
    session = FakeSession()

    def then(passed_s: float) -> None:
        session.end = end if passed_s >= 1 else None

    stream = io.StringIO()
    screen = LineScreen(Console(file=stream, width=100))
    report = Follower(session, screen, FakeClock(then)).follow(Stop())
    lines = stream.getvalue().splitlines()
    assert any(line.startswith(said) for line in lines)
    assert any(line.startswith("The whole session") for line in lines)
    assert report.summary.cycles == 20
    assert exit_code(report) == code
    assert any("goes on" in line for line in lines) is (end is End.PROBE_FAILED)


def test_what_changes_is_said_once() -> None:
    """Who controls, and ranks that came, above the figures."""
    session = FakeSession()
    session.heard = ["TP2 (process 73) is new, and is traced too."]
    lines = lines_of(session, duration_s=3.0)
    assert lines[0] == "TP2 (process 73) is new, and is traced too."
    assert sum("is new" in line for line in lines) == 1


def test_a_probe_that_is_left_to_others_is_a_success() -> None:
    """It was left in on purpose."""
    session = FakeSession()
    session.taken_out = [TakenOut(False, (), "It is left to process 41.", left_to=True)] * 2
    stream = io.StringIO()
    screen = LineScreen(Console(file=stream, width=100))
    report = Follower(session, screen, FakeClock()).follow(Stop(), 0.1)
    lines = stream.getvalue().splitlines()
    assert "The probe stays in TP0 and TP1. It is left to process 41." in lines
    assert exit_code(report) == 0


def test_a_rank_that_keeps_the_probe_is_named_and_is_no_success() -> None:
    """The exit code tells a script, the sentence tells the person."""
    session = FakeSession()
    session.taken_out[1] = TakenOut(False, (), "It is paused.")
    stream = io.StringIO()
    screen = LineScreen(Console(file=stream, width=100))
    report = Follower(session, screen, FakeClock()).follow(Stop(), 0.1)
    assert "TP1 keeps the probe: It is paused." in stream.getvalue().splitlines()
    assert exit_code(report) == 1


def idle_until(session: FakeSession, installed_s: float) -> FakeClock:
    """A clock by which the worker is hooked after so many seconds."""
    session.installed = False

    def then(passed_s: float) -> None:
        session.installed = passed_s >= installed_s

    return FakeClock(then)


WHOLE_STALL = "TP0 was held up for 2.00 ms: stop 0.50 ms, loading 1.00 ms, installing 0.50 ms"


def stalls_in(lines: list[str]) -> list[str]:
    """What is said about the stall."""
    return [line for line in lines if "held up" in line]


def test_a_server_without_a_cycle_is_not_waited_for() -> None:
    """Where the worker is not hooked after 1 s the stall is told as far as it is known."""
    session = FakeSession()
    lines = lines_of(session, duration_s=3.0, clock=idle_until(session, 2.0))
    assert lines[0] == f"{WHOLE_STALL} so far; the worker is hooked at its next cycle."


def test_the_whole_stall_is_told_once_the_worker_is_hooked() -> None:
    """However late that is, and only once."""
    session = FakeSession()
    lines = lines_of(session, duration_s=4.0, clock=idle_until(session, 2.0))
    assert stalls_in(lines)[1:] == [f"{WHOLE_STALL}."]


@pytest.mark.parametrize(("duration_s", "before"), [(0.5, 0), (1.0, 0), (3.0, 1)])
def test_the_stall_is_always_told_at_the_end(duration_s: float, before: int) -> None:
    """Where no cycle came it is said that the worker was never hooked."""
    session = FakeSession()
    lines = lines_of(session, duration_s=duration_s, clock=idle_until(session, 99.0))
    assert len(stalls_in(lines)) == before + 1
    assert stalls_in(lines)[-1] == f"{WHOLE_STALL}; its worker was never hooked."
    assert lines.index(stalls_in(lines)[-1]) < lines.index(f"The whole session, {duration_s} s:")


def test_a_stall_that_was_told_is_not_told_again() -> None:
    """A short session says it once as well."""
    assert stalls_in(lines_of(FakeSession(), duration_s=0.5)) == [f"{WHOLE_STALL}."]


def test_a_rank_whose_process_ended_is_dead() -> None:
    """Not in the state that it died in; the other keeps its own."""
    session = FakeSession()
    facts = session.facts()
    died = msgspec.structs.replace(facts.ranks[0], alive=False)
    ranks = (died, facts.ranks[1])
    session.facts = lambda: msgspec.structs.replace(facts, ranks=ranks)  # type: ignore[method-assign]
    last = objects_of(session, 0.5)[-1]
    assert [rank["state"] for rank in last["session"]["ranks"]] == ["dead", "tracing"]


def test_what_an_exporter_lost_is_in_every_report() -> None:
    """As it stands when the report is made; None without an exporter."""
    stream = io.StringIO()
    session = FakeSession()
    Follower(
        session,
        JsonScreen(stream),
        FakeClock(),
        exported=lambda: Exported(lost_cycles=7 * session.detached),
    ).follow(Stop(), 1.5)
    objects = [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]
    assert [found["export_lost"] for found in objects] == [0, 7]
    assert objects_of(FakeSession(), 0.5)[-1]["export_lost"] is None


def test_a_slow_screen_is_drawn_less_often() -> None:
    """Drawing that takes 0.2 s is done every 2 s, not four times a second."""
    clock = FakeClock()

    class SlowScreen(LineScreen):
        """Takes its time."""

        every_s = 0.25
        drawn = 0

        def show(self, report: object) -> None:
            """Counts."""
            del report
            self.drawn += 1
            clock.passed_ns += S // 5

    screen = SlowScreen(Console(file=io.StringIO()))
    Follower(FakeSession(), screen, clock).follow(Stop(), 20.0)
    assert 9 <= screen.drawn <= 11


class Terminal(io.StringIO):
    """Keeps all lines of a terminal, also those that have scrolled out.

    Knows what a live table uses: return, line feed, cursor up, and erasing a line; and that
    a line which is full is left with the next character.
    """

    def __init__(self, width: int, height: int) -> None:
        super().__init__()
        self.lines = [""]
        self._width, self._height = width, height
        self._row = self._column = 0

    def write(self, text: str) -> int:
        """Shows the text."""
        for found in re.finditer(r"\x1b\[(\??\d*)([A-Za-z])|[^\x1b]", text, re.DOTALL):
            if found[2] is None:
                self._put(found[0])
            elif found[2] == "A":
                top = max(len(self.lines) - self._height, 0)
                self._row = max(self._row - int(found[1] or 1), top)
            elif found[2] == "K":
                self.lines[self._row] = ""
        return super().write(text)

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
            return
        if character == "\n" or self._column == self._width:
            self._row, self._column = self._row + 1, 0
            self.lines += [""] * (self._row - len(self.lines) + 1)
        if character != "\n":
            line = self.lines[self._row].ljust(self._column)
            self.lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
            self._column += 1

    def seen(self) -> list[str]:
        """The lines that are not empty."""
        return [line.rstrip() for line in self.lines if line.strip()]


def live_on(terminal: Terminal, width: int, height: int) -> LiveScreen:
    """A live table on that terminal."""
    console = Console(
        file=terminal, width=width, height=height, force_terminal=True, color_system=None
    )
    return LiveScreen(console)


@pytest.mark.parametrize(("width", "height"), [(120, 40), (80, 24), (40, 30), (40, 6), (20, 3)])
def test_a_live_table_leaves_nothing_behind(width: int, height: int) -> None:
    """After Ctrl-C, which a terminal echoes, only the table of the session stands there.

    Also where the terminal is smaller than the table.
    """
    terminal, stop = Terminal(width, height), Stop()

    def then(passed_s: float) -> None:
        if passed_s >= 3:
            terminal.write("^C")
            stop.request()

    Follower(FakeSession(), live_on(terminal, width, height), FakeClock(then)).follow(stop)
    assert "last 3 s" in terminal.getvalue() or height < 10
    lines = terminal.seen()
    assert sum("sglang" in line for line in lines) == 1
    assert sum("cycles/s" in line for line in lines) == 1
    assert lines[0].startswith("TP0 was held up")
    assert not any("last" in line or "^C" in line for line in lines)


def test_the_rest_of_the_stall_comes_above_the_live_table() -> None:
    """It scrolls away with what was said before."""
    terminal, session = Terminal(140, 40), FakeSession()
    clock = idle_until(session, 2.0)
    Follower(session, live_on(terminal, 140, 40), clock).follow(Stop(), 3.0)
    lines = terminal.seen()
    assert lines[0].startswith(f"{WHOLE_STALL} so far")
    assert lines[1] == f"{WHOLE_STALL}."


def test_trace_attaches_follows_and_gives_the_exit_code() -> None:
    """The session is entered once, after the ranks were listed, and left at the end."""
    events: list[str] = []
    stream = io.StringIO()

    @contextmanager
    def opened(run: Run) -> Iterator[FakeSession]:
        assert run is RUN
        events.append(stream.getvalue())
        yield FakeSession()
        events.append("left")

    screen = LineScreen(Console(file=stream, width=100))
    assert trace(RUN, opened, screen, Stop(), duration_s=0.1) == 0
    assert events == [
        "Attaching to server 70: TP0 (process 71), TP1 (process 72).\n",
        "left",
    ]


def test_the_page_is_named_once_the_probe_is_in() -> None:
    """Below the ranks, above what attaching cost them."""
    stream = io.StringIO()

    @contextmanager
    def opened(_run: Run) -> Iterator[FakeSession]:
        yield FakeSession()

    screen = LineScreen(Console(file=stream, width=100))
    assert trace(RUN, opened, screen, Stop(), duration_s=0.1, page="http://127.0.0.1:1") == 0
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("Attaching to server 70")
    assert lines[1:3] == ["The page: http://127.0.0.1:1", f"{WHOLE_STALL}."]


def test_what_cannot_be_attached_to_says_why() -> None:
    """The error reaches the command as it is."""

    def refused(_run: Run) -> AbstractContextManager[FakeSession]:
        raise SpectraceError("It may not be.")

    screen: Screen = JsonScreen(io.StringIO())
    with pytest.raises(SpectraceError, match="It may not be"):
        trace(RUN, refused, screen, Stop())


def test_an_amended_cycle_is_counted_once() -> None:
    """The later form takes the place of the earlier one, and keeps its time of arrival."""
    window = CycleWindow(0)
    window.add([cycle_of(1, tokens=1)], 1 * S)
    window.add([cycle_of(1, tokens=3)], 2 * S)
    summary = window.summary(4 * S)
    assert (summary.cycles, summary.output_tokens) == (1, 3)
    assert window.summary(4 * S).tokens_per_s == 0.75
    window.add([], 12 * S)
    assert window.summary(12 * S).cycles == 0


def test_the_session_has_what_left_the_window_and_what_is_in_it() -> None:
    """One old and one new cycle over 20 s; a late amendment of the old one is ignored."""
    window = CycleWindow(0)
    window.add([cycle_of(1, tokens=1)], 1 * S)
    window.add([cycle_of(2, tokens=4)], 15 * S)
    window.add([cycle_of(1, tokens=9)], 16 * S)
    summary = window.session(20 * S)
    assert (summary.cycles, summary.output_tokens, summary.window_s) == (2, 5, 20.0)
