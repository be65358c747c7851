"""What releases of SGLang need that do not number their batches or hand out tokens early.

Loaded only where such a server is traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .engines import sglang as engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .engines.sglang_releases import Chosen

_MOST_WAITING = 64  # results between a `run_batch` and its `process_batch_result`


class Older:
    """Pairs results with cycles, and finds counts where they once were.

    No result is held on to: it would keep the device's memory.

    Args:
        chosen: The rows.
        staged: Whether results are made anew on their way, as between pipeline stages: they are
            then paired by their batch, which stays the same object.

    Attributes:
        early: What the requests of the running batch had before it ran, where the worker
            itself hands out the tokens; None where it does not, or it is not known.
    """

    __slots__ = (
        "_counts",
        "_numbered",
        "_staged",
        "_sums",
        "_verified",
        "_waiting",
        "early",
        "is_early",
    )

    def __init__(self, chosen: Chosen, *, staged: bool) -> None:
        self._numbered = chosen.numbered
        self._counts = chosen.counts
        self._staged = staged
        self._waiting: list[tuple[int, int]] = []  # identity of result or batch, its cycle
        self._verified: Any = None
        self._sums: list[tuple[int, int]] = []  # verifies and correct drafts of each request
        self.is_early = chosen.early
        self.early: Any = None

    @property
    def wants_verified(self) -> bool:
        """Whether what `verify` gives back has the counts."""
        return self._counts[0] == engine.VERIFIED

    def ran(self, result: Any, batch: Any, number: int) -> int:
        """The number of the cycle that has just made `result`.

        Args:
            result: What `run_batch` gave back.
            batch: What it was given.
            number: The scheduler's count of cycles.
        """
        if self._numbered:
            return int(batch.forward_iter)
        waiting = self._waiting
        if len(waiting) >= _MOST_WAITING:
            del waiting[0]
        waiting.append((id(batch if self._staged else result), number))
        return number

    def number_of(self, result: Any, batch: Any) -> int:
        """The cycle that made `result`, 0 where none is known; those before it are forgotten."""
        if self._numbered:
            return int(batch.forward_iter)
        waiting = self._waiting
        place = self._place_of(id(batch if self._staged else result))
        if place < 0:
            return 0
        number = waiting[place][1]
        del waiting[: place + 1]
        return number

    def _place_of(self, identity: int) -> int:
        """Where the newest entry of an object stands: older ones were of others, now gone."""
        for place in range(len(self._waiting) - 1, -1, -1):
            if self._waiting[place][0] == identity:
                return place
        return -1

    def keep_verified(self, value: Any) -> None:
        """Keeps the verify output for `correct`."""
        if isinstance(value, tuple) and len(value) > engine.VERIFIED_PLACE:
            self._verified = value[engine.VERIFIED_PLACE]

    def look(self, reqs: Sequence[Any], early: Any) -> None:
        """Takes down what the requests have before their worker runs.

        Args:
            reqs: The requests of the batch.
            early: What the tracer wants to know again when their results are processed.
        """
        self.early = early
        if self._counts[0] == engine.REQUEST:
            self._sums = [self._sum_of(request) for request in reqs]

    def _sum_of(self, request: Any) -> tuple[int, int]:
        return getattr(request, engine.VERIFIES), getattr(request, self._counts[1])

    def correct(
        self, result: Any, looked: Sequence[tuple[Any, int, bool]]
    ) -> Sequence[int | None] | None:
        """Correct drafts of each request as the server has counted them; None: it does not say.

        Args:
            result: What `run_batch` gave back.
            looked: The requests, with what they had before.
        """
        where, name, surplus = self._counts
        if where == engine.REQUEST:
            return self._grown(looked)
        holder = self._verified if where == engine.VERIFIED else result
        self._verified = None
        found = getattr(holder, name, None) if name else None
        if found is None or isinstance(found, list):
            return found
        if not getattr(found, "is_cpu", False):  # reading it would wait for the device
            return None
        return [count - surplus for count in found.tolist()]

    def _grown(self, looked: Sequence[tuple[Any, int, bool]]) -> list[int | None] | None:
        """By how much the sums have grown, None for a request that was not verified."""
        before, self._sums = self._sums, []
        if len(before) != len(looked):
            return None
        grown: list[int | None] = []
        for (request, _, _), (verifies, correct) in zip(looked, before):  # noqa: B905 - same length
            verifies_now, correct_now = self._sum_of(request)
            grown.append(correct_now - correct if verifies_now > verifies else None)
        return grown
