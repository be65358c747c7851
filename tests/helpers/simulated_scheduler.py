"""A scheduler shaped like SGLang's, small enough to provoke what a real one rarely does.

It has the names that the engine table asks for and nothing else; the counts come from a
list that the test gives. Used only for the probe's error paths: whatever the real server can
show is tested on the real server.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from enum import IntEnum
from types import ModuleType
from typing import TYPE_CHECKING, Any

from spectrace.probe.engines import sglang as engine

if TYPE_CHECKING:
    from collections.abc import Iterator


class ForwardMode(IntEnum):
    """The names that matter of SGLang's enum."""

    EXTEND = 1
    DECODE = 2


class Algorithm(IntEnum):
    """How a server speculates."""

    NONE = 1
    EAGLE3 = 2


@dataclass
class Request:
    """One request of a batch."""

    rid: str
    output_ids: list[int] = field(default_factory=list)
    is_retracted: bool = False
    done: bool = False
    finished_len: int | None = None
    origin_input_ids: list[int] = field(default_factory=list)

    @property
    def finished_reason(self) -> str | None:
        """Why the request has ended."""
        return "length" if self.done else None


@dataclass
class Batch:
    """What `run_batch` is given."""

    reqs: list[Request]
    forward_mode: ForwardMode = ForwardMode.DECODE
    forward_iter: int = 0


@dataclass
class Result:
    """What `run_batch` gives back."""

    num_correct_drafts_per_req_cpu: list[int]
    can_run_cuda_graph: bool = False


class ModelRunner:
    """Runs a model."""

    def __init__(self) -> None:
        self.decode_cuda_graph_runner: Graph | None = None

    def forward(self) -> None:
        """Eagerly."""


class Graph:
    """Runs a part of a cycle as a CUDA graph."""

    def __init__(self, bs: int) -> None:
        self.bs = bs

    def execute(self) -> None:
        """Replays it."""


class TpModelWorker:
    """Has the target model."""

    def __init__(self) -> None:
        self.model_runner = ModelRunner()

    def forward_batch_generation(self, _batch: Batch | None = None) -> None:
        """Runs it."""
        self.model_runner.forward()


class DraftWorker:
    """Drafts."""

    def __init__(self) -> None:
        self.draft_runner = ModelRunner()
        self.cuda_graph_runner: Graph | None = None
        self.cuda_graph_runner_for_draft_extend: Graph | None = None

    def draft(self) -> None:
        """One call for all steps."""
        if self.cuda_graph_runner:
            self.cuda_graph_runner.execute()
        else:
            self.draft_forward()

    def draft_forward(self) -> None:
        """Two steps, one by one."""
        self.draft_runner.forward()
        self.draft_runner.forward()

    def _draft_extend_for_decode(self) -> None:
        """After verify."""
        if self.cuda_graph_runner_for_draft_extend:
            self.cuda_graph_runner_for_draft_extend.execute()
        else:
            self.draft_runner.forward()

    def _draft_extend_for_prefill(self) -> None:
        """After a prefill."""


class EAGLEWorkerV2:
    """Drafts, verifies, extends."""

    speculative_num_steps = 5
    topk = 1
    speculative_num_draft_tokens = 6

    def __init__(self, target_worker: TpModelWorker) -> None:
        self.draft_worker = DraftWorker()
        self.target_worker = target_worker

    def use_graphs(self, padded: int) -> None:
        """From now on everything runs as a graph made for so many requests."""
        graph = Graph(padded)
        self.draft_worker.cuda_graph_runner = graph
        self.draft_worker.cuda_graph_runner_for_draft_extend = graph
        self.target_worker.model_runner.decode_cuda_graph_runner = graph

    def verify(self) -> None:
        """Calls what the real one looks up in its module."""
        common: Any = sys.modules[COMMON]
        self.target_worker.forward_batch_generation()
        common.eagle_sample()

    def forward_batch_generation(self, batch: Batch) -> None:
        """One prefill or one decode."""
        if batch.forward_mode == ForwardMode.EXTEND:
            self.target_worker.forward_batch_generation(batch)
            self.draft_worker._draft_extend_for_prefill()
            return
        self.draft_worker.draft()
        self.verify()
        self.draft_worker._draft_extend_for_decode()


class Processor:
    """Processes results."""

    def _normalize_decode_outputs(self, batch: Batch, result: Result) -> None:
        for request, drafts in zip(batch.reqs, result.num_correct_drafts_per_req_cpu, strict=True):
            if not request.done:
                request.output_ids.extend([0] * (drafts + 1))

    def move_logprobs_to_cpu(self) -> None:
        """Of a prefill."""


class Scheduler:
    """Runs batches without overlap."""

    def __init__(self) -> None:
        self.tp_worker = TpModelWorker()
        self.model_worker = EAGLEWorkerV2(self.tp_worker)
        self.batch_result_processor = Processor()
        self.spec_algorithm = Algorithm.EAGLE3
        self.forward_ct = 0
        self.idle_calls = 0
        self.waiting_queue: list[Request] = []
        self.running_batch = Batch([])

    def run_batch(self, batch: Batch) -> Result:
        """One cycle; every request gets 2 correct drafts."""
        self.forward_ct += 1
        batch.forward_iter = self.forward_ct
        self.model_worker.forward_batch_generation(batch)
        as_graph = self.tp_worker.model_runner.decode_cuda_graph_runner is not None
        count = len(batch.reqs)
        return Result([2] * count, can_run_cuda_graph=as_graph)

    def process_batch_result(self, batch: Batch, result: Result) -> None:
        """Hands out the tokens."""
        self.batch_result_processor._normalize_decode_outputs(batch, result)

    def on_idle(self) -> None:
        """Nothing to do."""
        self.idle_calls += 1

    def step(self, batch: Batch) -> None:
        """One turn of the loop."""
        self.process_batch_result(batch, self.run_batch(batch))


COMMON = "sglang.srt.speculative.eagle_worker_common"


def sample(*_: Any) -> None:
    """Stands for eagle_sample."""


def installed(scheduler: Any = Scheduler) -> Iterator[Any]:
    """Puts the modules that the probe looks for in place, and takes them out again."""
    names = ("sglang", engine.SCHEDULER_MODULE, COMMON)
    before = {name: sys.modules.get(name) for name in names}
    modules: dict[str, Any] = {name: ModuleType(name) for name in names}
    modules["sglang"].__version__ = "0.5.23"
    modules[engine.SCHEDULER_MODULE].Scheduler = scheduler
    modules[COMMON].eagle_sample = sample
    sys.modules.update(modules)
    yield scheduler
    for name, module in before.items():
        if module is None:
            del sys.modules[name]
        else:
            sys.modules[name] = module
