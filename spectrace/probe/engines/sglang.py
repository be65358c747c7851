"""What all releases of SGLang have in common: names that arming and every cycle need.

What differs from release to release stands in `sglang_releases.py`.
"""

from __future__ import annotations

from ..layout import Kind  # noqa: TID252 - the probe runs under another package name

SCHEDULER_MODULE = "sglang.srt.managers.scheduler"
SCHEDULER_CLASS = "Scheduler"
RUN_BATCH = "run_batch"
PROCESS_RESULT = "process_batch_result"
# What is called where nothing runs; the first that a release has, newest first. The older
# ones are still there in later releases, and called by the newer.
IDLE = ("on_idle", "self_check_during_idle", "check_memory")
# Of the scheduler: its queue, the batch that runs, the number of the last cycle that began.
QUEUED = "waiting_queue"
RUNNING = "running_batch"
CYCLE_COUNT = "forward_ct"
TRACES_REQUESTS = "enable_trace"  # of the arguments: the server makes spans of its own
HEALTH_CHECK_PREFIX = "HEALTH_CHECK"

# ForwardMode's names. On a server that speculates a decode is speculative.
KINDS = {
    "EXTEND": Kind.EXTEND,
    "SPLIT_PREFILL": Kind.EXTEND,
    "DECODE": Kind.DECODE,
    "MIXED": Kind.MIXED,
    "IDLE": Kind.IDLE,
}
ALGORITHM = "spec_algorithm"  # of the scheduler
NO_ALGORITHM = ("NONE", "None", "")  # how it is named on a server that does not speculate

# The steps, branches and tokens of a draft: of the worker, which may change them, and of the
# server's arguments, where the worker does not keep them.
SIZES = (
    ("speculative_num_steps", "speculative_num_steps"),
    ("topk", "speculative_eagle_topk"),
    ("speculative_num_draft_tokens", "speculative_num_draft_tokens"),
)
ARGUMENTS = "server_args"

# Attributes of the scheduler: the first that is there and not None is the worker. Releases
# before 0.5.3 lack the first.
WORKER_NAMES = ("model_worker", "draft_worker", "tp_worker")
TARGET = -1  # in place of a phase: the target model's forward

# Where the counts are: in the result, in what `verify` gave back, or in the request.
RESULT, VERIFIED, REQUEST = "result", "verify", "request"
VERIFIED_PLACE = 1  # of the verify output in what `verify` gives back
VERIFIES = "spec_verify_ct"  # of a request: its verifies

RAN_AS_GRAPH = "can_run_cuda_graph"  # of a result: whether the target model ran as a graph
FINISHED_LENGTH = "finished_len"  # of a request: where its output was cut, if it was
