"""Workers shaped like SGLang's V1 and V2, and plain decode, on the simulated GPU.

They have the classes and functions of SGLang's that a tracer looks for; what these do takes the
time that it was given, and nothing else.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from examples.simulated_gpu.device import DeviceValues, ext
from examples.simulated_gpu.figures import Times
from examples.simulated_gpu.load import Batch, Deck, ForwardMode

COMMON_MODULE = "sglang.srt.speculative.eagle_worker_common"
VERIFY_MODULE = "sglang.srt.speculative.eagle_info"
_LEAST_SHARE = 0.5  # of its time that a kernel takes, however much times vary


class Machine:
    """Launches and spins for set times.

    Args:
        times: Of everything.
        jitter: How much the device's vary, as a share (standard deviation).
        seed: Of that.
    """

    def __init__(self, times: Times, *, jitter: float = 0.0, seed: int = 0) -> None:
        self.times = times
        self._jitter = jitter
        self._random = Random(seed)

    def launch(self, name: str, batch: Batch, ms: float) -> None:
        """Enqueues a kernel; the device logs it by its name and the number of the cycle."""
        share = max(_LEAST_SHARE, self._random.gauss(1.0, self._jitter)) if self._jitter else 1.0
        ext.launch(f"{name} {batch.forward_iter}", ms * share * 1e3)


def spin(ms: float) -> None:
    """Keeps the host busy until `ms` from now."""
    end_ns = time.perf_counter_ns() + int(ms * 1e6)
    while time.perf_counter_ns() < end_ns:
        pass


class GraphRunner:
    """Launches what was once captured, as 0.5.23 does.

    Args:
        launch: What it launches for a batch.

    Attributes:
        bs: The batch size that the graph of the last batch was made for.
    """

    def __init__(self, launch: Callable[[Batch], None]) -> None:
        self.launch = launch
        self.bs = 0

    def execute(self, batch: Batch) -> None:
        """Launches the graph that is large enough: there is one for each power of 2."""
        self.bs = 1 << (len(batch.reqs) - 1).bit_length() if batch.reqs else 0
        self.launch(batch)


class OlderGraphRunner(GraphRunner):
    """The same as 0.5.12 calls it."""

    def replay(self, batch: Batch) -> None:
        """Launches the graph."""
        self.execute(batch)


@dataclass
class ModelRunner:
    """Has the target model's graphs, under the names of 0.5.12 and 0.5.23."""

    graph_runner: GraphRunner

    @property
    def decode_cuda_graph_runner(self) -> GraphRunner:
        """The same."""
        return self.graph_runner


@dataclass
class Result:
    """What `run_batch` gives back; everything is the device's until it was copied.

    Attributes:
        num_correct_drafts_per_req_cpu: Of each request of a batch that was verified, else None.
        next_token_ids: Stands for the token of each request of any other batch.
        can_run_cuda_graph: The target model ran as a graph.
    """

    num_correct_drafts_per_req_cpu: Any = None
    next_token_ids: Any = None
    can_run_cuda_graph: bool = True

    def copy_to_cpu(self) -> None:
        """The server's own copy: waits for the device; from then on everyone may read."""
        if isinstance(self.num_correct_drafts_per_req_cpu, DeviceValues):
            self.num_correct_drafts_per_req_cpu = self.num_correct_drafts_per_req_cpu.copied()
        if isinstance(self.next_token_ids, DeviceValues):
            self.next_token_ids = self.next_token_ids.copied()


