"""Collects cycles beside the file that they are to become."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from spectrace.errors import SpectraceError
from spectrace.store.publish import refuse_existing, unwritable
from spectrace.store.store import CycleStore

SUFFIX = ".spectrace"
_FOREVER_S = 1e9  # thirty years


@contextmanager
def recorded(
    path: Path, *, force: bool, max_bytes: int, whole: bool = False
) -> Iterator[CycleStore]:
    """A store of which all is written into one file at the end, also when the block raises.

    Args:
        path: The file to make; the store lies beside it meanwhile.
        force: Replace the file if there is one.
        max_bytes: Size of the store; beyond it the oldest cycles go.
        whole: What is stored can be had again: where the block raises, or something cannot be
            written, nothing is left of it.

    Raises:
        SpectraceError: `path` exists, or cannot be written; what was collected is then kept
            beside it, but for `whole`. Or nothing of it could be stored.
    """
    refuse_existing(path, force=force)
    try:
        work = Path(tempfile.mkdtemp(prefix=".spectrace-", dir=path.parent))
    except OSError as error:
        raise unwritable(path, error) from error
    ended = unsaved = False
    try:
        with closing(CycleStore(work, retain_s=_FOREVER_S, max_bytes=max_bytes)) as store:
            try:
                yield store
                if whole or not store.runs():
                    store.flush()  # which says why not
                ended = True
            finally:
                if store.runs() and (ended or not whole):
                    unsaved = not whole
                    _save(store, path, work, force=force, keeps=unsaved)
                    unsaved = False
    finally:
        if not unsaved:
            shutil.rmtree(work, ignore_errors=True)


def _save(store: CycleStore, path: Path, work: Path, *, force: bool, keeps: bool) -> None:
    try:
        store.save(path, force=force)
    except SpectraceError as error:
        if not keeps:
            raise
        raise SpectraceError(
            f"{error} What was collected is kept in {work}: `spectrace view` opens it."
        ) from error
