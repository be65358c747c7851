"""Attaches under load and holds the server to having noticed nothing, for tests and soaks."""

from __future__ import annotations

import threading
from types import TracebackType

from examples.sglang_cpu.load import Answer, generate
from spectrace.attach.ways import Method
from tests.helpers.attach_rounds import Rounds, attach_often, belongings

WARM_UP = 3  # the first attaches import what stays, and warm the allocator
REQUESTS = 24
TOKENS = 24
_ROOM_BYTES = 32 << 20  # what a server under load takes by itself
_ROOM_PER_ATTACH_BYTES = 16 << 10


def answers_to(url: str, tag: str) -> list[tuple[int, ...]]:
    """Token ids of the same 24 requests as ever, four at a time.

    Raises:
        OSError: A request failed.
    """
    answers: list[Answer] = generate(
        url, requests=REQUESTS, concurrency=4, max_new_tokens=TOKENS, tag=tag
    )
    return [answer.token_ids for answer in answers]


class CheckedLoad:
    """Sends the same requests again and again, and compares what comes; a context manager.

    Args:
        url: The server.
        expected: As `answers_to` gave without a tracer.

    Attributes:
        rounds: How often all of them were answered.
        wrong: Rounds in which an answer differed.
        error: What failed, None as long as nothing has.
    """

    def __init__(self, url: str, expected: list[tuple[int, ...]]) -> None:
        self.rounds = self.wrong = 0
        self.error: Exception | None = None
        self._url = url
        self._expected = expected
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="checked-load")

    def __enter__(self) -> CheckedLoad:  # noqa: PYI034 - Self came with Python 3.11
        """Starts."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Waits for the requests under way."""
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._stop.is_set() and self.error is None:
            try:
                found = answers_to(self._url, f"checked-{self.rounds}")
            except Exception as error:  # noqa: BLE001 - the test looks at it
                self.error = error
                return
            self.rounds += 1
            self.wrong += found != self._expected


def attach_unnoticed(url: str, pid: int, ranks: list[int], method: Method, count: int) -> Rounds:
    """Attaches and detaches under load.

    Args:
        url: The server's address.
        pid: Any process of the server.
        ranks: Process ids of its schedulers.
        method: The way in.
        count: How often.

    Raises:
        AssertionError: A request failed or had other tokens, an attach failed, or threads,
            open files, mappings or memory of a scheduler grew.
    """
    expected = answers_to(url, "before")
    with CheckedLoad(url, expected) as load:
        attach_often(pid, WARM_UP, method)
        before = [belongings(rank) for rank in ranks]
        rounds = attach_often(pid, count, method)
        after = [belongings(rank) for rank in ranks]
    assert load.error is None
    assert (load.wrong, load.rounds > 0) == (0, True)
    assert rounds.failures == 0
    for then, now in zip(before, after, strict=True):
        assert (now.threads, now.files, now.mapped) == (then.threads, then.files, then.mapped)
        room_bytes = _ROOM_BYTES + count * _ROOM_PER_ATTACH_BYTES
        assert now.rss_bytes - then.rss_bytes < room_bytes
    return rounds
