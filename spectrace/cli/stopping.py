"""Turns Ctrl-C and SIGTERM into a wish to stop, so that leaving a server is never cut short."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_POLL_S = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """A wish to stop, which a loop looks at between two steps."""

    def __init__(self) -> None:
        self.requested = False

    def request(self) -> None:
        """Asks the loop to end."""
        self.requested = True


def wait(stop: Stop) -> None:
    """Waits until somebody asks to stop."""
    while not stop.requested:
        time.sleep(_POLL_S)


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Gives a `Stop` that Ctrl-C, SIGTERM and a closed terminal request.

    To be used in the main thread, which alone may set handlers of signals. A signal that is
    ignored, as SIGHUP under `nohup`, stays ignored.
    """
    stop = Stop()

    def request(_number: int, _frame: FrameType | None) -> None:
        stop.request()

    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, request) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
