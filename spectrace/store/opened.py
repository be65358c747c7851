"""A recording for people who analyse it in Python: its tables as Arrow."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from spectrace.store.extract import Extract

if TYPE_CHECKING:  # it takes long to import
    from pyarrow import Table


class OpenRecording:
    """A recorded run; a context manager.

    Its tables have the columns of docs/files.md and are read when they are first asked for.

    Args:
        path: A file that `spectrace record` wrote, or the directory of a store whose owner
            has ended.

    Attributes:
        runs: The servers that were traced.

    Raises:
        SpectraceError: There is no such recording, it is in use, damaged, or none of
            spectrace's.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._extract = Extract(Path(path))
        self.runs = tuple(self._extract.runs)

    @cached_property
    def cycles(self) -> Table:
        """One row per cycle."""
        return self._extract.table("cycles").read_all()

    @cached_property
    def ranks(self) -> Table:
        """One row per cycle and rank."""
        return self._extract.table("ranks").read_all()

    @cached_property
    def phases(self) -> Table:
        """One row per cycle, rank, lane and phase."""
        return self._extract.table("phases").read_all()

    @cached_property
    def requests(self) -> Table:
        """One row per cycle and request."""
        return self._extract.table("requests").read_all()

    @cached_property
    def spans(self) -> Table:
        """One row per span of others that was received, such as SGLang's own of a request."""
        return self._extract.table("spans").read_all()

    @cached_property
    def looks(self) -> Table:
        """One row per look at kernels."""
        return self._extract.table("looks").read_all()

    @cached_property
    def kernels(self) -> Table:
        """One row per kernel, copy or fill that a look saw and a phase launched."""
        return self._extract.table("kernels").read_all()

    @cached_property
    def kernel_names(self) -> Table:
        """One row per name of a kernel and look, with its class."""
        return self._extract.table("kernel_names").read_all()

    def close(self) -> None:
        """Lets go of the file; tables that were read stay."""
        self._extract.close()

    def __enter__(self) -> OpenRecording:  # noqa: PYI034 - Self came with Python 3.11
        """Gives the recording."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()
