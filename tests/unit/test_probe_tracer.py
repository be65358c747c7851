"""The tracer arms, follows the control word, and never harms the server it sits in."""

from __future__ import annotations

import signal
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from spectrace.collect.reader import CycleRecord, RowsRecord, TextRecord
from spectrace.collect.ring_view import RingView
from spectrace.model import CycleKind, TimingMode
from spectrace.probe import layout, layout_window, leaving, tracer
from spectrace.probe import ring as probe_ring
from spectrace.probe.hooks import Patches
from spectrace.probe.layout import Command, Mode, Ph, RecordType, State, Word
from spectrace.probe.recorder import Recorder
from spectrace.probe.ring import RingWriter
from spectrace.probe.tracer import Tracer
from tests.helpers import simulated_scheduler as simulated
from tests.helpers.probe_ring import cycles_in, decoded, make_ring
from tests.helpers.simulated_scheduler import Batch, Request, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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
        return (
            Scheduler,
            simulated.EAGLEWorkerV2,
            simulated.DraftWorker,
            simulated.Processor,
            simulated.ModelRunner,
            simulated.TpModelWorker,
            simulated.Graph,
        )

    def assert_untouched(self) -> None:
        """Every class and module is what it was before the tracer came."""
        for kind, content in self.before.items():
            assert dict(vars(kind)) == content
        assert dict(vars(sys.modules[simulated.COMMON])) == self.common

    def _write_what_is_held_back(self) -> None:
        if self.view.word(Word.STATE) == State.TRACING:
            self.tracer.recorder.flush()

    def cycles(self) -> list[CycleRecord]:
        """The cycle records."""
        self._write_what_is_held_back()
        return cycles_in(self.path)

    def rows(self) -> list[RowsRecord]:
        """The records of results."""
        self._write_what_is_held_back()
        return [record for record in decoded(self.path) if isinstance(record, RowsRecord)]


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
    assert [phase for phase, _, _ in first.marks] == [
        Ph.RESOLVE,
        Ph.DRAFT,
        Ph.DRAFT_STEP,
        Ph.DRAFT_STEP,
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
    assert first.kind is CycleKind.SPECULATIVE
    assert (first.steps, first.topk, first.draft_tokens) == (5, 1, 6)
    assert first.graph == (False, False, False)


def test_an_idle_call_ends_the_cycle(traced: Traced) -> None:
    """Time in which nothing ran does not count as part of the last cycle."""
    traced.scheduler.step(Batch([Request("a")]))
    traced.scheduler.on_idle()
    (record,) = traced.cycles()
    assert record.ended_idle


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
    errors = [
        r for r in decoded(traced.path) if isinstance(r, TextRecord) and r.kind == RecordType.ERROR
    ]
    assert len(errors) == 1
    assert "made by the test" in traced.view.info()["error"]
    traced.assert_untouched()


def test_the_servers_exception_passes_and_the_cycle_says_so(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the server raises in a cycle reaches its own handler; the cycle is flagged."""
    error = KeyError("the server's own")

    def failing(*_: Any) -> None:
        raise error

    traced.scheduler.step(Batch([Request("a")]))
    monkeypatch.setattr(simulated.EAGLEWorkerV2, "forward_batch_generation", failing)
    with pytest.raises(KeyError) as caught:
        traced.scheduler.step(Batch([Request("a")]))
    assert caught.value is error
    traced.scheduler.on_idle()
    assert traced.cycles()[-1].incomplete


def test_an_abandoned_probe_leaves_and_removes_its_file(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a reader's heartbeat for long enough the probe goes and takes its file along.

    That of a kernel window, too, which takes more of shared memory than the ring.
    """
    path = str(traced.path).encode()
    window = traced.path.with_suffix(layout_window.SUFFIX)
    window.touch()
    traced.view._map[layout.PATH_OFFSET : layout.PATH_OFFSET + len(path)] = path
    traced.scheduler.step(Batch([Request("a")]))
    monkeypatch.setattr(probe_ring, "ABANDONED_NS", 1_000_000)
    monkeypatch.setattr(tracer, "ABANDONED_NS", 1_000_000)
    monkeypatch.setattr(probe_ring, "QUIET_NS", 0)
    monkeypatch.setattr(leaving, "QUIET_NS", 1_000_000)
    traced.view.set_word(Word.HEARTBEAT_NS, time.monotonic_ns() - 2_000_000)
    for _ in range(2):  # it misses the reader, and leaves at its next look
        traced.scheduler.step(Batch([Request("a")]))
    assert traced.view.word(Word.STATE) == State.DETACHED
    assert (traced.path.exists(), window.exists()) == (False, False)
    traced.assert_untouched()


def test_a_server_that_stood_still_waits_for_its_readers(traced: Traced) -> None:
    """A frozen container or a moved machine stops both: the reader's next sign of life counts."""
    frozen_ns = layout.ABANDONED_NS + 1_000_000_000
    for _ in range(2):
        traced.view.set_word(Word.HEARTBEAT_NS, time.monotonic_ns() - frozen_ns)
        traced.scheduler.step(Batch([Request("a")]))
        traced.scheduler.on_idle()
        assert traced.view.word(Word.STATE) == State.TRACING
        traced.view.set_word(Word.HEARTBEAT_NS, time.monotonic_ns())
        traced.scheduler.step(Batch([Request("a")]))
    assert traced.view.word(Word.STATE) == State.TRACING


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
    traced.scheduler.on_idle()
    assert traced.view.word(Word.STATE) == State.FAILED
    assert traced.forgotten
    traced.assert_untouched()


class Signalling(Request):
    """A request whose reading lets a signal of the server come in, or raises by itself."""

    raising: type[Exception] | None = None

    @property
    def finished_reason(self) -> str | None:
        """Read by the probe before results are processed."""
        if self.raising is not None:
            raise self.raising
        signal.raise_signal(signal.SIGUSR1)
        return None


def deadline(*_: object) -> None:
    """Handles a signal of the server."""
    raise TimeoutError("of the server")


class Watchdog:
    """Handles it as an object."""

    def __call__(self, *_: object) -> None:
        """Raises what the server wants."""
        raise TimeoutError("of the server")

    def bark(self, *_: object) -> None:
        """Raises what the server wants."""
        raise TimeoutError("of the server")


@pytest.mark.parametrize("handler", [deadline, partial(deadline), Watchdog(), Watchdog().bark])
def test_what_a_signal_handler_of_the_server_raises_is_the_servers(
    traced: Traced, handler: Callable[..., None]
) -> None:
    """An Exception too goes on to the server, and the probe stays."""
    traced.scheduler.step(Batch([Request("a")]))
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(TimeoutError, match="of the server"):
            traced.scheduler.step(Batch([Signalling("b")]))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert traced.view.word(Word.STATE) == State.TRACING
    traced.scheduler.step(Batch([Request("c")]))
    assert traced.cycles()[-1].number == 2


def test_what_reading_raises_without_a_signal_is_the_probes(traced: Traced) -> None:
    """The server goes on as if nobody had read; the probe is out."""
    traced.scheduler.step(Batch([Request("a")]))
    request = Signalling("b")
    request.raising = TimeoutError
    traced.scheduler.step(Batch([request]))
    assert len(request.output_ids) == 3
    assert traced.view.word(Word.STATE) == State.FAILED


def test_a_cycle_that_verifies_is_speculative_in_mode_off_too(traced: Traced) -> None:
    """No phase is seen then, but plain decode, the baseline, is not spoiled by it."""
    traced.view.set_word(Word.MODE, layout.mode_word(Mode.OFF))
    traced.scheduler.step(Batch([Request("a")]))
    traced.scheduler.on_idle()
    (cycle,) = traced.cycles()
    assert (cycle.kind, cycle.steps, cycle.marks) == (CycleKind.SPECULATIVE, 5, ())


class BrokenRanges:
    """NVTX ranges that failed and are off."""

    error = "OSError: made by the test"

    def cycle_begin(self, number: int) -> None:
        """Nothing any more."""

    def phase(self, mark: int) -> None:
        """Nothing any more."""

    def cycle_end(self, number: int) -> None:
        """Nothing any more."""

    def close(self) -> None:
        """Nothing any more."""


def test_an_error_of_nvtx_is_told(traced: Traced) -> None:
    """Whoever reads the ring learns that the ranges ended, and why."""
    traced.scheduler.step(Batch([Request("a")]))
    traced.tracer.recorder.ranges = BrokenRanges()
    traced.scheduler.step(Batch([Request("a")]))
    assert traced.view.info()["ranges"] == "NVTX off: it failed with OSError: made by the test"
    assert traced.tracer.recorder.ranges is None


class NoCode:
    """A module that is loaded late, and cannot be."""

    def __getattr__(self, name: str) -> None:
        """There is no memory for it."""
        raise MemoryError(name)


def test_a_probe_that_cannot_even_leave_does_nothing_any_more(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of its own, and no code for leaving: its hooks pass everything through."""
    traced.scheduler.step(Batch([Request("a")]))
    monkeypatch.setattr(tracer, "leaving", NoCode())
    traced.tracer.recorder.ranges = BrokenRanges()
    monkeypatch.setattr(traced.tracer, "tell", lambda: 1 / 0)
    batch = Batch([Request("a")])
    traced.scheduler.step(batch)
    assert not traced.tracer.active
    assert not traced.tracer.recorder.open
    assert not traced.tracer.recorder.timing
    cycles = traced.ring.words[Word.CYCLES]
    traced.scheduler.step(batch)
    traced.scheduler.on_idle()
    assert traced.ring.words[Word.CYCLES] == cycles
    monkeypatch.undo()
    leaving.leave(traced.tracer, State.FAILED)  # for the tests that follow


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

    def forward_batch_generation(self, _batch: Batch) -> None:
        """Its turn."""
        self.verify()

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
        assert [phase for phase, _, _ in record.marks] == [
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
    """If something fails while the scheduler is being hooked, its functions are put back."""
    put = Patches.put
    hooked: list[str] = []

    def broken(patches: Patches, holder: Any, name: str, make: Callable[[Any], Any]) -> bool:
        if len(hooked) == 2:
            raise OSError("made by the test")
        hooked.append(name)
        return put(patches, holder, name, make)

    for scheduler in simulated.installed():
        before = dict(vars(scheduler))
        ring = make_ring(tmp_path / "test.ring")
        monkeypatch.setattr(Patches, "put", broken)
        with pytest.raises(OSError, match="made by the test"):
            Tracer(ring, lambda: None).arm()
        assert dict(vars(scheduler)) == before
        ring.close()


def test_overshoot_is_what_had_ended_before_its_result_came(traced: Traced) -> None:
    """A request that was finished when its result is processed gets a marked row, no tokens."""
    traced.scheduler.step(Batch([Request("a"), Request("b", done=True)]))
    (results,) = traced.rows()
    assert [(row.correct_drafts, row.output_tokens, row.overshoot) for row in results.rows] == [
        (2, 3, False),
        (2, 0, True),
    ]


def test_an_output_that_shrinks_counts_as_no_tokens(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that starts a request's output anew does not cost the tracer its life."""

    def start_anew(batch: Batch, _: Any) -> None:
        for request in batch.reqs:
            request.output_ids.clear()

    processor = traced.scheduler.batch_result_processor
    monkeypatch.setattr(processor, "_normalize_decode_outputs", start_anew)
    traced.scheduler.step(Batch([Request("a", output_ids=[1, 2, 3])]))
    (results,) = traced.rows()
    assert [row.output_tokens for row in results.rows] == [0]


def test_results_say_how_long_contexts_were_and_how_many_waited(traced: Traced) -> None:
    """Prompt and output before the cycle count, the tokens that it brings do not."""
    batch = Batch([Request("a", origin_input_ids=[1] * 7), Request("b", origin_input_ids=[1])])
    traced.scheduler.waiting_queue = [Request("c")]
    traced.scheduler.running_batch = batch
    traced.scheduler.step(batch)
    traced.scheduler.step(batch)
    first, second = traced.rows()
    assert (first.context_tokens, second.context_tokens) == ((8, 7), (14, 10))
    assert (first.queued, first.running) == (1, 2)


def test_a_graph_is_told_with_the_batch_that_it_was_made_for(tmp_path: Path) -> None:
    """Where the draft's and the target's graphs run, their parts say so."""
    for _ in simulated.installed():
        traced = Traced(tmp_path / "test.ring")
        traced.scheduler.model_worker.use_graphs(padded=8)
        traced.scheduler.step(Batch([Request("a")]))
        traced.scheduler.on_idle()
        (record,) = traced.cycles()
        assert record.graph == (True, True, True)
        assert record.padded_batch == 8
        traced.view.set_word(Word.COMMAND, Command.DETACH)
        traced.scheduler.on_idle()
        traced.view.close()
        traced.assert_untouched()


def test_a_server_without_timing_events_is_timed_by_the_host(traced: Traced) -> None:
    """Mode `device` on it is recorded as `host`, and the reason is told."""
    traced.view.set_word(Word.MODE, layout.mode_word(Mode.DEVICE))
    traced.scheduler.step(Batch([Request("a")]))
    traced.scheduler.on_idle()
    (record,) = traced.cycles()
    assert (record.mode, record.asked_mode) == (TimingMode.HOST, TimingMode.DEVICE)
    assert traced.view.info()["no_device_timing"]


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
            scheduler.on_idle = idle
            ring.close()


def test_a_signal_handlers_exception_while_leaving_reaches_the_server_and_all_is_restored(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A KeyboardInterrupt amid the steps of leaving stops none of them."""

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    traced.scheduler.step(Batch([Request("a")]))
    monkeypatch.setattr(RingWriter, "info", interrupted)
    traced.view.set_word(Word.COMMAND, Command.DETACH)
    with pytest.raises(KeyboardInterrupt):
        traced.scheduler.on_idle()
    assert traced.view.word(Word.STATE) == State.DETACHED
    assert traced.forgotten
    traced.assert_untouched()


# What is put in from outside runs `leave` below two frames of its own.
TEXT = "exec('tracer.leave()', {'tracer': tracer})"


def put_in_a_text(name: str) -> None:
    """Runs the text where code of a module of that name was at work."""
    code = f"exec({TEXT!r}, {{'tracer': tracer}})"
    exec(code, {"tracer": tracer, "__name__": name})  # noqa: S102 - as the interpreter does


def test_it_leaves_in_the_midst_of_the_servers_work_if_it_was_asked_to(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the command the same text does nothing."""
    monkeypatch.setattr(tracer, "armed", traced.tracer)
    traced.scheduler.step(Batch([Request("a")]))
    put_in_a_text("sglang.srt.managers.scheduler")
    assert traced.view.word(Word.STATE) == State.TRACING
    traced.view.set_word(Word.COMMAND, Command.DETACH)
    put_in_a_text("sglang.srt.managers.scheduler")
    assert traced.forgotten
    traced.assert_untouched()
    assert traced.view.word(Word.STATE) == State.DETACHED
    assert traced.cycles()[-1].incomplete


def test_it_does_not_leave_in_the_midst_of_its_own_work(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own code would go on with a ring that is closed; that sees the command by itself."""
    monkeypatch.setattr(tracer, "armed", traced.tracer)
    traced.view.set_word(Word.COMMAND, Command.DETACH)
    put_in_a_text("spectrace.probe.recorder")
    assert traced.view.word(Word.STATE) == State.EMPTY  # as the test made it
    traced.scheduler.on_idle()
    assert traced.forgotten


def test_every_idle_call_is_counted(traced: Traced) -> None:
    """By that an idle server is told from one that stands still, however rarely it is called."""
    for _ in range(3):
        traced.scheduler.on_idle()
    assert traced.view.word(Word.IDLE_CALLS) == 3
