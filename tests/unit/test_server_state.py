"""What the page is told about a run follows from its source, its cycles and the time."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from spectrace.model import CycleKind, TimingMode
from spectrace.server.hub import Hub, digest
from spectrace.server.state import Life, Lost, RunFacts, RunState, Source, life_of, span_s
from spectrace.server.wire import encode_cycle
from tests.helpers.stored import RUN_A, T0_NS, S, cycle_of, open_store, run_of


@pytest.mark.parametrize(
    ("source", "quiet_s", "life"),
    [
        (Source.ATTACHED, 0.9, Life.TRACING),
        (Source.ATTACHED, 1.1, Life.IDLE),
        (Source.ATTACHED, 3600, Life.IDLE),
        (Source.RECEIVED, 0.9, Life.TRACING),
        (Source.RECEIVED, 9.9, Life.IDLE),
        (Source.RECEIVED, 10.1, Life.LOST_SENDER),
        (Source.RECEIVED, math.inf, Life.LOST_SENDER),
        (Source.FILE, math.inf, Life.DETACHED),
    ],
)
def test_silence_is_idleness_and_of_a_sender_its_loss(
    source: Source, quiet_s: float, life: Life
) -> None:
    """Idle after 1 s; a sender that we cannot look at counts as lost after 10 s."""
    assert life_of(source, "host", quiet_s)[0] is life


def test_a_cycle_goes_to_the_page_with_times_from_its_start() -> None:
    """The start is in digits because JavaScript would round it; all else counts from there."""
    cycle = msgspec.json.decode(encode_cycle(cycle_of(7)))
    assert cycle["t0"] == str(T0_NS + 70_000_000)
    assert (cycle["run"], cycle["group"], cycle["n"]) == (RUN_A, "", 7)
    [rank] = cycle["ranks"]
    assert (rank["start"], rank["end"], rank["mode"]) == (0, 10_000_000, "host")
    assert rank["phases"][2] == ["verify.prepare", "host", 1_600_000, 2_400_000, 7, None]
    assert cycle["requests"][3] == {
        "id": "request-3",
        "correct": 3,
        "tokens": 4,
        "overshoot": False,
        "health": False,
    }


def test_a_rank_that_began_earlier_has_a_negative_start() -> None:
    """The first rank sets the zero."""
    cycle = cycle_of(1)
    early = msgspec.structs.replace(cycle.ranks[0], rank="TP1", start_ns=cycle.start_ns - 5)
    both = msgspec.structs.replace(cycle, ranks=(*cycle.ranks, early), requests=None)
    decoded = msgspec.json.decode(encode_cycle(both))
    assert [rank["start"] for rank in decoded["ranks"]] == [0, -5]
    assert decoded["requests"] is None


def test_rates_refer_to_the_time_that_the_cycles_span() -> None:
    """Cycles 100 to 299 of 10 ms span 2 s; never more than what was asked for, never 0."""
    cycles = [cycle_of(number) for number in range(100, 300)]
    instant = msgspec.structs.replace(cycle_of(1).ranks[0], start_ns=S, end_ns=S)
    assert span_s(cycles, 10) == 2
    assert span_s(cycles, 1.5) == 1.5
    assert span_s([msgspec.structs.replace(cycle_of(1), ranks=(instant,))], 10) > 0


def test_a_digest_names_modes_and_ranks() -> None:
    """Each once, sorted."""
    cycle = cycle_of(1)
    other = msgspec.structs.replace(cycle.ranks[0], rank="TP1", mode=TimingMode.DEVICE)
    both = msgspec.structs.replace(
        cycle, ranks=(*cycle.ranks, other), kind=CycleKind.DECODE, requests=()
    )
    found = digest([cycle, both])
    assert (found.modes, found.ranks) == (("device", "host"), ("TP0", "TP1"))


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """The time in s."""
        return self.now_s


def only_run(hub: Hub) -> RunState:
    """The state of the one run."""
    [state] = hub.state().runs
    return state


def test_an_attached_run_is_described_from_its_first_cycle_to_its_end(tmp_path: Path) -> None:
    """Tracing while cycles come, idle after, gone when told so, with all that was collected."""
    clock = Clock()
    with open_store(tmp_path) as store:
        hub = Hub(store, sink=store, clock_s=clock)
        hub.put_run(run_of(engine="sglang 0.5.23"), Source.ATTACHED)
        assert only_run(hub).state is Life.IDLE
        hub.feed(cycle_of(number) for number in range(1, 6))
        hub.tell(RUN_A, RunFacts(worker="EAGLEWorkerV2", lost=Lost(records=2), overlap=True))
        hub.pass_on()
        hub.refresh()
        state = only_run(hub)
        assert (state.state, state.source) == (Life.TRACING, Source.ATTACHED)
        assert (state.engine, state.worker) == ("sglang 0.5.23", "EAGLEWorkerV2")
        assert (state.overlap, state.lost.records, state.modes) == (True, 2, ("host",))
        assert [rank.reporting for rank in state.ranks] == [True]
        assert (state.stored.cycles, state.stored.first_n, state.stored.last_n) == (5, 1, 5)
        clock.now_s += 1.5
        assert only_run(hub).state is Life.IDLE
        hub.end(RUN_A, Life.SERVER_GONE, "The server has ended.")
        gone = only_run(hub)
        assert (gone.state, gone.message) == (Life.SERVER_GONE, "The server has ended.")
        assert gone.stored.cycles == 5
        assert store.cycles(RUN_A, limit=1) == [cycle_of(5)]


def test_cycles_of_a_run_that_nobody_put_are_left_out(tmp_path: Path) -> None:
    """The page could not say where they come from."""
    with open_store(tmp_path) as store:
        hub = Hub(store, sink=store)
        hub.feed([cycle_of(1)])
        hub.pass_on()
        assert hub.state().runs == ()
        assert store.cycles(RUN_A) == []


def test_a_problem_of_the_store_is_on_the_page(tmp_path: Path) -> None:
    """When the disk fails, the message says so, and later cycles are tried again."""
    with open_store(tmp_path) as store:
        hub = Hub(store, sink=store)
        hub.put_run(run_of(), Source.ATTACHED)
        create = store._writer._database.create

        def fail(path: Path, name: str) -> None:
            raise OSError(28, f"No space left on device for {path} as {name}")

        store._writer._database.create = fail  # type: ignore[method-assign]
        hub.feed([cycle_of(1)])
        hub.pass_on()
        hub.refresh()
        assert "No space left on device" in only_run(hub).message
        assert "on another disk (--store" in only_run(hub).message
        assert only_run(hub).lost.stored == 1
        store._writer._database.create = create  # type: ignore[method-assign]
        hub.feed([cycle_of(2)])
        hub.pass_on()
        hub.refresh()
        assert only_run(hub).message == ""
        assert (store.cycles(RUN_A), store.stats().lost) == ([cycle_of(2)], 1)


def run_ids(hub: Hub) -> set[str]:
    """The runs on the page."""
    return {run.run for run in hub.state().runs}


def test_the_run_that_was_silent_for_longest_makes_room(tmp_path: Path) -> None:
    """Of 66 runs neither the newcomers go nor the one that is traced from here."""
    clock = Clock()
    with open_store(tmp_path) as store:
        hub = Hub(store, sink=store, clock_s=clock)
        for number in range(66):
            clock.now_s += 1
            source = Source.RECEIVED if number else Source.ATTACHED
            assert hub.put_run(run_of(f"{number:032}"), source)
            hub.feed([cycle_of(1, run_id="1".zfill(32))])
        expected = {f"{number:032}" for number in range(66)} - {"2".zfill(32), "3".zfill(32)}
        assert run_ids(hub) == expected


def test_a_sender_does_not_replace_the_session_that_traces_here(tmp_path: Path) -> None:
    """While it lasts; once it has ended, the sender is wanted."""
    with open_store(tmp_path) as store:
        hub = Hub(store, sink=store)
        hub.put_run(run_of(), Source.ATTACHED)
        assert not hub.put_run(run_of(), Source.RECEIVED)
        assert only_run(hub).source is Source.ATTACHED
        hub.end(RUN_A, Life.DETACHED, "")
        assert hub.put_run(run_of(), Source.RECEIVED)
        assert only_run(hub).source is Source.RECEIVED


def test_a_run_of_which_nothing_is_stored_any_more_leaves_the_page(tmp_path: Path) -> None:
    """Its cycles were too old; the one that still sends stays."""
    clock = Clock()
    other = "b" * 32
    with open_store(tmp_path, retain_s=10, slice_s=1) as store:
        hub = Hub(store, sink=store, clock_s=clock)
        for run_id, number in ((RUN_A, 1), (other, 5000)):
            hub.put_run(run_of(run_id), Source.RECEIVED)
            hub.feed([cycle_of(number, run_id=run_id)])
            hub.pass_on()
            hub.refresh()
            clock.now_s += 20
        hub.feed([cycle_of(5001, run_id=other)])
        hub.pass_on()
        hub.refresh()
        assert run_ids(hub) == {other}


def test_a_refresh_between_feeding_and_storing_is_made_up_for(tmp_path: Path) -> None:
    """What was fed before it and stored after it is in the figures of the next one."""
    with open_store(tmp_path) as store:
        hub = Hub(store, sink=store)
        hub.put_run(run_of(), Source.RECEIVED)
        hub.feed([cycle_of(1)])
        hub.refresh()
        hub.pass_on()
        hub.refresh()
        assert only_run(hub).stored.cycles == 1
