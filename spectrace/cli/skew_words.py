"""Says in words which rank of a server is late, and who waits for it."""

from __future__ import annotations

from collections.abc import Iterator

from spectrace.analysis.rank_skew import PhaseSkew, Skew
from spectrace.cli import numbers
from spectrace.cli.figures import listed
from spectrace.cli.timing_words import label


def sentences(found: Skew) -> tuple[str, ...]:
    """What was found as sentences, which make one paragraph."""
    return tuple(_sentences(found))


def _sentences(found: Skew) -> Iterator[str]:
    if found.problem:
        yield found.problem
    elif found.straggler is not None and found.waits_in is not None:
        yield from _straggler(found)
    else:
        yield _together(found)
    if found.left_out_ranks:
        yield (
            f"{listed(found.left_out_ranks)} run on other machines and are left out: how far the "
            "clocks lie apart is not known."
        )


def _straggler(found: Skew) -> Iterator[str]:
    waits = shown(found)
    if waits is None:
        return
    late = next(rank.late_ms.value for rank in waits.ranks if rank.rank == found.straggler)
    phase = label(waits.phase)
    yield (
        f"{found.straggler} comes to {phase} {numbers.milliseconds(late)} behind the first rank, "
        f"and the others wait for it there: up to {numbers.milliseconds(_of(found))} of their "
        f"{phase} is no work and no communication of theirs."
    )
    if found.lost_in is not None:
        yield f"It falls behind in {label(found.lost_in)}."


def shown(found: Skew) -> PhaseSkew | None:
    """The phase that says most: where a straggler is waited for, else where ranks lie apart."""
    waits = [
        one
        for one in found.phases
        if one.phase is found.waits_in and one.straggler == found.straggler and one.synchronises
    ]
    return max(waits or found.phases, key=lambda one: one.start_spread_ms.value, default=None)


def _of(found: Skew) -> float | None:
    return found.waited_ms.value if found.waited_ms else None


def _together(found: Skew) -> str:
    widest = shown(found)
    if widest is None:
        return "Nothing is known of how far the ranks lie apart."
    usual = numbers.milliseconds(widest.start_spread_ms.value)
    return (
        "No rank is clearly later than the others. They lie furthest apart where they come to "
        f"{label(widest.phase)}: {usual} in the median "
        f"(p95 {numbers.milliseconds(widest.start_spread_p95_ms.value)})."
    )
