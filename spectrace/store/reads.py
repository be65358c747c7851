"""Answers what can be asked of a `CycleSource`, wherever its shelf may be touched."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from spectrace.chosen import Choice, Chosen, Timed
from spectrace.kernels import KernelLook, SeenKernels
from spectrace.measures import Measures
from spectrace.model import Cycle, OtherSpan, Run
from spectrace.store.choosing import Choosing
from spectrace.store.cutting import Cutting
from spectrace.store.looks import kernels, looks
from spectrace.store.overseeing import Overseeing
from spectrace.store.request_history import request_history, served_requests
from spectrace.store.shelf import Shelf
from spectrace.store.source import (
    PAGE,
    Cut,
    OtherTrace,
    RequestHistory,
    RequestKey,
    ServedRequest,
    Stats,
    TraceKey,
)

_Result = TypeVar("_Result")


class ShelfReads(ABC):
    """The reads of a `CycleSource`, from a shelf that belongs to one thread at a time.

    Attributes:
        _shelf: What is read; set before the first question.
    """

    _shelf: Shelf

    @abstractmethod
    def _ask(self, question: Callable[[], _Result]) -> _Result:
        """Answers a question where and when the shelf may be touched."""

    @abstractmethod
    def _scratch(self) -> Path:
        """An existing directory in which the shelf's database may make files."""

    def runs(self) -> list[Run]:
        """As `CycleSource.runs`."""
        return self._ask(self._shelf.runs)

    def groups(self, run_id: str) -> list[str]:
        """As `CycleSource.groups`."""
        return self._ask(lambda: self._shelf.groups(run_id))

    def cycles(
        self, run_id: str, *, group: str = "", before: int | None = None, limit: int = PAGE
    ) -> list[Cycle]:
        """As `CycleSource.cycles`."""
        return self._ask(
            lambda: self._shelf.cycles(run_id, group=group, before=before, limit=limit)
        )

    def cycle(self, run_id: str, group: str, number: int) -> Cycle | None:
        """As `CycleSource.cycle`."""
        return self._ask(lambda: self._shelf.cycle(run_id, group, number))

    def recent(self, run_id: str, seconds: float) -> list[Cycle]:
        """As `CycleSource.recent`."""
        return self._ask(lambda: self._shelf.recent(run_id, seconds))

    def measure(self, run_id: str) -> Measures:
        """As `CycleSource.measure`."""
        return self._ask(lambda: self._shelf.measure(run_id))

    def chosen(self, choice: Choice) -> Chosen:
        """As `CycleSource.chosen`."""
        return Choosing(self._ask, self._shelf, choice).chosen()

    def timed(self, run_id: str, group: str, from_ns: int | None, to_ns: int | None) -> Timed:
        """As `CycleSource.timed`."""
        return Overseeing(self._ask, self._shelf, (run_id, group)).timed(from_ns, to_ns)

    def served_requests(
        self, run_id: str, group: str, before: RequestKey | None, limit: int
    ) -> list[ServedRequest]:
        """As `CycleSource.served_requests`."""
        return self._ask(lambda: served_requests(self._shelf, (run_id, group), before, limit))

    def request_history(
        self, run_id: str, group: str, request_id: str, before: int | None, limit: int
    ) -> RequestHistory | None:
        """As `CycleSource.request_history`."""
        return self._ask(
            lambda: request_history(self._shelf, (run_id, group), request_id, before, limit)
        )

    def looks(self, run_id: str) -> list[KernelLook]:
        """As `CycleSource.looks`."""
        return self._ask(lambda: looks(self._shelf, run_id))

    def kernels(self, run_id: str, group: str, number: int) -> list[SeenKernels]:
        """As `CycleSource.kernels`."""
        return self._ask(lambda: kernels(self._shelf, run_id, group, number))

    def other_spans(self, limit: int) -> list[OtherSpan]:
        """As `CycleSource.other_spans`."""
        return self._ask(lambda: self._shelf.other_spans(limit))

    def other_traces(self, before: TraceKey | None, limit: int, spans: int) -> list[OtherTrace]:
        """As `CycleSource.other_traces`."""
        return self._ask(lambda: self._shelf.other_traces(before, limit, spans))

    def stats(self, run_id: str | None = None) -> Stats:
        """As `CycleSource.stats`."""
        return self._ask(lambda: self._shelf.stats(run_id))

    @contextmanager
    def cut(self, cut: Cut, name: str, check: Callable[[Path], None]) -> Iterator[Path]:
        """As `CycleSource.cut`."""
        with tempfile.TemporaryDirectory(prefix="saving-", dir=self._scratch()) as work:
            path = Path(work) / name
            Cutting(self._ask, self._shelf, cut).write(path, check)
            yield path
