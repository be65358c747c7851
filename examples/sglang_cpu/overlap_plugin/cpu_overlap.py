"""Lets SGLang run its overlap scheduler with speculative decoding on a CPU.

SGLang turns overlap off there, since some of its kernels exist only in Triton. With
TRITON_INTERPRET=1 Triton runs those on CPU tensors, so the rule is not needed.
"""

# mypy: disable-error-code="import-not-found, import-untyped"
from __future__ import annotations

RULE = "sglang.srt.arg_groups.speculative_hook._disable_overlap_schedule_for_cpu"


def leave_overlap_on(_server_args: object) -> None:
    """Stand in for the rule, and change nothing."""


def register() -> None:
    """Replace the rule; SGLang calls this through the entry point `sglang.srt.plugins`."""
    from sglang.srt.plugins.hook_registry import (  # noqa: PLC0415  only there in the server
        HookRegistry,
        HookType,
    )

    HookRegistry.register(RULE, leave_overlap_on, HookType.REPLACE)
