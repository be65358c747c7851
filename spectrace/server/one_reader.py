"""Lets one browser at a time have much read, from the store or of /proc, and few wait for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException

MOST_WAITING = 4  # each of whom takes one of the server's threads; the one that reads is among them
_PATIENCE_S = 20.0


class OneReader:
    """Whose turn it is; methods may be called from any thread.

    Args:
        busy: What is said where too many wait, a sentence.
    """

    def __init__(
        self, busy: str = "Others are reading from the store: ask again in a few seconds."
    ) -> None:
        self._busy = busy
        self._reading = threading.Lock()
        self._room = threading.Semaphore(MOST_WAITING)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits until nobody else reads.

        Raises:
            HTTPException: Too many wait already, or for too long. Status 503.
        """
        if not self._room.acquire(blocking=False):
            raise HTTPException(503, self._busy)
        try:
            if not self._reading.acquire(timeout=_PATIENCE_S):
                raise HTTPException(503, self._busy)
            try:
                yield
            finally:
                self._reading.release()
        finally:
            self._room.release()
