"""Writes a part of what is stored into one file, a stretch at a time.

Between two stretches the thread of the store does what else waits for it, such as writing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import duckdb

from spectrace.errors import SpectraceError
from spectrace.store.choosing import Ask
from spectrace.store.shelf import Shelf
from spectrace.store.source import Cut

STRETCH = 4_000  # ids that are copied at once: a fifth of what may wait to be written
_TARGET = "cutting"
_T = TypeVar("_T")


class Cutting:
    """Cuts one part out; one at a time of a shelf.

    Args:
        ask: How the shelf is asked.
        shelf: What is read.
        cut: The part.
        stretch: So many ids are copied at once.
    """

    def __init__(self, ask: Ask, shelf: Shelf, cut: Cut, *, stretch: int = STRETCH) -> None:
        self._ask = ask
        self._shelf = shelf
        self._cut = cut
        self._stretch = stretch

    def write(self, path: Path, check: Callable[[Path], None]) -> None:
        """Writes it.

        A slice that the store has to forget meanwhile is missing from there on.

        Args:
            path: The file to make, in a directory that the shelf's database may write to.
            check: As of `CycleSource.cut`.

        Raises:
            SpectraceError: There is no cycle in it, or it cannot be written.
        """
        check(path)
        database = self._shelf.database
        stretches = self._said(path, self._plan)
        kernels = self._said(path, self._plan_kernels)
        self._said(path, lambda: database.create(path, _TARGET))
        try:
            self._said(path, self._put_run)
            for stretch in stretches:
                self._said(path, partial(self._copy, *stretch))
                check(path)
            for stretch in kernels:
                self._said(path, partial(self._copy_kernels, *stretch))
                check(path)
            self._said(path, self._copy_others)
        finally:
            self._ask(lambda: database.detach(_TARGET))

    def _plan(self) -> list[tuple[str, int, int]]:
        database, names = self._shelf.database, self._names()
        if not names or not database.note_newest(names, cut=self._cut):
            raise SpectraceError(
                "No stored cycle lies there: choose another stretch of time, or the whole run."
            )
        return [
            (name, low, high)
            for name in names
            for low, high in reversed(list(database.stretches(name, self._stretch)))
        ]

    def _plan_kernels(self) -> list[tuple[str, int, int]]:
        database = self._shelf.database
        return [
            (name, low, high)
            for name in self._names()
            for low, high in database.kernel_stretches(name)
        ]

    def _put_run(self) -> None:
        runs = [run for run in self._shelf.runs() if run.run_id == self._cut.run_id]
        self._shelf.database.put_runs(_TARGET, runs)

    def _copy(self, name: str, low: int, high: int) -> None:
        if name in self._names():
            self._shelf.database.copy_stretch(name, _TARGET, low, high)

    def _copy_kernels(self, name: str, low: int, high: int) -> None:
        if name in self._names():
            self._shelf.database.copy_kernels(name, _TARGET, low, high)

    def _copy_others(self) -> None:
        for name in self._names():
            self._shelf.database.copy_others(name, _TARGET)

    def _names(self) -> list[str]:
        return [part.name for part in self._shelf.slices]

    def _said(self, path: Path, work: Callable[[], _T]) -> _T:
        try:
            return self._ask(work)
        except duckdb.Error as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise SpectraceError(
                f"{path.name} cannot be written ({reason}): make room where {path.parent.parent} "
                "lies."
            ) from error
