"""The calls to CUPTI that a kernel window makes, by the package cupti-python, and nothing else.

Loaded when a window is asked for: it brings CUPTI's library and its worker thread, which stay.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .faults import pass_on
from .layout_window import Activity, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MODULE = "cupti.cupti"
BUFFER_BYTES = 1 << 20  # some ten thousand records
_AS_MANY_AS_FIT = 0
_ONLY_WHAT_IS_DONE = 0  # of `activity_flush_all`: anything else may wait
# By CUPTI's own numbers, `CUptiResult`.
_STATUSES = {
    39: Refusal.TAKEN,  # MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
    35: Refusal.NOT_PERMITTED,  # INSUFFICIENT_PRIVILEGES
    40: Refusal.NOT_PERMITTED,  # VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES
    11: Refusal.TOO_OLD,  # API_NOT_IMPLEMENTED
    14: Refusal.TOO_OLD,  # NOT_COMPATIBLE
    34: Refusal.TOO_OLD,  # CUDA_COMPILER_NOT_COMPATIBLE
    27: Refusal.UNSUPPORTED,  # NOT_SUPPORTED
    33: Refusal.UNSUPPORTED,  # VIRTUALIZED_DEVICE_NOT_SUPPORTED
    41: Refusal.UNSUPPORTED,  # CONFIDENTIAL_COMPUTING_NOT_SUPPORTED
    42: Refusal.UNSUPPORTED,  # CMP_DEVICE_NOT_SUPPORTED
    43: Refusal.UNSUPPORTED,  # MIG_DEVICE_NOT_SUPPORTED
    44: Refusal.UNSUPPORTED,  # SLI_DEVICE_NOT_SUPPORTED
    45: Refusal.UNSUPPORTED,  # WSL_DEVICE_NOT_SUPPORTED
}


class RefusedError(Exception):
    """There is no window.

    Args:
        refusal: `layout_window.Refusal`.
        status: CUPTI's own number, 0 without one.
        text: What it said.
    """

    def __init__(self, refusal: int, status: int = 0, text: str = "") -> None:
        super().__init__(text)
        self.refusal = refusal
        self.status = status
        self.text = text


class Cupti:
    """CUPTI in this process, asked for records of some kinds.

    No subscriber is taken, and no clock is set: a profiler that comes later finds all as it was.

    Args:
        take: Is given the records of each buffer that is done, on any thread; objects that
            know by `ptr` where their record stands until `take` returns.

    Raises:
        RefusedError: There is no CUPTI here, or it says no.
    """

    def __init__(self, take: Callable[[Sequence[Any]], None]) -> None:
        if _profiler_runs():
            raise RefusedError(Refusal.PROFILER)
        self._on: list[int] = []
        self._call("activity_register_callbacks", _room, take)

    def _call(self, name: str, *args: Any) -> None:
        try:
            getattr(import_module(MODULE), name)(*args)
        except Exception as error:  # noqa: BLE001 - whatever it says is told
            pass_on(error)
            raise refused(error) from None

    def on(self, *kinds: int) -> None:
        """Asks for records of these kinds.

        Args:
            kinds: `layout_window.Activity`, in this order.

        Raises:
            RefusedError: CUPTI says no.
        """
        for kind in kinds:
            self._call("activity_enable", kind)
            self._on.append(kind)

    def off(self, *kinds: int) -> None:
        """Asks no more for these kinds, or for none at all; goes through all of them.

        Raises:
            RefusedError: CUPTI says no to one.
        """
        raised: RefusedError | None = None
        for kind in kinds or tuple(self._on):
            try:
                self._call("activity_disable", kind)
            except RefusedError as error:  # noqa: PERF203 - the others are switched off all the same
                raised = error
            else:
                self._on.remove(kind)
        if raised is not None:
            raise raised

    def flush(self) -> None:
        """Has the buffers handed over whose records are done; waits for none.

        Raises:
            RefusedError: CUPTI says no.
        """
        self._call("activity_flush_all", _ONLY_WHAT_IS_DONE)


GRAPHS = (Activity.GRAPH,)
SINGLE = (
    Activity.KERNEL,
    Activity.MEMCPY,
    Activity.PEER_COPY,
    Activity.MEMSET,
    Activity.RUNTIME,
    Activity.DRIVER,
)


def _room() -> tuple[int, int]:
    """How large the next buffer is, and how many records it may hold."""
    return BUFFER_BYTES, _AS_MANY_AS_FIT


def refused(error: Exception) -> RefusedError:
    """Why there is no window, as the error of a call to CUPTI says it."""
    text = f"{type(error).__name__}: {error}"
    status = getattr(error, "status", 0)
    if isinstance(status, int) and status:
        return RefusedError(_STATUSES.get(status, Refusal.OTHER), status, text)
    if isinstance(error, ModuleNotFoundError):
        return RefusedError(Refusal.NO_PACKAGE, 0, text)
    if "libcuda.so" in text or "driver is not found" in text:
        return RefusedError(Refusal.NO_DRIVER, 0, text)
    if isinstance(error, AttributeError) or type(error).__name__ == "FunctionNotFoundError":
        return RefusedError(Refusal.TOO_OLD, 0, text)
    if isinstance(error, ImportError) or "libcupti" in text or '"cupti"' in text:
        return RefusedError(Refusal.NO_PACKAGE, 0, text)
    return RefusedError(Refusal.OTHER, 0, text)


def _profiler_runs() -> bool:
    """Whether torch's profiler, which has CUPTI for itself while it runs, does so now."""
    autograd = getattr(sys.modules.get("torch"), "autograd", None)
    enabled = getattr(autograd, "_profiler_enabled", None)
    return bool(enabled is not None and enabled())
