"""Puts the ranges of a thread into one another, and mends those that do not fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spectrace.importing.columns import Role, Span
from spectrace.importing.faults import Fault, Faults
from spectrace.model import CycleKind, PhaseName

# Within these a forward is one of the draft model, whatever its name says.
_DRAFTING = frozenset({Role.DRAFT, Role.DRAFT_EXTEND})

_ROUNDED_NS = 2_000  # old traces have whole µs for begins and lengths


@dataclass
class Range:
    """A range with what it lies in; fields as those of `Meaning` and `Span`."""

    role: Role
    start_ns: int
    end_ns: int
    within: Range | None
    kind: CycleKind | None
    batch_size: int | None
    draft_tokens: int | None
    phase: PhaseName | None
    number: int | None
    links: list[int]

    @property
    def is_outer(self) -> bool:
        """Whether nothing but the scheduler's loop is around it."""
        return self.within is None or self.within.role is Role.OVERLAP

    def is_in(self, role: Role) -> bool:
        """Whether a range of that role is around it."""
        return self.within is not None and (self.within.role is role or self.within.is_in(role))


def nested(spans: Iterable[Span], faults: Faults) -> list[Range]:
    """The ranges in the order of their begins, outer ones first.

    A range of the same role as one around it is that one, seen twice: by an annotation and as a
    function of Python, or by a function that calls its parent's. What it says is kept.

    Args:
        spans: Of one thread, in any order.
        faults: Where it is counted what ended after the range around it, and was cut.
    """
    ranges: list[Range] = []
    around: list[Range] = []
    for span in sorted(spans, key=lambda span: (span.start_ns, -span.end_ns)):
        while around and around[-1].end_ns <= span.start_ns:
            around.pop()
        fresh = _range_of(span, around[-1] if around else None)
        if around and fresh.end_ns > around[-1].end_ns:
            faults.add(Fault.CROSSING, fresh.end_ns - around[-1].end_ns > _ROUNDED_NS)
            fresh.end_ns = around[-1].end_ns
        same = next((outer for outer in around if outer.role is fresh.role), None)
        if same is not None and fresh.role is not Role.PHASE:
            _tell(same, fresh)
            continue
        ranges.append(fresh)
        around.append(fresh)
    return ranges


def _range_of(span: Span, within: Range | None) -> Range:
    meaning = span.meaning
    fresh = Range(
        meaning.role,
        span.start_ns,
        span.end_ns,
        within,
        meaning.kind,
        meaning.batch_size,
        meaning.draft_tokens,
        meaning.phase,
        meaning.number,
        [] if span.link is None else [span.link],
    )
    if fresh.role is Role.FORWARD and any(fresh.is_in(role) for role in _DRAFTING):
        fresh.role = Role.STEP
    return fresh


def _tell(outer: Range, inner: Range) -> None:
    """Keeps what an inner range of the same role says and the outer one does not."""
    outer.kind = outer.kind or inner.kind
    outer.batch_size = outer.batch_size if outer.batch_size is not None else inner.batch_size
    if outer.draft_tokens is None:
        outer.draft_tokens = inner.draft_tokens
    outer.links += inner.links
