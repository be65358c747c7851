"""Releases and shapes that no CPU runs, on simulated schedulers: rows, numbers, counts, phases."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from spectrace.collect.reader import CycleRecord, RowsRecord
from spectrace.collect.ring_view import RingView
from spectrace.model import CycleKind
from spectrace.probe.engines import sglang_rows
from spectrace.probe.layout import Command, Ph, Word
from spectrace.probe.tracer import Tracer
from tests.helpers import simulated_releases as simulated
from tests.helpers.probe_ring import decoded, make_ring
from tests.helpers.simulated_releases import Batch, Modes, NumberedBatch, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

VERIFY = [Ph.VERIFY_PREPARE, Ph.VERIFY_FORWARD, Ph.VERIFY_SAMPLE, Ph.VERIFY_COMMIT]
AFTER = [Ph.SCHEDULE, Ph.WAIT, Ph.RESULT, Ph.SCHEDULE]
IDLE_CALLS = ("on_idle", "self_check_during_idle", "check_memory")


class Traced:
    """A scheduler of a release with the tracer in it."""

    def __init__(self, path: Path, scheduler: Any) -> None:
        self.path = path
        self.scheduler = scheduler
        self.view = RingView(path)

    @property
    def info(self) -> dict[str, Any]:
        """What the probe tells of the server."""
        return self.view.info()

    def idle(self) -> None:
        """The scheduler finds nothing to do."""
        name = next(name for name in IDLE_CALLS if hasattr(self.scheduler, name))
        getattr(self.scheduler, name)()

    def cycles(self) -> list[CycleRecord]:
        """The cycles up to now."""
        self.idle()
        return [record for record in decoded(self.path) if isinstance(record, CycleRecord)]

    def correct(self) -> list[tuple[int, list[int | None]]]:
        """Numbers of cycles, with the correct drafts of their requests."""
        self.idle()
        rows = [record for record in decoded(self.path) if isinstance(record, RowsRecord)]
        return [(record.number, [row.correct_drafts for row in record.rows]) for record in rows]

    def tokens(self) -> list[list[int]]:
        """Output tokens of the requests, cycle by cycle."""
        self.idle()
        rows = [record for record in decoded(self.path) if isinstance(record, RowsRecord)]
        return [[row.output_tokens for row in record.rows] for record in rows]


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    """Where the probe writes."""
    return tmp_path / "test.ring"


@contextmanager
def traced(
    ring: Path, version: str, scheduler: Any, worker: Callable[[Any], Any]
) -> Iterator[Traced]:
    """A scheduler with a worker, which ends as it began."""
    kinds = (scheduler, simulated.Before0512, simulated.EAGLEWorker, simulated.TpModelWorker)
    before = [dict(vars(kind)) for kind in kinds]
    with simulated.release(version, scheduler):
        Tracer(make_ring(ring), lambda: None).arm()
        it = Traced(ring, scheduler(worker))
        yield it
        it.view.set_word(Word.COMMAND, Command.DETACH)
        it.idle()
        it.view.close()
    assert [dict(vars(kind)) for kind in kinds] == before


def phases(record: CycleRecord) -> list[int]:
    """The phases of a cycle in order."""
    return [phase for phase, _, _ in record.marks]


def test_a_v1_worker_of_an_old_release_shows_all_its_phases(ring: Path) -> None:
    """Draft with its one forward, the parts of verify, and draft extend, under the old names."""
    with traced(ring, "0.5.9", simulated.OldScheduler, simulated.EAGLEWorker) as it:
        it.scheduler.step(Batch([Request("a")], Modes.EXTEND))
        it.scheduler.step(Batch([Request("a")]))
        prefill, decode = it.cycles()
        drafted = [Ph.DRAFT, Ph.DRAFT_STEP, Ph.DRAFT]
        assert phases(decode) == [Ph.RESOLVE, *drafted, *VERIFY, Ph.DRAFT_EXTEND, *AFTER]
        assert phases(prefill) == [Ph.RESOLVE, Ph.FORWARD, Ph.DRAFT_EXTEND, *AFTER]
        assert (decode.kind, decode.steps, decode.topk) == (CycleKind.SPECULATIVE, 2, 1)
        assert it.info["row"] == "EAGLEWorker since 0.5.7"
        assert it.info["untried"] == ""
        assert it.info["missing"] == []


def test_v1_counts_are_the_requests_own_at_its_end_too(ring: Path) -> None:
    """Where a request ends amid accepted drafts, the server counts them all; so do we."""
    with traced(ring, "0.5.9", simulated.OldScheduler, simulated.EAGLEWorker) as it:
        request = Request("a", left=4)
        it.scheduler.step(Batch([request]))
        it.scheduler.step(Batch([request]))
        assert it.correct() == [(1, [2]), (2, [2])]
        assert it.tokens() == [[3], [1]]
        assert request.spec_accepted_tokens == 4


def test_the_oldest_release_is_counted_by_what_verify_gives_back(ring: Path) -> None:
    """In 0.4.6 neither result nor request has the counts; prefill has none."""
    worker = simulated.EAGLEWorkerOf046
    with traced(ring, "0.4.6", simulated.OldestScheduler, worker) as it:
        it.scheduler.step(Batch([Request("a")], Modes.EXTEND))
        it.scheduler.step(Batch([Request("a"), Request("b")]))
        assert it.correct() == [(1, [None]), (2, [2, 2])]
        assert it.info["row"] == "EAGLEWorker since 0.4.6"
        assert it.info["untried"].startswith("Untried: EAGLEWorker of SGLang 0.4.6")


def test_an_early_v2_worker_is_counted_by_its_lengths_on_the_cpu(ring: Path) -> None:
    """In 0.5.5 the result has only accept lengths, which count the bonus token."""
    with traced(ring, "0.5.5", simulated.OldScheduler, simulated.EAGLEWorkerV2) as it:
        it.scheduler.step(Batch([Request("a")]))
        assert it.correct() == [(1, [2])]
        assert it.tokens() == [[3]]


def test_lengths_that_are_still_on_the_device_are_left_there(
    ring: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading them would make the server wait: the counts are then unknown."""
    with traced(ring, "0.5.5", simulated.OldScheduler, simulated.EAGLEWorkerV2) as it:
        monkeypatch.setattr(simulated.CpuTensor, "is_cpu", False)
        it.scheduler.step(Batch([Request("a")]))
        assert it.correct() == [(1, [None])]


