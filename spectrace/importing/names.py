"""What SGLang's ranges and functions are in a turn of its scheduler, from release to release.

Ranges were read in the sources of SGLang 0.5.5 to 0.5.23; functions are those that the probe wraps
from 0.4.6 on. From 0.5.12 on at the latest a range
`step[MODE bs=N …]` stands around each forward of a model; the target's verify is called
`TARGET_VERIFY`, by 0.5.20 `VERIFY`, and the draft's forwards have the name of their mode, by 0.5.20
`DRAFT`. The ranges `draft`, `draft_extend`, `scheduler.run_batch` and its like are there by 0.5.14,
`copy_result_to_cpu` by 0.5.16, `scheduler.idle` by 0.5.20. With stacks a trace also has Python's
functions, in every release.
"""

from __future__ import annotations

import re
from functools import lru_cache

from spectrace.importing.columns import Meaning, Role
from spectrace.model import CycleKind, PhaseName

_STEP = re.compile(r"(?P<draft>draft )?step\[(?P<mode>\w+)(?P<rest>[^\]]*)\]")
_BATCH = re.compile(r"\bbs=(\d+)")
_GENERATED = re.compile(r"\bg_sq=(\d+)")
_FUNCTION = re.compile(r"(?:^|/)sglang/(?:\w+/)*(?P<file>\w+)\.py\(\d+\): (?P<name>\w+)$")

_RANGES = {
    "scheduler.run_batch": Role.RUN,
    "scheduler.process_batch_result": Role.RESULT,
    "scheduler.get_next_batch_to_run": Role.NEXT,
    "scheduler.idle": Role.IDLE,
    "run_batch": Role.RUN,
    "process_batch_result": Role.RESULT,
    "draft": Role.DRAFT,
    "verify": Role.VERIFY,
    "draft_extend": Role.DRAFT_EXTEND,
    "copy_result_to_cpu": Role.COPY,
}
_KINDS = {
    "TARGET_VERIFY": CycleKind.SPECULATIVE,
    "VERIFY": CycleKind.SPECULATIVE,
    "DECODE": CycleKind.DECODE,
    "EXTEND": CycleKind.EXTEND,
    "SPLIT_PREFILL": CycleKind.EXTEND,
    "MIXED": CycleKind.MIXED,
    "IDLE": CycleKind.IDLE,
}
_WORKERS = re.compile(r"(?:eagle|multi_layer_eagle|frozen_kv_mtp|standalone|ngram|dflash)_worker")
_OF_WORKERS = {
    "forward_batch_generation": Role.WORKER,
    "forward_batch_speculative_generation": Role.WORKER,
    "draft": Role.DRAFT,
    "verify": Role.VERIFY,
    "forward_draft_extend": Role.DRAFT_EXTEND,
    "forward_draft_extend_after_decode": Role.DRAFT_EXTEND,
    "_draft_extend_for_prefill": Role.DRAFT_EXTEND,
    "_draft_extend_for_decode": Role.DRAFT_EXTEND,
    "_prepare_draft_tokens": Role.DRAFT,  # of NGRAM
}
_FUNCTIONS = {
    ("scheduler", "run_batch"): Role.RUN,
    ("scheduler", "process_batch_result"): Role.RESULT,
    ("scheduler", "get_next_batch_to_run"): Role.NEXT,
    ("scheduler", "on_idle"): Role.IDLE,
    ("scheduler", "check_memory"): Role.IDLE,
    ("scheduler", "self_check_during_idle"): Role.IDLE,
    ("scheduler_runtime_checker_mixin", "self_check_during_idle"): Role.IDLE,
    ("scheduler", "event_loop_overlap"): Role.OVERLAP,
    ("tp_worker", "forward_batch_generation"): Role.FORWARD,
    ("eagle_utils", "eagle_sample"): Role.SAMPLE,
    ("eagle_info", "verify"): Role.SAMPLE,
    ("eagle_info", "sample"): Role.SAMPLE,
    ("eagle_info_v2", "sample"): Role.SAMPLE,
}


@lru_cache(maxsize=65_536)
def meaning_of_range(name: str) -> Meaning | None:
    """What a range of SGLang's is, None for one that bounds nothing of a cycle."""
    role = _RANGES.get(name)
    if role is not None:
        return Meaning(role)
    step = _STEP.fullmatch(name)
    return _step(step) if step else None


def _step(step: re.Match[str]) -> Meaning | None:
    mode, rest = step["mode"], step["rest"]
    batch = _BATCH.search(rest)
    size = int(batch[1]) if batch else None
    if step["draft"] or mode == "DRAFT":
        return Meaning(Role.STEP, batch_size=size)
    if mode.startswith("DRAFT_EXTEND"):
        return Meaning(Role.DRAFT_EXTEND, batch_size=size)
    if mode.startswith("DRAFT"):  # DRAFT_LOOP: the graph of a whole draft, within its range
        return None
    kind = _KINDS.get(mode, CycleKind.OTHER)
    return Meaning(Role.FORWARD, kind, size, _tokens_per_request(kind, rest, size))


def _tokens_per_request(kind: CycleKind, rest: str, size: int | None) -> int | None:
    """Tokens that verify looks at per request, from the sum that detailed ranges carry."""
    tokens = _GENERATED.search(rest)
    if kind is not CycleKind.SPECULATIVE or tokens is None or not size:
        return None
    each, left = divmod(int(tokens[1]), size)
    return None if left else each


@lru_cache(maxsize=65_536)
def meaning_of_function(name: str) -> Meaning | None:
    """What a function of SGLang's is, as the torch profiler writes `path/file.py(line): name`."""
    function = _FUNCTION.search(name)
    if function is None:
        return None
    file, called = function["file"], function["name"]
    if _WORKERS.match(file):
        role = _OF_WORKERS.get(called)
    elif called == "capture" and "cuda_graph" in file:
        role = Role.CAPTURE
    else:
        role = _FUNCTIONS.get((file, called))
    return None if role is None else Meaning(role)


def meaning_of_own(name: str, number: int | None) -> Meaning | None:
    """What a range of spectrace's own is: the turn, or a phase.

    Args:
        name: Its text without the domain.
        number: The number of the cycle that it carries.
    """
    if name == "cycle":
        return Meaning(Role.TURN, number=number)
    try:
        return Meaning(Role.PHASE, phase=PhaseName(name), number=number)
    except ValueError:
        return None
