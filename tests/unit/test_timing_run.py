"""A comparison from its first look to its end, on a server whose time does not pass by itself."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest
from msgspec.structs import replace

from spectrace.analysis.timing_report import Comparison
from spectrace.attach.modes import OutpacedError
from spectrace.attach.session import End
from spectrace.cli.stopping import Stop
from spectrace.cli.timing_run import ComparisonEnd, TimingRun, Wish, glance_of
from spectrace.cli.timing_words import sentences
from spectrace.errors import SpectraceError
from spectrace.model import Cycle, Phase, PhaseName, TimingMode
from tests.helpers.timed_server import MS, Ticking, TimedServer, cycle_of


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
        precision_ends: bool = True,
        **server: object,
    ) -> None:
        self.clock = clock = Ticking()
        self.server = TimedServer(clock, **server)  # type: ignore[arg-type]  # fields of it
        self.told, self.stop = Told(), Stop()
        wish = Wish(duration_s, cycles, precision, None, 0, precision_ends)
        self.timing = TimingRun(self.server, self.server.switch, wish, self.told, self.stop, clock)

    def whole(self, *, with_sync: bool = True) -> Comparison:
        """From the first look to the end."""
        if self.timing.look() is not None:
            self.timing.run(self.timing.modes(with_sync=with_sync))
        return self.timing.result()


def test_it_ends_when_the_intervals_are_narrow_enough() -> None:
    """The story's server in two rounds of twelve blocks, the second the first one's way back."""
    run = Run()
    found = run.whole()
    assert (found.rounds, found.blocks) == (2, 24)
    asked = run.server.asked
    assert len(asked) == 1 + 24 + 1  # what leads in, and the block that ended the last one
    pairs = list(pairwise(asked[:13]))
    assert all(pairs.count((a, b)) == 1 for a in TimingMode for b in TimingMode if a is not b)
    assert asked[13:25] == asked[12:0:-1]
    assert "(draft → verify)" in sentences(found)[0]
    assert set(found.left_out) == {"warm_up"}
    assert found.left_out["warm_up"] == 24 * 10  # and none of the block that was cut off


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


def test_who_asks_for_cycles_alone_gets_them() -> None:
    """Two rounds bring 240 or more of each mode, precise enough: it goes on to 500."""
    found = Run(cycles=500, precision_ends=False).whole()
    assert min(figures.cycles for figures in found.modes) >= 500
    assert Run(cycles=500).whole().rounds == 2


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


@pytest.mark.parametrize(("pause_s", "told"), [(1.5, 0), (10.0, 1)])
def test_a_server_that_becomes_idle_in_the_midst_is_told(pause_s: float, told: int) -> None:
    """Once, after 2 s, in lines and where it stands; that place comes back with the cycles."""
    run = Run(cycles=240, precision=1e-9)
    server = run.server
    server.meanwhile = lambda number: server.pause(pause_s) if number == 500 else None
    found = run.whole()
    assert sum("No cycle has come for 2 s" in note for note in run.told.notes) == told
    waiting = [at for at, place in enumerate(run.told.places) if "no cycle comes" in place]
    assert len(waiting) == told
    for at in waiting:
        before, after = run.told.places[at - 1], run.told.places[at + 1]
        assert before == after
        assert run.told.places[at].startswith(before)
    assert found.rounds == 2


@pytest.mark.parametrize(
    ("mode", "end"), [("host", ComparisonEnd.SWITCHED), ("", ComparisonEnd.LOST_CONTROL)]
)
def test_who_decides_while_it_was_about_to_has_the_say(mode: str, end: ComparisonEnd) -> None:
    """The comparison ends, says so of itself, and gives nobody's advice to run it again at once."""
    run = Run()
    assert run.timing.look() is not None

    def outpaced(*_: object) -> list[object]:
        raise OutpacedError("Run this again if it is to be off.", mode)

    run.timing._switch = outpaced  # type: ignore[assignment]  # raises only
    run.timing.run(tuple(TimingMode))
    (note,) = run.told.notes
    assert "it ends here" in note
    assert "Run this again" not in note
    assert ("mode host" if mode else "whoever took control") in note
    assert run.timing.outpaced is end


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
    assert run.timing.outpaced is ComparisonEnd.LOST_CONTROL


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


def host_cycle(mode: TimingMode, **times_ms: float) -> Cycle:
    """A cycle of 30 ms whose host's phases take so long, one behind the other."""
    phases, at_ns = [], 0
    for name, ms in times_ms.items():
        end_ns = at_ns + round(ms * MS)
        phase = PhaseName(name.replace("__", "."))
        phases.append(Phase(name=phase, start_ns=at_ns, end_ns=end_ns, of_cycle=1))
        at_ns = end_ns
    bare = cycle_of(1, TimingMode.OFF)
    rank = replace(bare.ranks[0], mode=mode, end_ns=30 * MS, phases=tuple(phases))
    return replace(bare, ranks=(rank,))


