"""Turns Ctrl-C and SIGTERM into a wish to stop, so that leaving a server is never cut short."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from spectrace.cli.unbegun import leave

_POLL_S = 0.1
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """A wish to stop, which a loop looks at between two steps.

    Args:
        also: Another wish, which counts as this one.
    """

    def __init__(self, also: Stop | None = None) -> None:
        self._requested = False
        self._also = also

    @property
    def requested(self) -> bool:
        """Whether the loop is to end."""
        return self._requested or (self._also is not None and self._also.requested)

    def request(self) -> None:
        """Asks the loop to end."""
        self._requested = True


@contextmanager
def gone_at_ctrl_c() -> Iterator[None]:
    """Has Ctrl-C end the process at once, with a line on stderr: nothing has been begun yet.

    Amid imports a KeyboardInterrupt would be a traceback from some library, or be lost in it.
    The end of a block within another one ends both: what follows it can be interrupted.
    """
    in_main = threading.current_thread() is threading.main_thread()  # it alone may set handlers
    if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        if in_main and signal.getsignal(signal.SIGINT) is leave:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Lets SIGTERM and a closed terminal end a block as Ctrl-C does, by a KeyboardInterrupt.

    After the first signal all are ignored, so that the block can put things in order.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = _heard()
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _heard() -> dict[signal.Signals, Any]:
    """The signals that are not ignored, each with its handler."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    return {n: handler for n, handler in handlers.items() if handler is not signal.SIG_IGN}


def wait(stop: Stop, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Waits until somebody asks to stop, and does something short again and again."""
    while not stop.requested:
        meanwhile()
        time.sleep(_POLL_S)


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Gives a `Stop` that Ctrl-C, SIGTERM and a closed terminal request.

    To be used in the main thread, which alone may set handlers of signals. A signal that is
    ignored, as SIGHUP under `nohup`, stays ignored. After the first one all are ignored until
    the process exits: a second one must not cut short what the first one asked for.
    """
    stop = Stop()

    def request(_number: int, _frame: FrameType | None) -> None:
        stop.request()
        for number in before:
            signal.signal(number, signal.SIG_IGN)

    before = _heard()
    for number in before:
        signal.signal(number, request)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            if not stop.requested:
                signal.signal(number, handler)
