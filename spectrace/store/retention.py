"""Decides when a slice is full and which slices have to go; no files are touched here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec

SLICE_CYCLES = 100_000  # the numbers of the two newest slices are kept in memory
_SLICES = 10  # that the retained time is cut into
_SIZE_SLICES = 8  # that the allowed size is cut into


class Aged(Protocol):
    """What retention must know about a slice."""

    @property
    def opened_ns(self) -> int:
        """Time of its first cycle, in ns."""

    @property
    def newest_ns(self) -> int:
        """Time of its newest cycle, look or span of others, in ns."""

    @property
    def cycles_ns(self) -> int:
        """Time of its newest cycle or look, in ns, 0 if it has none."""

    @property
    def bytes(self) -> int:
        """Size of its files."""

    @property
    def cycles(self) -> int:
        """Cycles in it."""


_Held = TypeVar("_Held", bound=Aged)


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept.

    A cycle is kept for at least `retain_ns`, counted back from the newest cycle, unless the size
    forbids it, and for at most `retain_ns` + `slice_ns`. Spans of others, whose makers we do not
    know, push no cycle out by their times. They are kept as long, counted back from the newest
    cycle or span. Looks at kernels are as cycles.

    Attributes:
        retain_ns: Age in ns.
        slice_ns: Time in ns that one slice covers.
        max_bytes: Size of all slices together.
    """

    retain_ns: int
    slice_ns: int
    max_bytes: int

    @classmethod
    def of(cls, retain_s: float, max_bytes: int, slice_s: float | None = None) -> Retention:
        """The same from seconds.

        Raises:
            ValueError: A time or the size is not positive.
        """
        slice_s = max(retain_s / _SLICES, 1.0) if slice_s is None else slice_s
        if retain_s <= 0 or slice_s <= 0 or max_bytes <= 0:
            raise ValueError("a store keeps a positive time and size")
        return cls(
            retain_ns=round(retain_s * 1e9), slice_ns=round(slice_s * 1e9), max_bytes=max_bytes
        )

    def is_full(self, current: Aged) -> bool:
        """Whether the next cycle belongs into another slice, by size."""
        return current.bytes >= self.max_bytes // _SIZE_SLICES or current.cycles >= SLICE_CYCLES

    def fitting(self, current: Aged, times_ns: Sequence[int]) -> int:
        """How many of the next cycles, with these times in ns, belong into the slice."""
        until_ns = current.opened_ns + self.slice_ns
        late = (place for place, time_ns in enumerate(times_ns) if time_ns >= until_ns)
        return next(late, len(times_ns))

    def expired(self, slices: Sequence[_Held]) -> list[_Held]:
        """The slices that have to go; the last one always stays.

        For the sake of the size those without cycles go first.

        Args:
            slices: In the order in which they were opened.
        """
        newest_ns = max((held.newest_ns for held in slices), default=0)
        newest_cycle_ns = max((held.cycles_ns for held in slices), default=0)
        size = sum(held.bytes for held in slices)
        gone = []
        for held in sorted(slices[:-1], key=lambda held: held.cycles_ns > 0):
            is_fresh = held.newest_ns >= newest_ns - self.retain_ns
            if held.cycles_ns > 0:
                is_fresh |= held.cycles_ns >= newest_cycle_ns - self.retain_ns
            if size > self.max_bytes or not is_fresh:
                size -= held.bytes
                gone.append(held)
        return gone
