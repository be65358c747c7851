"""A comparison from its first look to its end, on a server whose time does not pass by itself."""

from __future__ import annotations

from itertools import pairwise

import pytest

from spectrace.analysis.timing_report import Comparison
from spectrace.attach.session import End
from spectrace.cli.stopping import Stop
from spectrace.cli.timing_run import Glance, TimingRun, Wish
from spectrace.cli.timing_words import sentences
from spectrace.errors import SpectraceError
from spectrace.model import TimingMode
from tests.helpers.timed_server import Ticking, TimedServer


class Told:
    """Keeps what people would have seen."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.places: list[str] = []

    def note(self, text: str) -> None:
        """Keeps it."""
        self.notes.append(text)

    def at(self, text: str) -> None:
        """Keeps it."""
        self.places.append(text)

    round = note


class Run:
    """A comparison, its server, and what was told."""

    def __init__(
        self,
        *,
        duration_s: float = 600.0,
        cycles: int | None = None,
        precision: float = 0.01,
        **server: object,
    ) -> None:
        clock = Ticking()
        self.server = TimedServer(clock, **server)  # type: ignore[arg-type]  # fields of it
        self.told, self.stop = Told(), Stop()
        wish = Wish(duration_s, cycles, precision, None, 0)
        self.timing = TimingRun(self.server, self.server.switch, wish, self.told, self.stop, clock)

    def whole(self, *, with_sync: bool = True) -> Comparison:
        """From the first look to the end."""
        if self.timing.look() is not None:
            self.timing.run(self.timing.modes(with_sync=with_sync))
        return self.timing.result()


def test_it_ends_when_the_intervals_are_narrow_enough() -> None:
    """The story's server in two rounds of twelve blocks, each mode behind each other twice."""
    run = Run()
    found = run.whole()
    assert (found.rounds, found.blocks) == (2, 24)
    asked = run.server.asked
    assert len(asked) == 1 + 24 + 1  # what leads in, and the block that ended the last one
    pairs = list(pairwise(asked[:25]))
    assert all(pairs.count((a, b)) == 2 for a in TimingMode for b in TimingMode if a is not b)
    assert "(draft → verify)" in sentences(found)[0]
    assert set(found.left_out) == {"warm_up"}
    assert 24 * 10 < found.left_out["warm_up"] <= 25 * 10


def test_warm_up_and_lead_in_do_not_count() -> None:
    """Every cycle that counts stands ten or more behind the first of its block."""
    found = Run().whole()
    counted = sum(figures.cycles for figures in found.modes)
    assert counted >= 24 * 40  # blocks have 50 cycles at least
    assert {figures.blocks for figures in found.modes} == {6}


def test_it_ends_with_the_cycles_that_were_asked_for() -> None:
    """However wide the intervals are: a precision that nothing reaches."""
    found = Run(cycles=240, precision=1e-9).whole()
    assert min(figures.cycles for figures in found.modes) >= 240
    assert found.rounds == 2


def test_it_ends_in_time() -> None:
    """After 20 s there are no two rounds yet: what came is compared."""
    run = Run(duration_s=20.0)
    found = run.whole()
    assert 20.0 <= run.timing.passed_s() < 22.0
    assert found.rounds < 2
    assert {figures.mode for figures in found.modes} == set(TimingMode)


def test_it_can_be_stopped_at_any_time() -> None:
    """Whenever that is, there is a result, at least the sentence that there is too little."""
    for cycle in (1, 40, 150, 400, 900):
        run = Run()
        stop = run.stop
        run.server.meanwhile = lambda number, at=cycle, stop=stop: (  # type: ignore[misc]  # its defaults
            stop.request() if number == at else None
        )
        assert sentences(run.whole())


def test_an_idle_server_is_told_and_waited_for() -> None:
    """After 2 s without a cycle; the comparison then goes as always."""
    run = Run(idle_s=10.0)
    found = run.whole()
    assert run.told.notes[0].startswith("The server is idle: no cycle comes.")
    assert found.rounds == 2


def test_a_server_that_stays_idle_has_nothing_to_compare() -> None:
    """The end of the time is the end, and the report says that no cycle came."""
    run = Run(duration_s=5.0, idle_s=1e6)
    assert "no cycle came" in sentences(run.whole())[0]
    assert run.server.asked == []


def test_without_device_timing_three_modes_are_compared() -> None:
    """On a CPU: off, host and sync, which is taken by the host's clock and counts as sync."""
    found = Run(device="cpu", timing="The server runs on the CPU.").whole()
    assert [figures.mode.value for figures in found.modes] == ["off", "host", "sync"]
    assert sentences(found)[0] == "There is no device timing here. The server runs on the CPU."


def test_without_sync_the_server_is_never_asked_for_it() -> None:
    """For production: no block slows the server."""
    run = Run()
    found = run.whole(with_sync=False)
    assert TimingMode.SYNC not in run.server.asked
    assert [figures.mode.value for figures in found.modes] == ["off", "host", "device"]


def test_a_comparison_ends_where_control_is_lost() -> None:
    """Who times the server otherwise meanwhile is named, and what came until then is compared."""
    run = Run()
    server = run.server

    def lose(number: int) -> None:
        server.controls = number < 700

    server.meanwhile = lose
    found = run.whole()
    assert any("Process 4711 has taken control" in note for note in run.told.notes)
    assert found.modes


@pytest.mark.parametrize("end", list(End))
def test_a_comparison_ends_with_the_session(end: End) -> None:
    """Also where the server dies in the midst of a block."""
    run = Run()
    server = run.server

    def die(number: int) -> None:
        server.end = end if number > 500 else None

    server.meanwhile = die
    assert run.whole().blocks < 24


def test_a_probe_that_was_taken_out_is_told() -> None:
    """Switching then fails, and its sentence is the last note."""
    run = Run()
    assert run.timing.look() is not None

    def refuse(*_: object) -> list[object]:
        raise SpectraceError("Rank TP0 is not traced.")

    run.timing._switch = refuse  # type: ignore[assignment]  # raises only
    run.timing.run(tuple(TimingMode))
    assert run.told.notes == ["Rank TP0 is not traced."]


def test_the_first_look_tells_what_sync_can_cost() -> None:
    """Launches of 0.87 and 28.71 ms in a cycle of 29.90: what is launched by the host is known."""
    glance = Run().timing.look()
    assert glance is not None
    assert glance.cycle_ms == pytest.approx(29.93, abs=0.01)
    assert Glance(cycle_ms=30.0, launch_ms=1.5).most_sync_costs == pytest.approx(0.05)
