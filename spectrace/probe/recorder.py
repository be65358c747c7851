"""Collects the boundaries and counts of the running cycle and hands whole cycles to the ring."""

from __future__ import annotations

from time import monotonic_ns as now
from typing import TYPE_CHECKING, Any

from . import skipped  # loaded when first used: see bootstrap
from .layout import (
    LAG_SHIFT,
    LOW_HALF,
    MARK_DISTANCE_BITS,
    MAX_LAG,
    MAX_MARKS,
    PHASE_MASK,
    UNKNOWN,
    UNKNOWN_LENGTH,
    CycleFlag,
    Graph,
    Kind,
    Mode,
    Ph,
    RecordType,
    RowFlag,
    Word,
    every_at,
    length_shift,
    split_mode,
    split_sampling,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .contracts import Boundaries, CycleRanges, Synchronizer
    from .request_spans import RequestSpans
    from .ring import RingWriter

_FLAG_BITS = 8
_FLAGS = 0xFF
_ASKED_SHIFT = 4  # of the mode that was asked for, above the one that is taken
_LONGEST_ID = 1024  # characters
_MAX_INTERNED = 4096  # names kept at a time; past that all are sent again
# Between two cycles the server's own work drives our code and data out of the processor's
# caches: written one by one, a record takes five times as long as the next one right behind it.
HOLD = 16  # records, of eight cycles with their results
HOLD_NS = 50_000_000
# Read or written at every cycle: looked up once.
_MODE, _SAMPLING, _JOINS = Word.MODE, Word.SAMPLING, Word.JOINS
_CYCLES, _PROBE_NS, _NEWEST_CYCLE = Word.CYCLES, Word.PROBE_NS, Word.NEWEST_CYCLE
_OFF = Mode.OFF
_NO_SIZE = (0, 0, 0)
_NO_LOAD = (-1, -1)
_START_NS = 4  # where it stands in `layout.CYCLE`
_DRAFTING = (Ph.DRAFT, Ph.DRAFT_STEP)
_ALWAYS_THERE = (Mode.OFF, Mode.HOST)


class Recorder:
    """The running cycle of one scheduler.

    A cycle is a row of marks: each starts a phase and ends the one before, so that phases
    touch. All state is of fixed size. `timing` is what the hooks ask before anything else:
    a cycle runs and its phases are wanted.

    What the probe itself takes is measured, from the first instruction to the last.

    Whole cycles and their results are held back, up to `hold` records, and written one after
    the other: `flush` writes them at once, `flush_if_due` when it is time.

    Args:
        ring: Where whole cycles go.
        boundaries: Times cycles on the device; None where the device has no timing events,
            so that mode `device` is recorded as `host`.
        sync: Waits for the device; None where there is none to wait for: `sync` is `host`.
        ranges: Tells other tools; None where none can listen.
        fail: Told of an error of our own; what it raises is the server's.

    Attributes:
        boundaries: As the argument; may be set between cycles, like the next two.
        sync: As the argument.
        ranges: As the argument.
        health_checks: How the ids of the server's own probes begin; empty for none.
        spans: The server's own spans of its requests; None where it traces none.
        hold: At so many records held back all are written; with 0 each is written at once.
        number: Of the running cycle.
        open: A cycle runs.
        timing: Its phases are wanted.
        own_ns: What the probe has taken in the running cycle; whoever works for it adds to it
            (a call would cost microseconds: its code is in no cache).
        padded: The batch size that the graphs of the running cycle were made for, 0 unknown.
    """

    __slots__ = (
        "_batch_size",
        "_control",
        "_count",
        "_cycles",
        "_every",
        "_every_before",
        "_every_since",
        "_fail",
        "_flags",
        "_graph",
        "_held_ns",
        "_interned",
        "_joins",
        "_kind",
        "_lag_bits",
        "_last_interned",
        "_last_number",
        "_late",
        "_later",
        "_mode",
        "_modes",
        "_on_device",
        "_phases",
        "_probe_ns",
        "_ring",
        "_sampling",
        "_size",
        "_skipped",
        "_skipping",
        "_slow",
        "_stamps",
        "_start_ns",
        "_syncing",
        "_told",
        "_words",
        "_write_bare",
        "boundaries",
        "health_checks",
        "hold",
        "number",
        "open",
        "own_ns",
        "padded",
        "ranges",
        "spans",
        "sync",
        "timing",
    )

    def __init__(
        self,
        ring: RingWriter,
        *,
        boundaries: Boundaries | None = None,
        sync: Synchronizer | None = None,
        ranges: CycleRanges | None = None,
        fail: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.boundaries = boundaries
        self.sync = sync
        self.ranges = ranges
        self.health_checks = ""
        self.spans: RequestSpans | None = None
        self.hold = 0
        self._fail = fail
        self._ring = ring
        self._words = ring.words
        self._write_bare = ring.cycle  # without marks
        self._phases = bytearray(MAX_MARKS)
        self._stamps = [0] * MAX_MARKS
        self._interned: dict[str, int] = {}
        self._last_interned = self._joins = 0
        self._cycles = self._probe_ns = 0
        self._control = -1
        self._mode = self._modes = Mode.OFF
        self._syncing = self._on_device = self._slow = self._told = self._late = False
        self._sampling = -1  # the word that holds by now
        self._every = self._every_before = self._every_since = 0  # the last is a cycle's number
        self._skipped: skipped.Skipped | None = None  # until it samples
        self._later: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._held_ns = 0  # when the cycle began that was first to be held back, 0 for none
        self._last_number = self.number = 0
        self._start_ns = self._kind = self._batch_size = self._flags = self._graph = 0
        self._lag_bits = self._count = self.own_ns = self.padded = 0
        self._size = _NO_SIZE
        self.open = self.timing = self._skipping = False

    def begin(self, start_ns: int, kind: int, batch_size: int, number: int = 0) -> None:
        """Ends the running cycle, if there is one, and begins the next at `start_ns`.

        Args:
            start_ns: CLOCK_MONOTONIC.
            kind: `layout.Kind`.
            batch_size: Requests in the batch.
            number: The cycle's, or what it will be if nothing is said to the contrary; 0 for
                the one after the last.
        """
        began_ns = start_ns
        goes_on = self.open
        if goes_on:
            if self._syncing and (self.timing or self._keeps(number)):
                start_ns = self._synchronized(start_ns)
            self.end(start_ns)
        self.number = number or self._last_number + 1
        self._start_ns = start_ns
        self._kind = kind
        self._batch_size = batch_size
        self._size = _NO_SIZE
        self._flags = self._graph = self.padded = self._lag_bits = self._count = 0
        words, every = self._words, self._every
        if (
            words[_MODE] != self._control
            or words[_SAMPLING] != self._sampling
            or words[_JOINS] != self._joins
            or every > 1
            or self._late
        ):
            self._follow_words()
        if self._syncing and not (goes_on or self._skipping):
            start_ns = self._start_ns = self._synchronized(start_ns)
        self.open = True
        timing = self.timing = self._mode != _OFF and not self._skipping
        if timing:
            self._phases[0] = Ph.RESOLVE
            self._stamps[0] = start_ns
            self._count = 1
            extras = self._on_device or self.ranges is not None
            self._slow = extras or self._syncing
            if extras:
                self._tell_begin()
        self.own_ns = now() - began_ns

    def _keeps(self, number: int) -> bool:
        """Whether sampling, as it is asked for now, keeps the cycle `number`."""
        every = every_at(self._words[_SAMPLING], number)
        return every <= 1 or number % every == 0

    def _follow_words(self) -> None:
        """Follows what readers have written since, or what holds from this cycle on."""
        words = self._words
        control = words[_MODE]
        if control != self._control:
            self._switch(control)
        sampling = words[_SAMPLING]
        if sampling != self._sampling:
            self._resample(sampling)
        if self._every > 1 or self._skipping:
            self._sample()
        if self._late and not self._skipping:  # told by the next cycle that is kept
            self._flags |= CycleFlag.LATE_SWITCH
            self._late = False
        joins = words[_JOINS]
        if joins != self._joins:
            self._joins = joins
            self._interned.clear()

    def _resample(self, sampling: int) -> None:
        """Takes the sampling that a control word asks for, from its cycle on."""
        number = self.number
        every, from_cycle, before = split_sampling(sampling)
        if number < from_cycle:
            every = before
        else:
            missed = from_cycle and number > from_cycle and every != self._every
            if missed and self._sampling >= 0:  # not one that has come just now
                self._late = True
            self._sampling = sampling
        if every != self._every:
            self._every_before, self._every_since, self._every = self._every, number, every

    def _sample(self) -> None:
        """Decides by its number whether this cycle is one of those that are kept."""
        every = self._every
        self._skipping = every > 1 and self.number % every != 0
        if self._skipping:
            if self._skipped is None:
                self._skipped = skipped.Skipped()
            return
        if every > 1:
            self._flags |= CycleFlag.SAMPLED
        self.flush_skipped()

    def _switch(self, control: int) -> None:
        """Takes the mode that the control word asks for, from its cycle on."""
        mode, from_cycle = split_mode(control)
        if self.number < from_cycle:
            return
        if from_cycle and self.number > from_cycle:
            self._late = True
        self._control = control
        self._on_device = mode == Mode.DEVICE and self.boundaries is not None
        self._syncing = mode == Mode.SYNC and self.sync is not None
        there = self._on_device or self._syncing or mode in _ALWAYS_THERE
        self._modes = mode << _ASKED_SHIFT
        self._take_mode(mode if there else Mode.HOST)

    def _take_mode(self, mode: int) -> None:
        """Times in `mode` from now on, whatever is asked for."""
        self._mode = self._words[Word.MODE_ACTIVE] = mode
        self._modes = self._modes >> _ASKED_SHIFT << _ASKED_SHIFT | mode

    def _tell_begin(self) -> None:
        self._told = True
        try:
            if self.ranges is not None:
                self.ranges.cycle_begin(self.number)
            if self._on_device and self.boundaries is not None:
                self.boundaries.begin(self.number)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self._broke(error)
        self._tell_mark(Ph.RESOLVE)

    def _broke(self, error: BaseException) -> None:
        self._on_device = self._syncing = self._told = False
        self.boundaries = self.sync = self.ranges = None
        if self._fail is not None:
            self._fail(error)

    def mark(self, phase: int) -> None:
        """Begins `phase` now; the phase before it ends."""
        time_ns = now()
        if self._slow:
            self._mark_slowly(phase, time_ns)
            return
        count = self._count
        if count < MAX_MARKS:
            self._stamps[count] = time_ns
            self._phases[count] = phase
            self._count = count + 1
        else:
            self._flags |= CycleFlag.MARKS_DROPPED
        self.own_ns += now() - time_ns

    def _mark_slowly(self, phase: int, began_ns: int) -> None:
        """As `mark`, at `began_ns`, after the device where it is to be waited for; all are told.

        It stores by itself: a further call, its code out of all caches, would cost more.
        """
        time_ns = self._synchronized(began_ns) if self._syncing else began_ns
        count = self._count
        if count < MAX_MARKS:
            self._stamps[count] = time_ns
            self._phases[count] = phase
            self._count = count + 1
        else:
            self._flags |= CycleFlag.MARKS_DROPPED
        if self._told:
            self._tell_mark(phase)
        self.own_ns += now() - began_ns

    def mark_stamped(self, phase: int) -> int:
        """As `mark`; what it takes is left to the caller, see `own_ns`.

        Returns:
            CLOCK_MONOTONIC in ns at which the phase begins.
        """
        time_ns = self._synchronized(now()) if self._syncing else now()
        count = self._count
        if count < MAX_MARKS:
            self._stamps[count] = time_ns
            self._phases[count] = phase
            self._count = count + 1
        else:
            self._flags |= CycleFlag.MARKS_DROPPED
        if self._told:
            self._tell_mark(phase)
        return time_ns

    def _synchronized(self, time_ns: int) -> int:
        """CLOCK_MONOTONIC in ns when the device has done all; `time_ns` if it cannot wait."""
        try:
            if self.sync is not None:
                self.sync.before()
                if self.sync.failed:  # from now on it is the host's clock, and records say so
                    self._syncing = False
                    self._take_mode(Mode.HOST)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self._broke(error)
            return time_ns
        return now()

    def _tell_mark(self, mark: int) -> None:
        try:
            if self._on_device and self.boundaries is not None:
                self.boundaries.mark(mark & PHASE_MASK)
            if self.ranges is not None:
                self.ranges.phase(mark)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self._broke(error)

    def mark_step(self) -> None:
        """Begins a step of the draft, if the draft is running."""
        if self._phases[self._count - 1] in _DRAFTING:
            self.mark(Ph.DRAFT_STEP)

    def mark_steps_done(self) -> None:
        """Ends the last step of the draft; it ran step by step."""
        self.ran(Graph.DRAFT, Graph.EAGER)
        if self._phases[self._count - 1] == Ph.DRAFT_STEP:
            self.mark(Ph.DRAFT)

    def mark_target(self) -> None:
        """The target model runs: to verify what was drafted, or on its own."""
        verifying = self._phases[self._count - 1] == Ph.VERIFY_PREPARE
        self.mark(Ph.VERIFY_FORWARD if verifying else Ph.FORWARD)

    def mark_target_done(self) -> None:
        """It has run; where it verified, its choices are compared with the draft."""
        if self._phases[self._count - 1] == Ph.VERIFY_FORWARD:
            self.mark(Ph.VERIFY_SAMPLE)

    def mark_wait(self, of_number: int) -> int:
        """Begins waiting for the results of cycle `of_number`; gives what `mark_stamped` does."""
        lag = self.number - of_number
        self._lag_bits = (0 if lag < 0 else min(lag, MAX_LAG)) << LAG_SHIFT
        return self.mark_stamped(Ph.WAIT | self._lag_bits)

    def mark_result(self) -> None:
        """Ends the waiting: the counts are on the CPU. Without a wait it does nothing."""
        if self._phases[self._count - 1] & PHASE_MASK == Ph.WAIT:
            self.mark(Ph.RESULT | self._lag_bits)

    def speculate(self, steps: int, topk: int, draft_tokens: int) -> None:
        """The cycle verifies: with how many steps, branches and tokens per request.

        A rank that has no requests and steps along with others stays idle.
        """
        if self._kind != Kind.IDLE:
            self._kind = Kind.SPECULATIVE
        self._size = (steps, topk, draft_tokens)

    def ran(self, part: int, how: int) -> None:
        """A part of the cycle ran as a CUDA graph or eagerly.

        Args:
            part: `Graph.DRAFT`, `Graph.VERIFY` or `Graph.DRAFT_EXTEND`.
            how: `Graph.EAGER` or `Graph.GRAPH`.
        """
        self._graph = self._graph & ~(3 << part) | how << part

    def raised(self) -> None:
        """The server's own code raised within the cycle."""
        self._flags |= CycleFlag.RAISED

    def end(self, end_ns: int, flags: int = 0) -> None:
        """Ends the running cycle at `end_ns`, or counts it where it is skipped."""
        self.open = self.timing = False
        number = self._last_number = self.number
        count = self._count
        self._cycles += 1
        self._probe_ns += self.own_ns
        start_ns = self._start_ns
        length = end_ns - start_ns
        if self._skipping and self._skipped is not None:
            self._skipped.add_cycle(number, length)
            self._hold_back()
            if self._told:
                self._tell_end(number)
            return
        shift = 0
        if length >> MARK_DISTANCE_BITS:
            shift = length.bit_length() - MARK_DISTANCE_BITS
            length >>= length_shift(shift)
        steps, topk, draft_tokens = self._size
        fields = (
            self._kind,
            self._modes,
            self._flags | flags,
            number,
            start_ns,
            length,
            self.own_ns,
            self._batch_size,
            self.padded,
            steps,
            topk,
            draft_tokens,
            self._graph,
            count,
            shift,
        )
        if count:
            marks = bytes(self._phases[:count]), self._stamps[:count]
            self._later.append((self._write_marked, (fields, *marks)))
        else:
            self._later.append((self._write_bare, (fields,)))
        if not self._held_ns:  # as `_hold_back`; a call would cost more
            self._held_ns = start_ns
        if len(self._later) >= self.hold:
            self.flush()
        if self._told:
            self._tell_end(number)

    def _put_off(self, write: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        """Holds a record back; `write(*arguments)` writes it."""
        self._later.append((write, arguments))
        self._hold_back()

    def _hold_back(self) -> None:
        if not self._held_ns:
            self._held_ns = self._start_ns
        if len(self._later) >= self.hold:
            self.flush()

    def flush_if_due(self, now_ns: int) -> None:
        """Writes what is held back if that is enough, or old enough; `now_ns` is now."""
        held_ns = self._held_ns
        if held_ns and (len(self._later) >= HOLD or now_ns - held_ns > HOLD_NS):
            self.flush()

    def flush(self) -> None:
        """Writes what is held back."""
        later, self._later = self._later, []
        self._held_ns = 0
        for write, arguments in later:
            write(*arguments)
        words = self._words
        words[_CYCLES] = self._cycles
        words[_PROBE_NS] = self._probe_ns
        words[_NEWEST_CYCLE] = self._last_number

    def _write_marked(self, fields: tuple[int, ...], phases: bytes, stamps: list[int]) -> None:
        """Writes a cycle of which these phases began at these times, in ns."""
        start_ns, shift = fields[_START_NS], fields[-1]
        marks = [
            (stamp - start_ns >> shift) << 8 | phase
            for phase, stamp in zip(phases, stamps)  # noqa: B905 - as many as there are
        ]
        self._ring.cycle(fields, tuple(marks))

    def _tell_end(self, number: int) -> None:
        self._told = False
        try:
            if self._on_device and self.boundaries is not None:
                self.boundaries.end(number)
            if self.ranges is not None:
                self.ranges.cycle_end(number)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self._broke(error)

    @property
    def kind(self) -> int:
        """Kind of the running cycle."""
        return self._kind

    @property
    def pending(self) -> bool:
        """Whether device times are on their way, or have ended for good: `drain` is due."""
        boundaries = self.boundaries
        return boundaries is not None and (boundaries.pending > 0 or boundaries.failed)

    def drain(self, now_ns: int) -> None:
        """Asks for device times that have come, without waiting; writes what is whole.

        Args:
            now_ns: CLOCK_MONOTONIC.
        """
        if self.boundaries is None:
            return
        try:
            self.boundaries.drain(now_ns)
            if self.boundaries.failed:
                self.boundaries.close()
                self._follow_failure()
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self._broke(error)

    def _follow_failure(self) -> None:
        """Device timing has ended for good: what was asked for is taken by the host's clock."""
        self.boundaries = None
        self._on_device = False
        if self._mode == Mode.DEVICE:
            self._take_mode(Mode.HOST)

    def intern(self, request_id: str) -> int:
        """The number that stands for `request_id`, sent to the readers once, times 256 + flags.

        One number, since the collector would count a pair.
        """
        if len(self._interned) >= _MAX_INTERNED:
            self._interned.clear()
        self._last_interned = self._last_interned % LOW_HALF + 1
        probing = self.health_checks and request_id.startswith(self.health_checks)
        flags = RowFlag.HEALTH_CHECK if probing else 0
        entry = self._interned[request_id] = self._last_interned << _FLAG_BITS | flags
        if self.spans is not None:
            self.spans.send(self._ring, self._last_interned, request_id)
        self._ring.text(RecordType.REQUEST, self._last_interned, request_id)
        return entry

    def results(
        self,
        number: int,
        rows: Sequence[tuple[str, int | None, int, bool]],
        context: tuple[int, int] = (UNKNOWN_LENGTH, UNKNOWN_LENGTH),
        load: tuple[int, int] = _NO_LOAD,
    ) -> None:
        """Writes what cycle `number` brought each request.

        Args:
            number: The cycle.
            rows: Request id, correct drafts or None, output tokens, overshoot.
            context: Tokens of the requests before this cycle, their sum and the greatest.
            load: Requests queued and running, -1 where that is not known.
        """
        if self._skipped is not None:
            every = self._every if number >= self._every_since else self._every_before
            if every > 1 and number % every:
                self._skipped.add_results(rows)
                if self._every <= 1:  # all are kept by now: no other skipped cycle takes it along
                    self.flush_skipped()
                return
        self._later.append((self._write_results, (number, rows, context, load)))
        if not self._held_ns:
            self._held_ns = self._start_ns
        if len(self._later) >= self.hold:
            self.flush()

    def _write_results(
        self,
        number: int,
        rows: Sequence[tuple[str, int | None, int, bool]],
        context: tuple[int, int],
        load: tuple[int, int],
    ) -> None:
        known = self._interned.get
        values: list[int] = []
        for request_id, correct, tokens, overshoot in rows:
            name = request_id if len(request_id) <= _LONGEST_ID else _shortened(request_id)
            entry = known(name) or self.intern(name)
            values += (
                entry >> _FLAG_BITS,
                UNKNOWN if correct is None else correct if correct < UNKNOWN else UNKNOWN - 1,
                tokens if tokens < UNKNOWN else UNKNOWN,
                entry & _FLAGS | RowFlag.OVERSHOOT if overshoot else entry & _FLAGS,
            )
        total, longest = context
        queued, running = load
        size = len(rows)
        batch = (
            size if size < UNKNOWN else UNKNOWN,
            total if total < UNKNOWN_LENGTH else UNKNOWN_LENGTH,
            longest if longest < UNKNOWN_LENGTH else UNKNOWN_LENGTH,
            UNKNOWN if queued < 0 else min(queued, UNKNOWN - 1),
            UNKNOWN if running < 0 else min(running, UNKNOWN - 1),
        )
        self._ring.rows(number, batch, values)

    def flush_skipped(self) -> None:
        """Writes what sampling left out since the last time."""
        if self._skipped is not None and self._skipped.something:
            self._put_off(self._ring.skipped, (self._skipped.take(),))

    def device(self, *record: Any) -> None:
        """Takes the device's boundaries of a cycle, as `RingWriter.device`."""
        self._put_off(self._ring.device, record)


def _shortened(request_id: str) -> str:
    """A name for a request whose client chose a long id: clients must not fill our memory.

    Python keeps the hash of a string that it has hashed: this takes no time with its length.
    """
    return f"{request_id[:_LONGEST_ID]}…{hash(request_id) & LOW_HALF:08x}"
