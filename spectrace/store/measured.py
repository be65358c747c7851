"""Reads from a recording what the statistics of one of its runs rest on."""

# ruff: noqa: S608 - the names of databases in the query are our own

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from spectrace.errors import SpectraceError
from spectrace.measures import Measures
from spectrace.model import Run
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
    files = files_of(path)
    database = Database(files[0].parent, roomy=True)
    try:
        names = [f"part_{number}" for number in range(len(files))]
        for file, name in zip(files, names, strict=True):
            database.attach(file, name, read_only=True)
        return measure(database, names, _chosen_run(database, names, path, run_id), sample)
    finally:
        database.close()


def _chosen_run(database: Database, names: Sequence[str], path: Path, run_id: str) -> Run:
    counts: Counter[str] = Counter()
    for name in names:
        columns = database.columns(
            f"SELECT run_id, count(*) AS cycles FROM {name}.cycles GROUP BY run_id", []
        )
        counts.update(dict(zip(columns["run_id"], columns["cycles"].tolist(), strict=True)))
    known = {run.run_id: run for name in names for run in database.runs(name)}
    fitting = [key for key in known if key.startswith(run_id)]
    if not fitting:
        raise SpectraceError(
            f"{path} has no run {run_id}: it has {', '.join(key[:8] for key in known) or 'none'}."
        )
    return known[max(fitting, key=lambda key: counts[key])]
