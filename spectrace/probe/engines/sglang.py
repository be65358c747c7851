"""SGLang's functions and fields, as data.

Names were read in the sources of SGLang 0.5.23. A target is `(place, function, enter,
leave)`: `place` is a path of attributes from the scheduler whose value's class has the
function, or `module:NAME` for a function that is looked up in a module; `enter` and `leave`
are the phases that begin at its call and at its return.
"""

from __future__ import annotations

from ..layout import Kind, Ph  # noqa: TID252 - the probe runs under another package name

SCHEDULER_MODULE = "sglang.srt.managers.scheduler"
SCHEDULER_CLASS = "Scheduler"
RUN_BATCH = "run_batch"
PROCESS_RESULT = "process_batch_result"
IDLE = "on_idle"
WORKER = "model_worker"
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

# Name of a class in the worker's MRO, and the targets that bound its phases. The first match
# counts.
WORKERS = (
    (
        "EAGLEWorkerV2",
        (
            (_EAGLE, "_forward_prefill_batch", Ph.FORWARD, Ph.SCHEDULE),
            (_DRAFT, "_draft_extend_for_prefill", Ph.DRAFT_EXTEND, 0),
            (_DRAFT, "draft", Ph.DRAFT, 0),
            (_EAGLE_COMMON, "eagle_prepare_for_verify", 0, Ph.VERIFY_FORWARD),
            (_EAGLE_COMMON, "eagle_sample", Ph.VERIFY_SAMPLE, Ph.VERIFY_COMMIT),
            (_DRAFT, "_draft_extend_for_decode", Ph.DRAFT_EXTEND, Ph.SCHEDULE),
        ),
    ),
    ("TpModelWorker", ((_EAGLE, "forward_batch_generation", Ph.FORWARD, Ph.SCHEDULE),)),
)

# The call that verifies: it begins verify and knows its size, in attributes of its object.
VERIFY = ("model_worker", "verify", Ph.VERIFY_PREPARE)
STEPS = "speculative_num_steps"
TOPK = "topk"
DRAFT_TOKENS = "speculative_num_draft_tokens"

# What is called first in `process_batch_result` once the results are on the CPU, in decode
# and in prefill.
COUNTS_READY = (
    ("batch_result_processor", "_normalize_decode_outputs"),
    ("batch_result_processor", "move_logprobs_to_cpu"),
)

CORRECT_DRAFTS = "num_correct_drafts_per_req_cpu"