def test_results_of_old_releases_are_paired_with_their_cycles(ring: Path) -> None:
    """With overlap the result of a cycle is processed in the next; a copy of its batch comes."""
    with traced(ring, "0.5.5", simulated.OldScheduler, simulated.EAGLEWorkerV2) as it:
        request = Request("a")
        first = it.scheduler.run_batch(Batch([request]))
        second = it.scheduler.run_batch(Batch([request]))
        it.scheduler.process_batch_result(Batch([request]), first)
        it.scheduler.process_batch_result(Batch([request]), second)
        assert [number for number, _ in it.correct()] == [1, 2]
        (_, overlapping) = it.cycles()
        assert [lag for phase, lag, _ in overlapping.marks if phase == Ph.WAIT] == [1, 0]


def test_a_result_whose_cycle_ran_before_the_probe_came_is_left_out(ring: Path) -> None:
    """It is not taken for a later one's."""
    with traced(ring, "0.5.5", simulated.OldScheduler, simulated.EAGLEWorkerV2) as it:
        before = simulated.EAGLEWorkerV2(it.scheduler.tp_worker)
        earlier = before.forward_batch_generation(Batch([Request("a")]))
        result = it.scheduler.run_batch(Batch([Request("b")]))
        it.scheduler.process_batch_result(Batch([Request("a")]), earlier)
        it.scheduler.process_batch_result(Batch([Request("b")]), result)
        assert it.correct() == [(1, [2])]


def test_overlap_began_with_a_batch_without_requests_and_a_client_worker(ring: Path) -> None:
    """Up to 0.5.3: nothing is recorded of it, and the forward in another thread is named."""

    class TpModelWorkerClient(simulated.TpModelWorker):
        """Hands batches to a thread."""

    def worker(_target: Any) -> Any:
        return TpModelWorkerClient()

    with traced(ring, "0.5.2", simulated.StagedScheduler, worker) as it:
        it.scheduler.pp_size = 1
        batch = Batch([Request("a")])
        result = it.scheduler.run_batch(batch)
        it.scheduler.process_batch_result(Batch(None, Modes.DUMMY_FIRST), None)
        it.scheduler.process_batch_result(batch, result)
        (record,) = it.cycles()
        assert phases(record) == [Ph.RESOLVE, Ph.FORWARD, *AFTER]
        assert record.kind is CycleKind.DECODE
        assert it.correct() == [(1, [None])]
        assert it.tokens() == [[1]]
        assert it.info["missing"] == ["the forward itself, which another thread runs"]


def test_pipeline_stages_pair_results_by_their_batch(ring: Path) -> None:
    """A result that is made anew belongs to the last cycle of its batch; untried, and said."""
    with traced(ring, "0.5.9", simulated.StagedScheduler, lambda target: target) as it:
        it.scheduler.turn([Batch([Request("a")]), Batch([Request("b")])], turns=4)
        assert it.correct() == [(1, [None]), (2, [None]), (3, [None])]
        assert it.info["untried"].startswith("Untried: TpModelWorker of SGLang 0.5.9")


def test_pipeline_stages_of_new_releases_pair_by_number(ring: Path) -> None:
    """From 0.5.12 on the batch carries the number of its cycle, whatever result comes."""
    with traced(ring, "0.5.20", simulated.NewScheduler, simulated.MultiLayerEagleWorkerV2) as it:
        batches = [NumberedBatch([Request("a")]), NumberedBatch([Request("b")])]
        results = [it.scheduler.run_batch(batch) for batch in batches]
        for batch, result in zip(batches, results, strict=True):
            it.scheduler.process_batch_result(batch, type(result)(**vars(result)))
        assert it.correct() == [(1, [2]), (2, [2])]


