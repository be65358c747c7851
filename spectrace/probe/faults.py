"""Tells what a signal handler of the server raised from errors of the probe's own."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType


def pass_on(error: BaseException) -> None:
    """Raises `error` again if it is the server's."""
    if is_foreign(error):
        raise error


def is_foreign(error: BaseException) -> bool:
    """Whether a signal handler of the server raised `error` while our code ran.

    Python runs handlers between any two instructions, ours among them. What they raise, such as
    a TimeoutError, is meant for the server, and would have reached it without us.
    """
    codes = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _code_of(handler: Any) -> CodeType | None:
    """The code that runs when a handler is called, None where that is not Python's."""
    while hasattr(handler, "func"):  # functools.partial
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None:
        code = getattr(getattr(type(handler), "__call__", None), "__code__", None)  # noqa: B004 - its code is wanted
    return code
