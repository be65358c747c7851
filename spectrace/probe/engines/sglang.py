"""SGLang's functions and fields, as data.

Names were read in the sources of SGLang 0.5.23. A target is `(place, function, enter,
leave)`: `place` is a path of attributes from the scheduler whose value's class has the
function, or `module:NAME` for a function that is looked up in a module; `enter` and `leave`
are the phases that begin at its call and at its return.
"""

from __future__ import annotations

from ..layout import Graph, Kind, Ph  # noqa: TID252 - the probe runs under another package name

SCHEDULER_MODULE = "sglang.srt.managers.scheduler"
SCHEDULER_CLASS = "Scheduler"
RUN_BATCH = "run_batch"
PROCESS_RESULT = "process_batch_result"
IDLE = "on_idle"
WORKER = "model_worker"
# Of the scheduler: its queue, the batch that runs, the number of the last cycle that began.
QUEUED = "waiting_queue"
RUNNING = "running_batch"
CYCLE_COUNT = "forward_ct"
HEALTH_CHECK_PREFIX = "HEALTH_CHECK"

# ForwardMode's names. A decode becomes speculative when it verifies.
KINDS = {
    "EXTEND": Kind.EXTEND,
    "SPLIT_PREFILL": Kind.EXTEND,
    "DECODE": Kind.DECODE,
    "MIXED": Kind.MIXED,
    "IDLE": Kind.IDLE,
}

_EAGLE_COMMON = "module:sglang.srt.speculative.eagle_worker_common"
_EAGLE = "model_worker"
_DRAFT = "model_worker.draft_worker"

# The call that verifies, of the worker's class, and what its object says of its size.
VERIFY = "verify"
STEPS = "speculative_num_steps"
TOPK = "topk"
DRAFT_TOKENS = "speculative_num_draft_tokens"


_GRAPHS = (
    (f"{_DRAFT}.cuda_graph_runner", "execute", Graph.DRAFT),
    (f"{_DRAFT}.cuda_graph_runner_for_draft_extend", "execute", Graph.DRAFT_EXTEND),
)
# Of a result: whether the target model's forward ran as a graph. Of the scheduler: the batch
# size that this graph was made for.
RAN_AS_GRAPH = "can_run_cuda_graph"
_PADDED = "model_runner.decode_cuda_graph_runner.bs"


class WorkerRow:
    """How the phases of one kind of worker are bounded.

    Args:
        worker: Name of a class in the worker's MRO.
        targets: `(place, function, enter, leave)`, see above.
        verify: The phases that begin at the call of `VERIFY` and at its return, 0 for none.
        padded: Path from the scheduler to the batch size of the target's graph.
        step: Place and function of one forward of the draft model.
        steps: Place and function that make all of them where no graph runs.
        graphs: Place and function that run a part of the cycle as a graph, and the part. Where
            the server has no graphs there is nothing at the place.
    """

    __slots__ = ("graphs", "padded", "step", "steps", "targets", "verify", "worker")

    def __init__(  # noqa: PLR0913 - a row has as many columns; a NamedTuple takes 0.2 ms to make
        self,
        worker: str,
        targets: tuple[tuple[str, str, int, int], ...],
        verify: tuple[int, int],
        *,
        padded: str = "",
        step: tuple[str, str] | None = None,
        steps: tuple[str, str] | None = None,
        graphs: tuple[tuple[str, str, int], ...] = (),
    ) -> None:
        self.worker = worker
        self.targets = targets
        self.verify = verify
        self.padded = padded
        self.step = step
        self.steps = steps
        self.graphs = graphs


# The first row that fits counts.
WORKERS = (
    WorkerRow(
        "EAGLEWorkerV2",
        (
            (_EAGLE, "_forward_prefill_batch", Ph.FORWARD, Ph.SCHEDULE),
            (_DRAFT, "_draft_extend_for_prefill", Ph.DRAFT_EXTEND, 0),
            (_DRAFT, "draft", Ph.DRAFT, 0),
            (_EAGLE_COMMON, "eagle_prepare_for_verify", 0, Ph.VERIFY_FORWARD),
            (_EAGLE_COMMON, "eagle_sample", Ph.VERIFY_SAMPLE, Ph.VERIFY_COMMIT),
            (_DRAFT, "_draft_extend_for_decode", Ph.DRAFT_EXTEND, Ph.SCHEDULE),
        ),
        (Ph.VERIFY_PREPARE, 0),
        padded=f"{_EAGLE}.target_worker.{_PADDED}",
        step=(f"{_DRAFT}.draft_runner", "forward"),
        steps=(_DRAFT, "draft_forward"),
        graphs=_GRAPHS,
    ),
    WorkerRow(
        "TpModelWorker",
        ((_EAGLE, "forward_batch_generation", Ph.FORWARD, Ph.SCHEDULE),),
        (0, 0),
        padded=f"{_EAGLE}.{_PADDED}",
    ),
)

# Of a worker that no row knows, its whole turn is one phase, and verify where it has one.
UNKNOWN_WORKER = WorkerRow(
    "",
    ((_EAGLE, "forward_batch_generation", Ph.FORWARD, Ph.SCHEDULE),),
    (Ph.VERIFY, Ph.FORWARD),
)

# What is called first in `process_batch_result` once the results are on the CPU, in decode
# and in prefill.
COUNTS_READY = (
    ("batch_result_processor", "_normalize_decode_outputs"),
    ("batch_result_processor", "move_logprobs_to_cpu"),
)

# Of a result: there where a cycle verified, on the device or not; never read.
VERIFIED = "accept_lens"
FINISHED_LENGTH = "finished_len"  # of a request: where its output was cut, if it was
CORRECT_DRAFTS = "num_correct_drafts_per_req_cpu"
