"""Turns Ctrl-C and SIGTERM into a wish to stop, so that leaving a server is never cut short."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_POLL_S = 0.1
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
    ignored, as SIGHUP under `nohup`, stays ignored. After the first one all are ignored until
    the process exits: a second one must not cut short what the first one asked for.
    """
    stop = Stop()

    def request(_number: int, _frame: FrameType | None) -> None:
        stop.request()
        for number in before:
            signal.signal(number, signal.SIG_IGN)

    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.getsignal(number) for number in heard}
    for number in heard:
        signal.signal(number, request)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            if not stop.requested:
                signal.signal(number, handler)
