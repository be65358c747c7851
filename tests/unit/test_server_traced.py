"""A traced session reaches the page: its cycles, its facts, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
import pytest

from spectrace.attach.handle import TakenOut
from spectrace.attach.pulse import Activity
from spectrace.attach.session import End, RankState, SessionFacts, Stall, TraceSession
from spectrace.attach.tapped import TappedSession
from spectrace.model import Cycle, SkippedCycles
from spectrace.server.hub import Hub
from spectrace.server.state import Life, RunState, Source
from spectrace.server.traced import PageTap, facts_of
from spectrace.store.store import CycleStore
from tests.helpers.stored import RUN_A, cycle_of, open_store, run_of


class Session:
    """Stands for a session with a server: what it gives is set by the test."""

    def __init__(self) -> None:
        self.entered = False
        self.end: End | None = None
        self.run = run_of()
        self.ready: list[Cycle] = []
        self.last_cycles: list[Cycle] = []
        self.state = "armed"
        self.activity = Activity.UNKNOWN
        self.controls = True
        self.detached = 0

    def __enter__(self) -> Session:  # noqa: PYI034 - Self came with Python 3.11
        """Puts nothing anywhere."""
        self.entered = True
        return self

    def poll(self) -> list[Cycle]:
        """What is ready."""
        ready, self.ready = self.ready, []
        return ready

    def facts(self) -> SessionFacts:
        """One rank, one record lost."""
        rank = RankState(
            name="TP0",
            pid=11,
            state=self.state,
            alive=True,
            cycles=0,
            lost_records=1,
            activity=self.activity,
        )
        return SessionFacts(
            engine=self.run.engine,
            algorithm="EAGLE3",
            worker="EAGLEWorkerV2",
            device="cuda",
            overlap=True,
            unhooked=("eagle_sample",),
            ranks=(rank,),
            lost_records=1,
            missing_cycles=2,
            errors=("TP0: first", "TP0: last."),
            timing="The server runs on the CPU, which has no timing events.",
            ranges="NVTX off",
            sample_every=10,
            controls=self.controls,
            controller_pid=41,
            skipped=SkippedCycles(cycles=9, output_tokens=20),
        )

    def stall(self) -> list[Stall]:
        """The worker is not hooked yet."""
        return [
            Stall(
                rank="TP0",
                stop_ms=0.25,
                loading_ms=1.25,
                installing_ms=0.0,
                total_ms=1.5,
                installed=False,
            )
        ]

    def detach(self) -> list[TakenOut]:
        """Finds one more cycle in the ring."""
        self.detached += 1
        self.last_cycles = [cycle_of(9)]
        return [TakenOut(removed=True, foreign=(), reason="")]


class Stage:
    """A session, the hub that it goes to, and a clock that the test moves."""

    def __init__(self, store: CycleStore) -> None:
        self.now_s = 0.0
        self.store = store
        self.session = Session()
        self.hub = Hub(store, sink=store, clock_s=self.clock)
        self.paged = self.tapped()

    def tapped(self) -> TappedSession:
        """The session with the page following it."""
        return TappedSession(cast("TraceSession", self.session), [PageTap(self.hub)], self.clock)

    def clock(self) -> float:
        """The time in s."""
        return self.now_s

    def state(self) -> RunState:
        """The state of the run on the page."""
        [state] = self.hub.state().runs
        return state


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A stage with an empty store."""
    with open_store(tmp_path) as store:
        yield Stage(store)


def test_the_run_is_on_the_page_as_soon_as_the_probe_is_in(stage: Stage) -> None:
    """Its facts are there before its first cycle."""
    with stage.paged:
        state = stage.state()
        assert stage.session.entered
        assert (state.source, state.state) == (Source.ATTACHED, Life.IDLE)
        assert (state.worker, state.algorithm, state.overlap) == ("EAGLEWorkerV2", "EAGLE3", True)
        assert (state.lost.records, state.lost.missing) == (1, 2)
        assert state.message == "TP0: last."
        assert [rank.reporting for rank in state.ranks] == [False]