class TpModelWorker:
    """Launches the target model: as a graph, but for a prefill."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.model_runner = ModelRunner(GraphRunner(self._launch_decode))

    def forward_batch_generation(self, batch: Batch, *, is_verify: bool = False) -> Result:
        """One forward: to verify, of a prefill or a plain decode."""
        times = self.machine.times
        spin(times.launch_verify)
        graph = self.model_runner.graph_runner
        prefills = batch.forward_mode == ForwardMode.EXTEND
        if prefills:
            self.machine.launch("prefill", batch, times.decode)
        else:
            graph.launch = self._launch_verify if is_verify else self._launch_decode
            graph.execute(batch)
        if is_verify:
            return Result()
        tokens = DeviceValues([0] * len(batch.reqs))
        return Result(next_token_ids=tokens, can_run_cuda_graph=not prefills)

    def _launch_verify(self, batch: Batch) -> None:
        self.machine.launch("verify", batch, self.machine.times.verify)

    def _launch_decode(self, batch: Batch) -> None:
        self.machine.launch("decode", batch, self.machine.times.decode)


class DraftRunner:
    """Runs the draft model once."""

    def __init__(self, machine: Machine, steps: int) -> None:
        self._machine = machine
        self._steps = steps

    def forward(self, batch: Batch) -> None:
        """One step."""
        times = self._machine.times
        self._machine.launch("step", batch, times.draft / self._steps)
        spin(times.launch_draft / self._steps)


class Drafting:
    """Launches the draft: all steps as one graph, or one by one.

    Args:
        machine: What it runs on.
        steps: Of a draft.
        graph: How this release runs graphs.
        eager: The steps are launched one by one.
    """

    def __init__(
        self, machine: Machine, steps: int, graph: type[GraphRunner], *, eager: bool
    ) -> None:
        self.machine = machine
        self.steps = steps
        self.runner = DraftRunner(machine, steps)
        self.cuda_graph_runner = None if eager else graph(self.launch_draft)
        self.cuda_graph_runner_for_draft_extend = graph(self.launch_extend)

    def draft(self, batch: Batch) -> None:
        """All steps."""
        if self.cuda_graph_runner is None:
            self.draft_forward(batch)
        else:
            self.run_graph(self.cuda_graph_runner, batch)
            spin(self.machine.times.launch_draft)

    def draft_forward(self, batch: Batch) -> None:
        """The steps one by one."""
        for _ in range(self.steps):
            self.runner.forward(batch)

    def run_graph(self, graph: Any, batch: Batch) -> None:
        """Launches a graph, as this release calls that."""
        graph.execute(batch)

    def launch_draft(self, batch: Batch) -> None:
        """All steps at once."""
        self.machine.launch("draft", batch, self.machine.times.draft)

    def launch_extend(self, batch: Batch) -> None:
        """The pass over the accepted tokens, where it takes any time."""
        if self.machine.times.extend:
            self.machine.launch("extend", batch, self.machine.times.extend)


class EagleVerifyInput:
    """What a V1 worker verifies with."""

    def verify(self, batch: Batch, deck: Deck) -> None:
        """Waits for the device to have compared, and hands out the tokens."""
        counts = DeviceValues(deck.deal(len(batch.reqs))).copied()
        for request, correct in zip(batch.reqs, counts, strict=True):
            request.spec_verify_ct += 1
            request.spec_num_correct_drafts += correct
            request.take(correct + 1)


class EAGLEWorker(Drafting):
    """V1: one worker that does all, and blocks in verify until the device has done it."""

    topk = 1

    def __init__(
        self, target_worker: TpModelWorker, *, steps: int, deck: Deck, eager: bool = False
    ) -> None:
        super().__init__(target_worker.machine, steps, OlderGraphRunner, eager=eager)
        self.target_worker = target_worker
        self.speculative_num_steps = steps
        self.speculative_num_draft_tokens = steps + 1
        self.draft_model_runner = self.runner
        self.deck = deck

    @property
    def drafter(self) -> Drafting:
        """Who drafts."""
        return self

    def forward_batch_generation(self, batch: Batch) -> Result:
        """A prefill or a decode."""
        if batch.forward_mode == ForwardMode.EXTEND:
            result = self.target_worker.forward_batch_generation(batch)
            self.forward_draft_extend(batch)
            return result
        self.draft(batch)
        self.verify(batch)
        self.forward_draft_extend_after_decode(batch)
        return Result()

    def verify(self, batch: Batch) -> None:
        """Launches the target model, and looks what it found."""
        self.target_worker.forward_batch_generation(batch, is_verify=True)
        EagleVerifyInput().verify(batch, self.deck)

    def run_graph(self, graph: Any, batch: Batch) -> None:
        """Launches a graph."""
        graph.replay(batch)

    def forward_draft_extend(self, batch: Batch) -> None:
        """After a prefill, eagerly."""
        self.launch_extend(batch)

    def forward_draft_extend_after_decode(self, batch: Batch) -> None:
        """After verify."""
        self.run_graph(self.cuda_graph_runner_for_draft_extend, batch)


class EagleDraftWorker(Drafting):
    """Drafts for a V2 worker."""

    def __init__(self, machine: Machine, *, steps: int, eager: bool) -> None:
        super().__init__(machine, steps, GraphRunner, eager=eager)
        self.draft_runner = self.runner

    def _draft_extend_for_prefill(self, batch: Batch) -> None:
        self.launch_extend(batch)

    def _draft_extend_for_decode(self, batch: Batch) -> None:
        self.run_graph(self.cuda_graph_runner_for_draft_extend, batch)


class EAGLEWorkerV2:
    """V2: reads no counts; they are read when the next cycle has been launched."""

    topk = 1

    def __init__(self, target_worker: TpModelWorker, *, steps: int, eager: bool = False) -> None:
        self.target_worker = target_worker
        self.speculative_num_steps = steps
        self.speculative_num_draft_tokens = steps + 1
        self.draft_worker = EagleDraftWorker(target_worker.machine, steps=steps, eager=eager)

    @property
    def drafter(self) -> Drafting:
        """Who drafts."""
        return self.draft_worker

    def forward_batch_generation(self, batch: Batch) -> Result:
        """A prefill or a decode."""
        if batch.forward_mode == ForwardMode.EXTEND:
            result = self.target_worker.forward_batch_generation(batch)
            self.draft_worker._draft_extend_for_prefill(batch)  # noqa: SLF001 - SGLang's name
            return result
        self.draft_worker.draft(batch)
        result = self.verify(batch)
        self.draft_worker._draft_extend_for_decode(batch)  # noqa: SLF001 - as above
        return result

    def verify(self, batch: Batch) -> Result:
        """Calls what the real one looks up in its module."""
        common: Any = sys.modules[COMMON_MODULE]
        self.target_worker.forward_batch_generation(batch, is_verify=True)
        return Result(num_correct_drafts_per_req_cpu=common.eagle_sample(len(batch.reqs)))
