"""The tracer arms, follows the control word, and never harms the server it sits in."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from spectrace.collect.ring_view import RingView
from spectrace.probe import layout, tracer
from spectrace.probe.layout import Command, CycleFlag, Kind, Ph, RecordType, State, Word
from spectrace.probe.recorder import Recorder
from spectrace.probe.ring import RingWriter
from spectrace.probe.tracer import Tracer
from tests.helpers import simulated_scheduler as simulated
from tests.helpers.probe_ring import make_ring, raw_slots
from tests.helpers.simulated_scheduler import Batch, Request, Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Traced:
    """A simulated scheduler with the tracer in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.forgotten = False
        self.before = {kind: dict(vars(kind)) for kind in self.kinds()}
        self.common = dict(vars(sys.modules[simulated.COMMON]))
        self.ring = make_ring(path)
        self.tracer = Tracer(self.ring, self._forget)
        self.tracer.arm()
        self.scheduler = Scheduler()
        self.view = RingView(path)

    def _forget(self) -> None:
        self.forgotten = True

    @staticmethod
    def kinds() -> tuple[type, ...]:
        """The classes that the probe may touch."""
        return (Scheduler, simulated.EAGLEWorkerV2, simulated.DraftWorker, simulated.Processor)

    def assert_untouched(self) -> None:
        """Every class and module is what it was before the tracer came."""
        for kind, content in self.before.items():
            assert dict(vars(kind)) == content
        assert dict(vars(sys.modules[simulated.COMMON])) == self.common

    def cycles(self) -> list[tuple[Any, ...]]:
        """Unpacked cycle records."""
        slots = raw_slots(self.path)
        return [layout.CYCLE.unpack_from(s) for s in slots if s[8] == RecordType.CYCLE]


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    """A scheduler with the tracer armed."""
    for _ in simulated.installed():
        it = Traced(tmp_path / "test.ring")
        yield it
        it.view.set_word(Word.COMMAND, Command.DETACH)
        it.scheduler.on_idle()
        it.view.close()
        it.assert_untouched()


def test_a_cycle_has_all_its_phases_in_order(traced: Traced) -> None:
    """One decode marks every phase of the plain scheduler, once, in the order of the code."""
    batch = Batch([Request("a")])
    traced.scheduler.step(batch)
    traced.scheduler.step(batch)
    first = traced.cycles()[0]
    assert list(bytes(first[15])[: first[13]]) == [
        Ph.RESOLVE,
        Ph.DRAFT,
        Ph.VERIFY_PREPARE,
        Ph.VERIFY_FORWARD,
        Ph.VERIFY_SAMPLE,
        Ph.VERIFY_COMMIT,
        Ph.DRAFT_EXTEND,
        Ph.SCHEDULE,
        Ph.WAIT,
        Ph.RESULT,
        Ph.SCHEDULE,
    ]
    assert first[2] == Kind.SPECULATIVE
    assert first[10:13] == (5, 1, 6)


def test_an_idle_call_ends_the_cycle(traced: Traced) -> None:
    """Time in which nothing ran does not count as part of the last cycle."""
    traced.scheduler.step(Batch([Request("a")]))
    traced.scheduler.on_idle()
    (record,) = traced.cycles()
    assert record[4] == CycleFlag.ENDED_IDLE


def test_detach_restores_every_function_at_the_next_boundary(traced: Traced) -> None:
    """After the control word says detach, the next `run_batch` runs untraced."""
    batch = Batch([Request("a")])
    traced.scheduler.step(batch)
    traced.view.set_word(Word.COMMAND, Command.DETACH)
    traced.scheduler.step(batch)
    traced.assert_untouched()
    assert traced.view.word(Word.STATE) == State.DETACHED
    assert traced.forgotten
    assert len(traced.cycles()) == 1
    assert traced.scheduler.forward_ct == 2