def test_a_host_that_waits_by_name_tells_what_sync_can_cost() -> None:
    """All that it works, launches and the rest alike: 0.9 + 1.1 + 0.4 = 2.4 of 30 ms are 8 %."""
    cycle = host_cycle(TimingMode.HOST, draft=0.9, verify__forward=1.1, wait=27.6, result=0.4)
    glance = glance_of([cycle])
    assert (glance.cycle_ms, glance.works_ms, glance.mixed_ms) == pytest.approx((30.0, 2.4, 0.0))
    assert glance.most_sync_costs == pytest.approx(0.08)


def test_a_host_that_blocks_in_verify_hides_what_it_works_there() -> None:
    """What is certain is 2.4 ms; the 27.6 ms may be work as well, and then the cycle doubles."""
    cycle = host_cycle(
        TimingMode.DEVICE, draft=0.9, verify__forward=1.1, verify__sample=27.6, result=0.4
    )
    glance = glance_of([cycle])
    assert (glance.works_ms, glance.mixed_ms) == pytest.approx((2.4, 27.6))
    assert glance.likely_sync_costs == pytest.approx(0.08)
    assert glance.most_sync_costs == pytest.approx(1.0)


def test_without_phases_nothing_is_known_of_what_sync_costs() -> None:
    """The server was timed `off` before: none of its cycle's time is known to be a wait."""
    glance = glance_of([cycle_of(1, TimingMode.OFF)] * 3 + [cycle_of(2, TimingMode.HOST)])
    assert (glance.mode, glance.works_ms) == (TimingMode.OFF, 0.0)
    assert glance.most_sync_costs == 1.0


def test_the_busiest_rank_counts() -> None:
    """Requests wait for it."""
    one = host_cycle(TimingMode.HOST, draft=1.0, wait=29.0)
    other = host_cycle(TimingMode.HOST, draft=3.0, wait=27.0)
    glance = glance_of([replace(one, ranks=one.ranks + other.ranks)])
    assert glance.works_ms == pytest.approx(3.0)


def test_what_does_not_fit_is_said_at_the_start() -> None:
    """26 blocks of 50 cycles of 29.93 ms and 0.3 s take 47 s, with a fifth to spare 60 s."""
    run = Run(duration_s=20.0)
    run.whole()
    (note,) = (note for note in run.told.notes if "are the least" in note)
    assert note.startswith("2 rounds, 24 blocks, are the least, and take about 47 s")
    assert "--duration, such as 60s" in note
    assert not any("are the least" in note for note in told_by(Run()))


def test_fewer_cycles_than_the_least_rounds_bring_are_told() -> None:
    """Six blocks of each mode, 40 cycles each that count."""
    (note,) = (note for note in told_by(Run(cycles=100)) if "are the least" in note)
    assert "about 240 cycles of each mode, more than the --cycles 100" in note
    assert not any("are the least" in note for note in told_by(Run(cycles=240)))


def told_by(run: Run) -> list[str]:
    """What people were told in the whole of a comparison."""
    run.whole()
    return run.told.notes


def test_a_device_that_fails_later_is_told_and_has_its_place_in_the_report() -> None:
    """Its reason comes once, at that moment; the cycles that were asked for never are enough."""
    run = Run(cycles=100, precision=1e-9, duration_s=90.0)
    server = run.server

    def fail(number: int) -> None:
        server.timing = "Its events fail." if number >= 60 else ""

    server.meanwhile = fail
    found = run.whole()
    assert (
        run.told.notes.count(
            "Device timing has ended: its blocks bring nothing more. Its events fail."
        )
        == 1
    )
    assert found.without_data == (TimingMode.DEVICE,)
    assert found.device_timing == "Its events fail."
    assert run.timing.passed_s() >= 90.0


def test_the_time_begins_behind_the_question() -> None:
    """However long a person thinks; what else ends a comparison ends it meanwhile, too."""
    run = Run(duration_s=20.0)
    assert run.timing.look() is not None
    with run.timing.asking():
        run.clock.sleep(1000.0)
        assert not run.timing.is_over()
        run.server.end = End.SERVER_DIED
        assert run.timing.is_over()
        run.server.end = None
    assert run.timing.passed_s() == 0.0
    run.timing.run(run.timing.modes(with_sync=False))
    assert 20.0 <= run.timing.passed_s() < 22.0


def test_it_is_compared_again_where_a_quarter_more_has_come() -> None:
    """So that the work of all looks together is no more than five times that of the last."""
    run = Run(precision=1e-9, duration_s=400.0)
    found = run.whole()
    looks = [note for note in run.told.notes if "widest interval" in note]
    counts = [int(note.split(": ")[1].split()[0].replace(",", "")) for note in looks]
    assert found.rounds > 10
    assert len(looks) < found.rounds - 2
    assert all(after >= 1.24 * before for before, after in pairwise(counts))


def test_the_session_is_read_while_it_is_compared() -> None:
    """A comparison that takes long keeps no record waiting: it ends here once three looks came."""
    run = Run()
    looks = threading.Semaphore(0)
    run.server.looked = looks.release
    waited = run.timing._meanwhile(lambda: [looks.acquire(timeout=20.0) for _ in range(3)])
    assert waited == [True] * 3
