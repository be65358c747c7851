"""A thread that does pieces of work in turn, and that the end of the process does not wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

_Result = TypeVar("_Result")


class ReadingThread:
    """Does what is submitted, one after the other.

    The interpreter joins the threads of a `ThreadPoolExecutor` before it exits, however long
    they take; this one it leaves behind.

    Args:
        name: Of the thread, which starts with the first piece of work.
    """

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._starting = threading.Lock()
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def submit(self, work: Callable[[], _Result]) -> Future[_Result]:
        """Puts a piece of work at the end; cancelled before its turn, it is not done."""
        future: Future[_Result] = Future()
        self._waiting.put(lambda: _do(work, future))
        with self._starting:
            if self._thread.ident is None:
                self._thread.start()
        return future

    def end(self) -> None:
        """Has the thread end after what is submitted; does not wait for it."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (step := self._waiting.get()) is not None:
            step()
            del step  # it may hold what was read, while nothing else comes


def _do(work: Callable[[], _Result], future: Future[_Result]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
        future.set_exception(error)
    else:
        future.set_result(result)
