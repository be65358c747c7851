"""Reads from a recording what the statistics of one of its runs rest on."""

# ruff: noqa: S608 - the names of databases in the query are our own

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from spectrace.errors import SpectraceError
from spectrace.measures import Measures
from spectrace.model import CycleKind, Run
from spectrace.store.database import Database
from spectrace.store.measure import measure
from spectrace.store.recording import files_of
from spectrace.store.windows import SAMPLE


def measure_recording(path: Path, run_id: str = "", sample: int = SAMPLE) -> Measures:
    """What a recording holds of one run.

    Args:
        path: A file that was saved, or the directory of a store whose owner has ended.
        run_id: The run, or how its id begins; if not given the one with the most cycles.
        sample: Of how many cycles the phases are read, about.

    Raises:
        SpectraceError: There is no such recording or run, or it has no cycles.
    """
    with _opened(path) as (database, names):
        return measure(database, names, _chosen_run(database, names, path, run_id), sample)


def runs_of(path: Path, kind: CycleKind | None = None) -> tuple[str, ...]:
    """The ids of the runs of a recording, the one with the most cycles first.

    Args:
        path: As of `measure_recording`.
        kind: Cycles of this kind alone; of any kind if not given. Of several runs those without
            any are left out.

    Raises:
        SpectraceError: There is no such recording.
    """
    with _opened(path) as (database, names):
        known = {run.run_id for name in names for run in database.runs(name)}
        if kind is None and len(known) == 1:  # to count takes longer the longer it is
            return tuple(known)
        counts = _cycles(database, names, kind)
    return tuple(run_id for run_id, _ in counts.most_common())


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Database, list[str]]]:
    """A recording, with the names of its parts."""
    files = files_of(path)
    database = Database(files[0].parent, roomy=True)
    try:
        names = [f"part_{number}" for number in range(len(files))]
        for file, name in zip(files, names, strict=True):
            database.attach(file, name, read_only=True)
        yield database, names
    finally:
        database.close()


def _cycles(
    database: Database, names: Sequence[str], kind: CycleKind | None = None
) -> Counter[str]:
    counts: Counter[str] = Counter()
    where, values = ("", []) if kind is None else ("WHERE kind = ?", [kind.value])
    for name in names:
        columns = database.columns(
            f"SELECT run_id, count(*) AS cycles FROM {name}.cycles {where} GROUP BY run_id", values
        )
        counts.update(dict(zip(columns["run_id"], columns["cycles"].tolist(), strict=True)))
    return counts


def _chosen_run(database: Database, names: Sequence[str], path: Path, run_id: str) -> Run:
    known = {run.run_id: run for name in names for run in database.runs(name)}
    fitting = [key for key in known if key.startswith(run_id)]
    if not fitting:
        raise SpectraceError(
            f"{path} has no run {run_id}: it has {', '.join(key[:8] for key in known) or 'none'}."
        )
    if len(fitting) == 1:
        return known[fitting[0]]
    counts = _cycles(database, names)
    return known[max(fitting, key=lambda key: counts[key])]
