"""Ranks that come later are looked for now and then, and tried again where they refuse."""

from __future__ import annotations

import msgspec

from spectrace.attach.late import LateRanks
from spectrace.errors import SpectraceError
from spectrace.model import Run
from tests.helpers.anything import any_run

FIRST, SECOND = any_run("TP0", "TP1").ranks
RUN = any_run("TP0")
REFUSAL = SpectraceError("It is busy.")


def both(run: Run) -> Run:
    """The server has got a second rank."""
    return msgspec.structs.replace(run, ranks=(FIRST, SECOND))


def test_a_server_is_looked_at_every_two_seconds() -> None:
    """For the first time 2 s after it was attached to."""
    looked: list[float] = []
    time_s = 0.0

    def again(run: Run) -> Run:
        looked.append(time_s)
        return run

    late = LateRanks(again)
    for tenth in range(1000, 1070):
        time_s = tenth / 10
        assert late.look(RUN, time_s) == []
    assert looked == [102.0, 104.0, 106.0]


def test_new_ranks_alone_are_given() -> None:
    """Those that the run has are not attached to again."""
    late = LateRanks(both)
    late.look(RUN, 10.0)
    assert late.look(RUN, 12.0) == [SECOND]
    assert late.look(both(RUN), 14.0) == []


def test_a_rank_that_refuses_is_tried_ever_more_rarely() -> None:
    """4, 8, 16, 32 and then 60 s later, and people hear of it at the fourth time."""
    late = LateRanks(both)
    late.look(RUN, 1.0)
    tried, told = [], []
    for time_s in range(3, 203, 2):
        for rank in late.look(RUN, float(time_s)):
            tried.append(time_s)
            if sentences := late.refused(rank, REFUSAL, float(time_s)):
                told.append((time_s, *sentences))
    assert tried == [3, 7, 15, 31, 63, 123, 183]
    assert told == [
        (31, "TP1 (process 72) is new, but cannot be traced so far: It is busy."),
    ]


def test_a_server_that_has_ended_has_no_new_ranks() -> None:
    """That it has shows elsewhere."""

    def gone(run: Run) -> Run:
        raise SpectraceError(f"There is no process {run.server_pid}.")

    late = LateRanks(gone)
    late.look(RUN, 1.0)
    assert late.look(RUN, 3.0) == []