def test_how_the_run_is_traced_is_on_the_page(stage: Stage) -> None:
    """What is not seen, what attaching cost, why there is no device lane, what was sampled."""
    with stage.paged:
        state = stage.state()
        assert state.notes == (
            "Not seen in this release: eagle_sample.",
            "NVTX off.",
            "Attaching held up TP0 for 1.50 ms so far; its worker is hooked at its next cycle.",
        )
        assert state.timing == "The server runs on the CPU, which has no timing events."
        assert (state.sample_every, state.skipped.cycles) == (10, 9)


def test_who_controls_and_who_stands_still_is_on_the_page(stage: Stage) -> None:
    """In the sentences for people."""
    facts = stage.session.facts()
    rank = msgspec.structs.replace(facts.ranks[0], activity=Activity.STILL, quiet_s=12.0)
    still = msgspec.structs.replace(facts, ranks=(rank,))
    assert (
        "The scheduler of TP0 (process 11) has not come round for 12 s" in facts_of(still).message
    )
    reading = msgspec.structs.replace(facts, controls=False, controller_pid=41)
    assert "Reading along: process 41 controls" in facts_of(reading).message


def test_behind_the_end_it_is_not_said_who_controls_or_stands_still(stage: Stage) -> None:
    """That was so until then; what went wrong stays."""
    stage.session.controls = False
    stage.session.activity = Activity.STILL
    with stage.paged:
        assert "Reading along: process 41 controls" in stage.state().message
        assert "has not come round" in stage.state().message
        stage.paged.detach()
    assert stage.state().message == "Tracing was ended. TP0: last."


def test_what_is_polled_goes_to_both_sides(stage: Stage) -> None:
    """The follower gets the cycles, and so does the store behind the page."""
    with stage.paged:
        stage.session.ready = [cycle_of(1), cycle_of(2)]
        assert stage.paged.poll() == [cycle_of(1), cycle_of(2)]
        stage.hub.pass_on()
        assert stage.store.cycles(RUN_A) == [cycle_of(2), cycle_of(1)]
        assert stage.state().state is Life.TRACING


def test_facts_are_told_twice_a_second(stage: Stage) -> None:
    """The engine and the rank's state arrive with the first poll after half a second."""
    with stage.paged:
        stage.session.run = run_of(engine="sglang 0.5.23")
        stage.session.state = "tracing"
        stage.now_s = 0.4
        stage.paged.poll()
        assert stage.state().engine == ""
        stage.now_s = 0.6
        stage.paged.poll()
        state = stage.state()
        assert (state.engine, state.ranks[0].reporting) == ("sglang 0.5.23", True)


@pytest.mark.parametrize(
    ("end", "life"),
    [
        (None, Life.DETACHED),
        (End.SERVER_DIED, Life.SERVER_GONE),
        (End.TAKEN_OUT, Life.DETACHED),
        (End.PROBE_FAILED, Life.DETACHED),
    ],
)
def test_the_end_is_on_the_page_with_all_that_was_measured(
    stage: Stage, end: End | None, life: Life
) -> None:
    """Also with the cycle that was still in the ring; leaving twice says the same."""
    with stage.paged:
        stage.session.end = end
        assert stage.paged.detach() == [TakenOut(removed=True, foreign=(), reason="")]
        stage.session.end = End.SERVER_DIED
    stage.hub.pass_on()
    state = stage.state()
    assert state.state is life
    assert state.message.endswith("TP0: last.")
    assert "server has ended" not in state.message  # the page says so of itself
    assert stage.store.cycles(RUN_A) == [cycle_of(9)]
    assert stage.paged.last_cycles == [cycle_of(9)]


def test_a_run_that_is_traced_again_is_no_longer_ended(stage: Stage) -> None:
    """A second session with the same server shows it as traced, with its old cycles."""
    with stage.paged:
        pass
    assert stage.state().state is Life.DETACHED
    stage.now_s = 5
    with stage.tapped():
        assert stage.state().state is Life.IDLE
