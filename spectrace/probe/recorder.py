"""Collects the boundaries and counts of the running cycle and hands whole cycles to the ring."""

from __future__ import annotations

from time import monotonic_ns as now
from typing import TYPE_CHECKING

from .layout import (
    LAG_SHIFT,
    MAX_LAG,
    MAX_MARKS,
    PHASE_MASK,
    UNKNOWN,
    CycleFlag,
    Kind,
    Mode,
    Ph,
    RecordType,
    RowFlag,
    Word,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .ring import RingWriter

_UINT32 = 0xFFFFFFFF
_UINT16 = 0xFFFF
_UINT8 = 0xFF
_MAX_INTERNED = 4096  # names kept at a time; past that all are sent again


class Recorder:
    """The running cycle of one scheduler.

    A cycle is a row of marks: each starts a phase and ends the one before, so that phases
    touch. All state is of fixed size. `timing` is what the hooks ask before anything else:
    a cycle runs and its phases are wanted.

    Args:
        ring: Where whole cycles go.
    """

    __slots__ = (
        "_batch_size",
        "_count",
        "_distances",
        "_draft_tokens",
        "_flags",
        "_interned",
        "_joins",
        "_kind",
        "_lag_bits",
        "_last_interned",
        "_last_number",
        "_mode",
        "_own_ns",
        "_phases",
        "_ring",
        "_start_ns",
        "_steps",
        "_topk",
        "_words",
        "number",
        "open",
        "timing",
    )

    def __init__(self, ring: RingWriter) -> None:
        self._ring = ring
        self._words = ring.words
        self._phases = bytearray(MAX_MARKS)
        self._distances = [0] * MAX_MARKS
        self._interned: dict[str, tuple[int, int]] = {}
        self._last_interned = 0
        self._joins = 0
        self._mode = Mode.OFF
        self._last_number = 0
        self._reset(0, Kind.OTHER, 0)
        self.open = False
        self.timing = False

    def _reset(self, start_ns: int, kind: int, batch_size: int) -> None:
        self._start_ns = start_ns
        self._kind = kind
        self._batch_size = batch_size
        self._steps = self._topk = self._draft_tokens = 0
        self._flags = 0
        self._own_ns = 0
        self._count = 0
        self._lag_bits = 0
        self.number = 0

    def begin(self, start_ns: int, kind: int, batch_size: int) -> None:
        """Ends the running cycle, if there is one, and begins the next at `start_ns`."""
        if self.open:
            self.end(start_ns)
        words = self._words
        mode = words[Word.MODE]
        if mode != self._mode and self._last_number + 1 >= words[Word.MODE_FROM_CYCLE]:
            self._mode = words[Word.MODE_ACTIVE] = mode
        if words[Word.JOINS] != self._joins:
            self._joins = words[Word.JOINS]
            self._interned.clear()
        self._reset(start_ns, kind, batch_size)
        self.open = True
        self.timing = self._mode != Mode.OFF
        if self.timing:
            self._phases[0] = Ph.RESOLVE
            self._distances[0] = 0
            self._count = 1
        self._own_ns = now() - start_ns

    def mark(self, phase: int) -> None:
        """Begins `phase` now; the phase before it ends."""
        time_ns = now()
        count = self._count
        if count < MAX_MARKS:
            self._phases[count] = phase
            self._distances[count] = time_ns - self._start_ns
            self._count = count + 1
        else:
            self._flags |= CycleFlag.MARKS_DROPPED
        self._own_ns += now() - time_ns

    def mark_wait(self, of_number: int) -> None:
        """Begins waiting for the results of cycle `of_number`."""
        lag = self.number - of_number
        self._lag_bits = (0 if lag < 0 else min(lag, MAX_LAG)) << LAG_SHIFT
        self.mark(Ph.WAIT | self._lag_bits)

    def mark_result(self) -> None:
        """Ends the waiting: the counts are on the CPU. Without a wait it does nothing."""
        if self._phases[self._count - 1] & PHASE_MASK == Ph.WAIT:
            self.mark(Ph.RESULT | self._lag_bits)

    def speculate(self, steps: int, topk: int, draft_tokens: int) -> None:
        """The cycle verifies: with how many steps, branches and tokens per request."""
        self._kind = Kind.SPECULATIVE
        self._steps = min(steps, _UINT8)
        self._topk = min(topk, _UINT8)
        self._draft_tokens = min(draft_tokens, _UINT16)

    def raised(self) -> None:
        """The server's own code raised within the cycle."""
        self._flags |= CycleFlag.RAISED

    def charge(self, own_ns: int) -> None:
        """Adds `own_ns` to what the probe itself took in this cycle."""
        self._own_ns += own_ns

    def end(self, end_ns: int, flags: int = 0) -> None:
        """Ends the running cycle at `end_ns` and writes it."""
        self.open = self.timing = False
        number = self.number or self._last_number + 1
        length = end_ns - self._start_ns
        shift = max(0, length.bit_length() - 32)
        distances = self._distances
        if shift:
            distances = [distance >> shift for distance in distances]
        self._ring.cycle(
            self._kind,
            self._mode,
            self._flags | flags,
            number,
            self._start_ns,
            length >> shift,
            min(self._own_ns, _UINT32),
            min(self._batch_size, _UINT16),
            self._steps,
            self._topk,
            self._draft_tokens,
            self._count,
            shift,
            bytes(self._phases),
            *distances,
        )
        self._last_number = number
        words = self._words
        words[Word.CYCLES] += 1
        words[Word.PROBE_NS] += self._own_ns

    def intern(self, request_id: str, flags: int) -> tuple[int, int]:
        """The number and flags that stand for `request_id`, sent to the readers once."""
        if len(self._interned) >= _MAX_INTERNED:
            self._interned.clear()
        self._last_interned = self._last_interned % _UINT32 + 1
        entry = self._interned[request_id] = (self._last_interned, flags)
        self._ring.text(RecordType.REQUEST, self._last_interned, request_id)
        return entry

    def results(
        self,
        number: int,
        rows: Sequence[tuple[str, int | None, int, bool]],
        health_check_prefix: str,
    ) -> None:
        """Writes what cycle `number` brought each request.

        Args:
            number: The cycle.
            rows: Request id, correct drafts or None, output tokens, overshoot.
            health_check_prefix: How ids of the server's own probes begin.
        """
        known = self._interned.get
        packed = []
        for request_id, correct, tokens, overshoot in rows:
            entry = known(request_id)
            if entry is None:
                health_check = request_id.startswith(health_check_prefix)
                entry = self.intern(request_id, RowFlag.HEALTH_CHECK if health_check else 0)
            packed.append(
                (
                    entry[0],
                    UNKNOWN if correct is None else min(correct, UNKNOWN - 1),
                    min(tokens, _UINT16),
                    entry[1] | RowFlag.OVERSHOOT if overshoot else entry[1],
                )
            )
        self._ring.rows(number, packed)
