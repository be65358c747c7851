"""Reads from the files of a store what the statistics of a run rest on (`measures.Measures`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from spectrace.errors import SpectraceError
from spectrace.measures import WARM_UP_CYCLES, LeftOut, Measures
from spectrace.model import Run
from spectrace.store.counting import Counting
from spectrace.store.database import Database
from spectrace.store.sampling import Sampling, is_sampled
from spectrace.store.windows import SAMPLE, plan

_PHASE_ROWS = 3_000_000  # that are read at most, about
_PHASES = 16  # of a rank's cycle
_REQUEST_ROWS = 2_000_000  # that are read at most, about: of batches of hundreds
_LEAST = 1000  # cycles that are sampled, however many ranks they have


def measure(database: Database, names: Sequence[str], run: Run, sample: int = SAMPLE) -> Measures:
    """What the files hold of one run.

    Args:
        database: To which they are attached.
        names: As what, the oldest first.
        run: The run.
        sample: Of how many cycles the phases are read, about.

    Raises:
        SpectraceError: There are no cycles of this run, or none but warm-up.
    """
    counting = Counting(database, names, run.run_id)
    counted = counting.counts() if counting.groups else None
    if counted is None:
        raise SpectraceError(
            f"There are no cycles of the run {run.run_id[:8]} to report on, but for warm-up: "
            "record it while the server answers requests."
        )
    ranks = max(1, len(run.ranks) // len(counting.groups))
    requests = max(1, math.ceil(counted.rows["rows"].sum() / counted.cycles["cycles"].sum()))
    most = min(
        sample, max(_LEAST, min(_PHASE_ROWS // (_PHASES * ranks), _REQUEST_ROWS // requests))
    )
    sampling = Sampling(database, run.run_id, counting.groups)
    windows = plan(counted.cycles, most)
    tables = sampling.tables(windows)
    return Measures(
        run=run,
        groups=tuple(group.name for group in counting.groups),
        rank_names=tables.rank_names,
        request_ids=tables.request_ids,
        cycle_counts=counted.cycles,
        row_counts=counted.rows,
        overshoot_counts=counted.overshoot,
        cycles=tables.cycles,
        ranks=tables.ranks,
        phases=tables.phases,
        rows=tables.rows,
        left_out=LeftOut(
            warm_up_cycles=sum(min(WARM_UP_CYCLES, group.versions) for group in counting.groups),
            overshoot_rows=counted.overshoot_rows,
            health_check_rows=counted.health_check_rows,
            unknown_cycles=counted.unknown_cycles,
        ),
        is_sampled=is_sampled(tables.cycles, windows),
    )