def test_an_error_of_the_probe_takes_it_out_and_the_server_goes_on(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken probe writes one error record and restores the functions; results are right."""

    def broken(*_: Any) -> None:
        raise RuntimeError("made by the test")

    traced.scheduler.step(Batch([Request("a")]))
    monkeypatch.setattr(Recorder, "results", broken)
    request = Request("b")
    traced.scheduler.step(Batch([request]))
    assert len(request.output_ids) == 3
    assert traced.view.word(Word.STATE) == State.FAILED
    errors = [s for s in raw_slots(traced.path) if s[8] == RecordType.ERROR]
    assert len(errors) == 1
    assert "made by the test" in traced.view.info()["error"]
    traced.assert_untouched()


def test_the_servers_exception_passes_and_the_cycle_says_so(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the server raises in a cycle reaches its own handler; the cycle is flagged."""
    error = KeyError("the server's own")

    def failing(_: Any) -> None:
        raise error

    traced.scheduler.step(Batch([Request("a")]))
    monkeypatch.setattr(simulated.EAGLEWorkerV2, "cycle", failing)
    with pytest.raises(KeyError) as caught:
        traced.scheduler.step(Batch([Request("a")]))
    assert caught.value is error
    traced.scheduler.on_idle()
    assert traced.cycles()[-1][4] & CycleFlag.RAISED


def test_an_abandoned_probe_leaves_and_removes_its_file(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a reader's heartbeat for long enough the probe goes and takes its file along."""
    path = str(traced.path).encode()
    traced.view._map[layout.PATH_OFFSET : layout.PATH_OFFSET + len(path)] = path
    traced.scheduler.step(Batch([Request("a")]))
    monkeypatch.setattr(tracer, "ABANDONED_NS", 1_000_000)
    monkeypatch.setattr(tracer, "QUIET_NS", 1_000_000)
    traced.view.set_word(Word.HEARTBEAT_NS, time.monotonic_ns() - 2_000_000)
    traced.scheduler.step(Batch([Request("a")]))
    assert traced.view.word(Word.STATE) == State.DETACHED
    assert not traced.path.exists()
    traced.assert_untouched()


def test_a_probe_whose_ring_fails_still_raises_nothing(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the error cannot be written down, the server goes on and is restored."""

    def broken(*_: Any, **__: Any) -> None:
        raise OSError("made by the test")

    traced.scheduler.step(Batch([Request("a")]))
    for name in ("cycle", "rows", "text", "info", "close"):
        monkeypatch.setattr(RingWriter, name, broken)
    request = Request("b")
    traced.scheduler.step(Batch([request]))
    assert len(request.output_ids) == 3
    assert traced.view.word(Word.STATE) == State.FAILED
    assert traced.forgotten
    traced.assert_untouched()


def test_a_told_probe_without_a_reader_takes_its_file_along(traced: Traced) -> None:
    """Who told it to leave has gone meanwhile: the probe removes its file itself."""
    path = str(traced.path).encode()
    traced.view._map[layout.PATH_OFFSET : layout.PATH_OFFSET + len(path)] = path
    traced.view.set_word(Word.COMMAND, Command.DETACH)
    traced.view.set_word(Word.HEARTBEAT_NS, time.monotonic_ns() - layout.QUIET_NS - 1)
    traced.scheduler.on_idle()
    assert not traced.path.exists()
    traced.assert_untouched()


class StrangeWorker:
    """A worker that no row knows, with a verify of its own."""

    speculative_num_steps = 3
    topk = 1
    speculative_num_draft_tokens = 4

    def forward_batch_generation(self) -> None:
        """Its turn."""
        self.verify()

    def cycle(self) -> None:
        """What the simulated scheduler calls."""
        self.forward_batch_generation()

    def verify(self) -> None:
        """Its own way."""


def test_an_unknown_worker_is_named_and_no_phase_is_guessed(tmp_path: Path) -> None:
    """Of a worker without a row only its turn and its verify are told, and it says so."""
    for _ in simulated.installed():
        traced = Traced(tmp_path / "test.ring")
        traced.scheduler.model_worker = StrangeWorker()  # type: ignore[assignment] # the point
        traced.scheduler.step(Batch([Request("a")]))
        traced.scheduler.on_idle()
        (record,) = traced.cycles()
        assert list(bytes(record[15])[: record[13]]) == [
            Ph.RESOLVE,
            Ph.FORWARD,
            Ph.VERIFY,
            Ph.FORWARD,
            Ph.SCHEDULE,
            Ph.WAIT,
            Ph.RESULT,
            Ph.SCHEDULE,
        ]
        assert traced.view.info()["known_worker"] is False
        assert traced.view.info()["worker"] == "StrangeWorker"
        traced.view.set_word(Word.COMMAND, Command.DETACH)
        traced.scheduler.on_idle()
        traced.view.close()


def test_a_place_that_a_release_lacks_is_named_and_the_rest_is_traced(tmp_path: Path) -> None:
    """Without the result processor cycles are still timed; what is missing is told."""
    for _ in simulated.installed():
        traced = Traced(tmp_path / "test.ring")
        processor = traced.scheduler.batch_result_processor
        del traced.scheduler.batch_result_processor
        traced.scheduler.run_batch(Batch([Request("a")]))
        traced.scheduler.on_idle()
        assert len(traced.cycles()) == 1
        assert "batch_result_processor.move_logprobs_to_cpu" in traced.view.info()["missing"]
        traced.scheduler.batch_result_processor = processor
        traced.view.set_word(Word.COMMAND, Command.DETACH)
        traced.scheduler.on_idle()
        traced.view.close()


def test_an_arming_that_fails_half_way_leaves_nothing_wrapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the ring fails while the scheduler is being hooked, its functions are put back."""

    def broken(*_: Any) -> None:
        raise OSError("made by the test")

    for scheduler in simulated.installed():
        before = dict(vars(scheduler))
        ring = make_ring(tmp_path / "test.ring")
        monkeypatch.setattr(RingWriter, "info", broken)
        with pytest.raises(OSError, match="made by the test"):
            Tracer(ring, lambda: None).arm()
        assert dict(vars(scheduler)) == before
        ring.close()


def test_overshoot_is_what_had_ended_before_its_result_came(traced: Traced) -> None:
    """A request that was finished when its result is processed gets a marked row, no tokens."""
    traced.scheduler.step(Batch([Request("a"), Request("b", done=True)]))
    (slot,) = [s for s in raw_slots(traced.path) if s[8] == RecordType.ROWS]
    rows = [
        layout.ROW.unpack_from(slot, layout.ROWS_HEAD.size + i * layout.ROW.size) for i in (0, 1)
    ]
    assert [(correct, tokens, flags) for _, correct, tokens, flags in rows] == [
        (2, 3, 0),
        (2, 0, layout.RowFlag.OVERSHOOT),
    ]


def test_a_process_without_a_scheduler_is_refused(tmp_path: Path) -> None:
    """Where no known engine is loaded, arming says so and touches nothing."""
    ring = make_ring(tmp_path / "test.ring")
    with pytest.raises(LookupError, match="not loaded"):
        Tracer(ring, lambda: None).arm()
    ring.close()


def test_a_scheduler_without_a_known_function_is_refused_untouched(tmp_path: Path) -> None:
    """A release that lacks a function of the scheduler is named, and nothing stays wrapped."""
    for scheduler in simulated.installed():
        run_batch = vars(scheduler)["run_batch"]
        idle = vars(scheduler)["on_idle"]
        del scheduler.on_idle
        ring = make_ring(tmp_path / "test.ring")
        try:
            with pytest.raises(LookupError, match=r"Scheduler\.on_idle"):
                Tracer(ring, lambda: None).arm()
            assert vars(scheduler)["run_batch"] is run_batch
        finally:
            scheduler.on_idle = idle  # type: ignore[method-assign] # as it was
            ring.close()
