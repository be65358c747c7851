"""The plugin: installed in a server's environment, it lets spectrace in without touching it.

SGLang calls `register` through the entry point `sglang.srt.plugins`, once in each of its
processes. Only the standard library is used, so that `pip install --no-deps spectrace` is all.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from types import FrameType

__all__ = ["register"]

_SCHEDULER_MODULE = "sglang.srt.managers.scheduler"


def register() -> None:
    """Makes a scheduler's process ready to be traced; does nothing in any other one.

    Never raises: what goes wrong leaves the server without the plugin, and the other ways in
    stay open.
    """
    if not _called_by_a_scheduler():
        return
    with suppress(Exception):
        from spectrace.plugin._sleeper import settle  # noqa: PLC0415 - elsewhere it costs nothing

        settle()


def _called_by_a_scheduler() -> bool:
    """Whether the plugins are being loaded by the function that runs a scheduler.

    Other processes may have its module loaded too, and titles are given later.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to the caller
    while frame is not None and frame.f_globals.get("__name__") != _SCHEDULER_MODULE:
        frame = frame.f_back
    return frame is not None
