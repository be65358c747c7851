"""Schedulers shaped like those of releases and shapes that no CPU can run, and their modules.

Of each only what the table of releases names; the counts are what the test gives. What a real
server can show is tested on a real server.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from spectrace.probe.engines import sglang as engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SPECULATIVE = "sglang.srt.speculative."
Modes = IntEnum("Modes", ["EXTEND", "DECODE", "MIXED", "IDLE", "DUMMY_FIRST"])
Algorithms = IntEnum("Algorithms", ["NONE", "EAGLE3", "NGRAM", "DFLASH"])


@dataclass
class Request:
    """A request, which may have counters of its own."""

    rid: str
    left: int = 100  # tokens that it may still get
    output_ids: list[int] = field(default_factory=list)
    origin_input_ids: list[int] = field(default_factory=list)
    finished_reason: str | None = None
    is_retracted: bool = False
    spec_verify_ct: int = 0
    spec_accepted_tokens: int = 0
    spec_num_correct_drafts: int = 0

    def take(self, tokens: int) -> int:
        """Gets so many tokens, or as many as it may: how many these were."""
        taken = min(tokens, self.left)
        self.left -= taken
        self.output_ids.extend([0] * taken)
        if not self.left:
            self.finished_reason = "length"
        return taken


@dataclass
class Batch:
    """What old releases give `run_batch`: it carries no number."""

    reqs: list[Request] | None
    forward_mode: Modes = Modes.DECODE


@dataclass
class NumberedBatch(Batch):
    """That of newer ones."""

    forward_iter: int = 0


class CpuTensor:
    """Numbers that the server has copied to the CPU."""

    is_cpu = True

    def __init__(self, values: list[int]) -> None:
        self.values = values

    def tolist(self) -> list[int]:
        """The numbers."""
        return self.values


class ModelRunner:
    """Runs a model."""

    def forward(self) -> None:
        """Once."""


class TpModelWorker:
    """Has the target model."""

    def __init__(self) -> None:
        self.model_runner = ModelRunner()

    def forward_batch_generation(self, *_: Any, **__: Any) -> Any:
        """Runs it."""
        self.model_runner.forward()
        return SimpleNamespace()


class EagleVerifyInput:
    """What V1 workers and the first V2 workers verify with."""

    def verify(self, reqs: list[Request], correct: int) -> list[int]:
        """Hands out the tokens; the list is cut where a request ends, its counters are not."""
        cut = []
        for request in reqs:
            cut.append(request.take(correct + 1) - 1)
            request.spec_verify_ct += 1
            request.spec_accepted_tokens += correct
            request.spec_num_correct_drafts += correct
        return cut

    def sample(self) -> None:
        """Of a V2 worker."""


class EAGLEWorker(TpModelWorker):
    """V1: one worker that does all."""

    speculative_num_steps = 2
    topk = 1
    speculative_num_draft_tokens = 3

    def __init__(self, target_worker: TpModelWorker, correct: int = 2) -> None:
        super().__init__()
        self.target_worker = target_worker
        self.draft_model_runner = ModelRunner()
        self.correct = correct

    def forward_batch_generation(self, batch: Any) -> Any:
        """A prefill or a decode."""
        if batch.forward_mode == Modes.EXTEND:
            self.target_worker.forward_batch_generation(batch)
            self.forward_draft_extend()
            return SimpleNamespace(accept_length_per_req_cpu=None)
        self.draft()
        _, output = self.verify(batch)
        self.forward_draft_extend_after_decode()
        return SimpleNamespace(accept_length_per_req_cpu=output.accept_length_per_req_cpu)

    def draft(self) -> None:
        """All steps."""
        self.draft_forward()

    def draft_forward(self) -> None:
        """The one forward that two steps take."""
        self.draft_model_runner.forward()

    def verify(self, batch: Any) -> tuple[None, Any]:
        """The verify output stands in second place."""
        self.target_worker.forward_batch_generation(batch, is_verify=True)
        counts = EagleVerifyInput().verify(batch.reqs, self.correct)
        return None, SimpleNamespace(accept_length_per_req_cpu=counts)

    def forward_draft_extend(self) -> None:
        """After a prefill."""

    def forward_draft_extend_after_decode(self) -> None:
        """After verify."""


class EAGLEWorkerOf046(EAGLEWorker):
    """The same under the name that its whole turn had."""

    def forward_batch_speculative_generation(self, batch: Any) -> Any:
        """A prefill or a decode; the result has no counts."""
        EAGLEWorker.forward_batch_generation(self, batch)
        return SimpleNamespace()


class EagleDraftWorker:
    """Drafts for a V2 worker."""

    def __init__(self) -> None:
        self.draft_runner = ModelRunner()

    def draft(self) -> None:
        """Here the heads have drafted already, in draft extend."""

    def draft_forward(self) -> None:
        """Not called."""

    def _draft_extend_for_prefill(self) -> None:
        """After a prefill."""

    def _draft_extend_for_decode(self) -> None:
        """After verify."""


class MultiLayerEagleWorkerV2:
    """Has a head for each step."""

    speculative_num_steps = 3
    topk = 1
    speculative_num_draft_tokens = 4

    def __init__(self, target_worker: TpModelWorker, correct: int = 2) -> None:
        self.target_worker = target_worker
        self.draft_worker = EagleDraftWorker()
        self.correct = correct
        self.skips_drafts = False

    def forward_batch_generation(self, batch: Any) -> Any:
        """A prefill or a decode."""
        if batch.forward_mode == Modes.EXTEND:
            self.target_worker.forward_batch_generation(batch)
            self.draft_worker._draft_extend_for_prefill()
            return SimpleNamespace(num_correct_drafts_per_req_cpu=None)
        if not self.skips_drafts:
            self.draft_worker.draft()
        self.verify(batch)
        if not self.skips_drafts:
            self.draft_worker._draft_extend_for_decode()
        counts = [self.correct] * len(batch.reqs)
        return SimpleNamespace(
            num_correct_drafts_per_req_cpu=counts,
            accept_lens=CpuTensor([count + 1 for count in counts]),
        )

    def verify(self, batch: Any) -> None:
        """Calls what it looks up in the module that all share."""
        self.target_worker.forward_batch_generation(batch, is_verify=True)
        module: Any = sys.modules[SPECULATIVE + "eagle_worker_common"]
        module.eagle_sample()


class EAGLEWorkerV2(MultiLayerEagleWorkerV2):
    """The usual one, with the same outline."""

    def verify(self, batch: Any) -> None:
        """As before 0.5.14."""
        self.target_worker.forward_batch_generation(batch, is_verify=True)
        EagleVerifyInput().sample()


class DFlashVerifyInput:
    """What DFlash verifies with."""

    def prepare_for_verify(self) -> None:
        """Before the target model runs."""


class DFlashWorkerV2:
    """Drafts a block with one forward; what it lacks it asks its target worker for."""

    speculative_num_draft_tokens = 8

    def __init__(self, target_worker: TpModelWorker, correct: int = 2) -> None:
        self.target_worker = target_worker
        self.draft_model_runner = ModelRunner()
        self.correct = correct

    def __getattr__(self, name: str) -> Any:
        """What the target worker has under that name."""
        return getattr(self.target_worker, name)

    def forward_batch_generation(self, batch: Any) -> Any:
        """A decode."""
        self._ensure_draft_block_buffers()
        self.draft_model_runner.forward()
        DFlashVerifyInput().prepare_for_verify()
        self.target_worker.forward_batch_generation(batch, is_verify=True)
        self._append_target_hidden_to_draft_kv_by_loc()
        return SimpleNamespace(num_correct_drafts_per_req_cpu=[self.correct] * len(batch.reqs))

    def _ensure_draft_block_buffers(self) -> None:
        """What a decode begins with."""

    def _append_target_hidden_to_draft_kv_by_loc(self) -> None:
        """The draft takes in what was accepted."""


class Allocator:
    """Of the cache."""

    def free_group_begin(self) -> None:
        """Called first once the results of a decode are there."""


class TreeCache:
    """Of prefixes."""

    def cache_unfinished_req(self) -> None:
        """Called for each request of a prefill."""

    def cache_finished_req(self) -> None:
        """And for each that has ended."""


class Processor:
    """Processes results, from 0.5.13 on."""

    def _normalize_decode_outputs(self, batch: Any, result: Any) -> None:
        counts = result.num_correct_drafts_per_req_cpu
        for place, request in enumerate(batch.reqs):
            if request.finished_reason is None:
                request.take(counts[place] + 1 if counts else 1)

    def move_logprobs_to_cpu(self) -> None:
        """Of a prefill."""


class Before0512:
    """Batches have no numbers, and the result of a decode is ready when a group is opened."""

    spec_algorithm = Algorithms.EAGLE3
    pp_size = 1

    def __init__(self, worker: Callable[[TpModelWorker], Any]) -> None:
        self.tp_worker = TpModelWorker()
        self.draft_worker = self.model_worker = worker(self.tp_worker)
        self.token_to_kv_pool_allocator = Allocator()
        self.tree_cache = TreeCache()
        self.server_args = SimpleNamespace(
            speculative_num_steps=7, speculative_eagle_topk=2, speculative_num_draft_tokens=9
        )
        self.waiting_queue: list[Request] = []
        self.running_batch: Any = None
        self.forward_ct = 0

    def run_batch(self, batch: Any) -> Any:
        """One cycle."""
        self.forward_ct += 1
        return self.model_worker.forward_batch_generation(batch)

    def process_batch_result(self, batch: Any, result: Any, _launch_done: Any = None) -> None:
        """V1 workers have handed out the tokens of a decode; those of V2 are handed out here."""
        if result is None:  # the dummy batch with which overlap began
            return
        self.token_to_kv_pool_allocator.free_group_begin()
        if batch.forward_mode == Modes.EXTEND or self.spec_algorithm == Algorithms.NONE:
            for request in batch.reqs:
                request.take(1)
        elif isinstance(self.model_worker, EAGLEWorkerV2):
            self._resolve_spec_overlap_token_ids(batch, result)

    def _resolve_spec_overlap_token_ids(self, batch: Any, result: Any) -> None:
        for request, length in zip(batch.reqs, result.accept_lens.tolist(), strict=True):
            request.take(length)

    def step(self, batch: Any) -> None:
        """One turn of the loop."""
        self.process_batch_result(batch, self.run_batch(batch))


class OldScheduler(Before0512):
    """0.4.10 to 0.5.10."""

    def self_check_during_idle(self) -> None:
        """Nothing to do."""


class OldestScheduler(Before0512):
    """0.4.6: the draft worker is called under another name, when there is nothing to check."""

    def __init__(self, worker: Callable[[TpModelWorker], Any]) -> None:
        super().__init__(worker)
        del self.model_worker

    def run_batch(self, batch: Any) -> Any:
        """One cycle."""
        self.forward_ct += 1
        return self.draft_worker.forward_batch_speculative_generation(batch)

    def process_batch_result(self, batch: Any, result: Any, _launch_done: Any = None) -> None:
        """V1 workers have handed out the tokens."""
        del result
        self.token_to_kv_pool_allocator.free_group_begin()
        if batch.forward_mode == Modes.EXTEND:
            for request in batch.reqs:
                request.take(1)

    def check_memory(self) -> None:
        """What it does while idle."""


class StagedScheduler(OldScheduler):
    """With pipeline stages: a batch for each, and results that are made anew on their way."""

    pp_size = 2
    spec_algorithm = Algorithms.NONE

    def turn(self, batches: list[Batch], turns: int) -> None:
        """Runs the batches in turn; each result is processed before its batch runs again."""
        for turn in range(turns):
            self.run_batch(batches[turn % 2])
            if turn:
                self.process_batch_result(batches[(turn + 1) % 2], SimpleNamespace())


class NewScheduler:
    """From 0.5.13 on."""

    spec_algorithm = Algorithms.EAGLE3

    def __init__(self, worker: Callable[[TpModelWorker], Any]) -> None:
        self.tp_worker = TpModelWorker()
        self.model_worker = worker(self.tp_worker)
        self.batch_result_processor = Processor()
        self.server_args = SimpleNamespace(speculative_num_steps=1, speculative_eagle_topk=1)
        self.forward_ct = 0

    def run_batch(self, batch: Any) -> Any:
        """One cycle."""
        self.forward_ct += 1
        batch.forward_iter = self.forward_ct
        return self.model_worker.forward_batch_generation(batch)

    def process_batch_result(self, batch: Any, result: Any) -> None:
        """Hands out the tokens."""
        if batch.forward_mode == Modes.DECODE:
            self.batch_result_processor._normalize_decode_outputs(batch, result)

    def on_idle(self) -> None:
        """Nothing to do."""

    def step(self, batch: Any) -> None:
        """One turn of the loop."""
        self.process_batch_result(batch, self.run_batch(batch))


def sample() -> None:
    """Stands for eagle_sample."""


@contextlib.contextmanager
def release(version: str, scheduler: type) -> Iterator[None]:
    """Puts the modules of a release in place, and takes them out again."""
    names = ("eagle_info", "eagle_utils", "eagle_worker_common", "dflash_info")
    modules: dict[str, Any] = {SPECULATIVE + name: ModuleType(name) for name in names}
    modules |= {name: ModuleType(name) for name in ("sglang", engine.SCHEDULER_MODULE)}
    modules["sglang"].__version__ = version
    modules[engine.SCHEDULER_MODULE].Scheduler = scheduler
    for name in ("eagle_info", "eagle_utils"):
        modules[SPECULATIVE + name].EagleVerifyInput = EagleVerifyInput
    modules[SPECULATIVE + "dflash_info"].DFlashVerifyInput = DFlashVerifyInput
    modules[SPECULATIVE + "eagle_worker_common"].eagle_sample = sample
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
