"""Sorts kernels into classes by their names: what a phase's time on the device is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from spectrace.errors import SpectraceError
from spectrace.kernels import KernelClass

MOST_OF_NAME = 40  # letters of a class: what is longer leaves no room for its time beside it

# The first pattern that is found in a name decides, so that what is special stands before what is
# general: a grouped product of a mixture of experts is one before it is a matrix product, and an
# all-reduce that normalises too is communication. Case does not matter.
PATTERNS: tuple[tuple[KernelClass, tuple[str, ...]], ...] = (
    (
        KernelClass.COMMUNICATION,
        (
            r"nccl|rccl|nvshmem|mscclpp|deep_?ep|\bmori\b",
            r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast_?kernel_?comm",
            r"cross_device_reduce|one_?shot|two_?shot|multimem|lamport|quick_?reduce",
            r"allreduce_fusion|moe_finalize_allreduce",
        ),
    ),
    (
        KernelClass.MOE,
        (
            r"(?<![a-z])moe(?![a-z])|fused_moe|moe_(align|sum|gemm|permute|gate|fused)",
            r"expert|grouped_?gemm|group_?gemm|topk_?gating|topk_softmax|topk_sigmoid",
            r"ep_(scatter|gather)|silu_and_mul_masked|bmm_(bfloat16|e4m3|e2m1|mxe\w+)_.*swiglu",
        ),
    ),
    (
        KernelClass.SAMPLING,
        (
            r"sampl(e|ing)|argmax|arg_?reduce|top_?[kp](?!_?(gating|softmax|sigmoid))",
            r"multinomial|renorm_prob|radix_?(sort|topk)|bitonic|softmax_warp_forward.*logits",
            r"verify_?tree|tree_?speculative|build_?(eagle_?)?tree|chain_?speculative",
            r"gather_?topk|sbtopk|mbtopk|rejection",
        ),
    ),
    (
        KernelClass.ATTENTION,
        (
            r"flash(?!infer)|fmha|attention|attn|(?<![a-z])(?<!set_)mla(?![a-z])|mha_|paged_?kv",
            r"batch(decode|prefill)with|persistent_?variable_?length|merge_?states?|prepare_varlen",
            r"_fwd_kernel(_stage\d)?|_fwd_grouped_kernel|_decode_.*_stage\d|kv_indices|cascade",
        ),
    ),
    (
        KernelClass.NORM,
        (r"rms_?norm|layer_?norm|(?<![a-z])norm(?![a-z]*\()|add_?rms|qk_?norm|normkernel",),
    ),
    (
        KernelClass.MATMUL,
        (
            r"gemm|gemv|nvjet|xmma|cutlass|cublas|matmul|(?<![a-z])mm(?![a-z])|split_?k",
            r"\bdot_kernel|Cijk_|wvsplit|marlin|machete|tensorop|wgmma|deep_?gemm",
        ),
    ),
    (
        KernelClass.COPY,
        (
            r"^memcpy|^memset|\[cuda mem(cpy|set)|copy|(?<![a-z])fill|CatArrayBatched",
            r"index_(put|select|copy)|gather_kernel|scatter|(set|store)_kv|kv_buffer|assign_",
            r"index_elementwise|transpose|reshape_and_cache",
        ),
    ),
)


class KernelClasses:
    """The table: built in, and before it what a user adds.

    Args:
        more: Patterns (regular expressions, searched in the name) by the name of a class, one of
            `KernelClass` or a new one.

    Raises:
        SpectraceError: A pattern is none.
    """

    def __init__(self, more: Mapping[str, Sequence[str]] | None = None) -> None:
        rows = [(name, patterns) for name, patterns in (more or {}).items()]
        rows += [(kind.value, patterns) for kind, patterns in PATTERNS]
        self._table = [
            (name, [_compiled(name, pattern) for pattern in patterns]) for name, patterns in rows
        ]
        self.of = cache(self._of)

    def _of(self, kernel: str) -> str:
        """The class of a kernel's name, as the compiler wrote it or demangled."""
        for name, patterns in self._table:
            if any(pattern.search(kernel) for pattern in patterns):
                return name
        return KernelClass.OTHER.value


def _compiled(name: str, pattern: str) -> re.Pattern[str]:
    """One pattern by itself, so that its groups and flags are its own."""
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        raise SpectraceError(
            f"A pattern of the kernel class {name} is no regular expression ({error}): mend it."
        ) from error


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    classes: dict[str, list[str]]


def parse_classes(text: str, name: str) -> dict[str, list[str]]:
    """Reads a user's table: TOML, `class = ["pattern", …]` under `[classes]`.

    Args:
        text: Of the file.
        name: Of the file, for what is said.

    Raises:
        SpectraceError: It is not TOML, or says something else, or a class has no name that tables
            can show.
    """
    try:
        table = msgspec.toml.decode(text, type=_Table)
    except msgspec.ValidationError as error:
        raise SpectraceError(
            f'{name} lacks what is read there, a table [classes] of lines like moe = ["my_moe"]: '
            f"{error}."
        ) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise SpectraceError(f"{name} is no TOML ({error}): mend it.") from error
    for kind in table.classes:
        if not kind.strip() or not kind.isprintable() or len(kind) > MOST_OF_NAME:
            raise SpectraceError(
                f"{name} has a class that cannot be shown, {kind[:MOST_OF_NAME]!r}: call it by 1 "
                f"to {MOST_OF_NAME} letters in one line."
            )
    return table.classes