def test_multi_layer_eagle_shows_its_phases_and_says_that_it_was_not_tried(ring: Path) -> None:
    """Its heads draft in draft extend; whether as a graph is not seen, and named."""
    with traced(ring, "0.5.20", simulated.NewScheduler, simulated.MultiLayerEagleWorkerV2) as it:
        it.scheduler.step(NumberedBatch([Request("a")]))
        (record,) = it.cycles()
        assert phases(record) == [Ph.RESOLVE, Ph.DRAFT, *VERIFY, Ph.DRAFT_EXTEND, *AFTER]
        assert (record.steps, record.draft_tokens) == (3, 4)
        assert it.info["row"] == "MultiLayerEagleWorkerV2 since 0.5.16"
        assert "never traced while it ran" in it.info["untried"]
        assert it.info["missing"] == ["whether draft and draft extend ran as graphs"]


def test_a_rank_without_requests_steps_along_and_stays_idle(ring: Path) -> None:
    """With DP attention a rank without a batch of its own drafts and verifies nothing."""
    with traced(ring, "0.5.20", simulated.NewScheduler, simulated.MultiLayerEagleWorkerV2) as it:
        it.scheduler.step(NumberedBatch([], Modes.IDLE))
        (record,) = it.cycles()
        assert record.kind is CycleKind.IDLE
        assert record.batch_size == 0
        assert phases(record)[: 2 + len(VERIFY)] == [Ph.RESOLVE, Ph.DRAFT, *VERIFY]


def test_a_cycle_of_no_steps_has_no_draft_and_still_verifies(ring: Path) -> None:
    """Adaptive steps may go down to 0: draft and draft extend are then not there."""
    with traced(ring, "0.5.20", simulated.NewScheduler, simulated.MultiLayerEagleWorkerV2) as it:
        worker = it.scheduler.model_worker
        it.scheduler.step(NumberedBatch([Request("a")]))
        worker.skips_drafts, worker.speculative_num_steps, worker.correct = True, 0, 0
        it.scheduler.step(NumberedBatch([Request("a")]))
        first, second = it.cycles()
        assert (first.steps, second.steps) == (3, 0)
        assert phases(second) == [Ph.RESOLVE, *VERIFY, *AFTER]
        assert it.correct() == [(1, [2]), (2, [0])]


def test_dflash_drafts_a_block_with_one_forward(ring: Path) -> None:
    """Sizes that the worker does not keep are those of the server's arguments."""
    with traced(ring, "0.5.23", simulated.NewScheduler, simulated.DFlashWorkerV2) as it:
        it.scheduler.step(NumberedBatch([Request("a")]))
        (record,) = it.cycles()
        verify = VERIFY[:3]
        drafted = [Ph.DRAFT, Ph.DRAFT_STEP]
        assert phases(record) == [Ph.RESOLVE, *drafted, *verify, Ph.DRAFT_EXTEND, *AFTER]
        assert (record.steps, record.topk, record.draft_tokens) == (1, 1, 8)
        assert it.correct() == [(1, [2])]


@pytest.mark.parametrize("version", ["0.6.1", "0.5.24.dev3+g1a2b", "1.0.0rc1", "0.5.23.post1"])
def test_a_newer_release_is_tried_with_the_newest_rows_and_marked(ring: Path, version: str) -> None:
    """What spectrace does not know yet it traces as the newest that it knows, and says so."""
    with traced(ring, version, simulated.NewScheduler, simulated.MultiLayerEagleWorkerV2) as it:
        it.scheduler.step(NumberedBatch([Request("a")]))
        assert it.correct() == [(1, [2])]
        assert it.info["engine"] == f"sglang {version}"
        assert it.info["untried"] == (
            f"SGLang {version} is none of the releases 0.4.6 to 0.5.23 that spectrace knows: "
            "traced as 0.5.23, untried."
        )


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0.5.23", (0, 5, 23, 0)),
        ("0.4.9.post4", (0, 4, 9, 4)),
        ("0.5.10rc0", (0, 5, 10, 0)),
        ("0.5.12.dev45+g0123abc", (0, 5, 12, 0)),
        ("0.5.6.post2.dev1", (0, 5, 6, 2)),
        ("0.0.0.dev0", None),
        ("release", None),
        ("", None),
    ],
)
def test_the_numbers_of_a_release(text: str, numbers: sglang_rows.Version | None) -> None:
    """Post releases count, candidates and development versions are those that they lead to."""
    assert sglang_rows.parsed(text) == numbers


def test_a_worker_that_only_derives_from_the_plain_one_is_not_taken_for_it() -> None:
    """On a server that speculates it is an unknown worker; on another it decodes."""
    kind = type("SomeWorker", (simulated.TpModelWorker,), {})
    assert not sglang_rows.choose("0.5.23", kind, speculates=True).worker
    assert sglang_rows.choose("0.5.23", kind, speculates=False).worker
