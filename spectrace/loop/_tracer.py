"""What an author writes into a decode loop: a tracer, its cycles, their phases and counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from spectrace.loop._probe import LoopProbe, Row, facts_of
from spectrace.probe.layout import DEFAULT_UNITS, LAG_SHIFT, MAX_LAG, UNIT_BYTES, Ph

PHASES = {
    "resolve": Ph.RESOLVE,
    "forward": Ph.FORWARD,
    "draft": Ph.DRAFT,
    "verify": Ph.VERIFY,
    "verify.prepare": Ph.VERIFY_PREPARE,
    "verify.forward": Ph.VERIFY_FORWARD,
    "verify.sample": Ph.VERIFY_SAMPLE,
    "verify.commit": Ph.VERIFY_COMMIT,
    "draft.step": Ph.DRAFT_STEP,
    "draft_extend": Ph.DRAFT_EXTEND,
    "wait": Ph.WAIT,
    "result": Ph.RESULT,
    "schedule": Ph.SCHEDULE,
}


class Tracer:
    """Records the cycles of one decode loop, for whoever attaches to this process.

    Makes one file in shared memory, `/dev/shm/spectrace-PID-TICKS.ring`, and sleeps until
    `spectrace attach PID` joins. Nothing here raises, waits, starts a thread or takes a lock:
    where something is wrong the loop goes on untraced, and `problem` says why. One tracer for
    one loop, used from the loop's own thread. A forked child is not traced.

    Args:
        name: What attach shows as the engine.
        rank: Name of this process where several step together, such as `TP0`: processes of
            one parent whose tracers have the same name and differ in rank are one run.
        device: Where the loop's work runs, such as `cpu` or `cuda`.
        algorithm: How the loop speculates, in a word.
        ring_bytes: Size of the ring; a cycle takes about 200 bytes.
    """

    __slots__ = ("_number", "_phases", "_probe")

    def __init__(
        self,
        name: str,
        *,
        rank: str = "",
        device: str = "cpu",
        algorithm: str = "",
        ring_bytes: int = DEFAULT_UNITS * UNIT_BYTES,
    ) -> None:
        self._probe = LoopProbe(facts_of(name, rank, device, algorithm), ring_bytes // UNIT_BYTES)
        self._phases = {name: Phase(self._probe, mark) for name, mark in PHASES.items()}
        self._number = 0

    @property
    def problem(self) -> str:
        """Why nothing is traced, one sentence; empty while all is well."""
        return self._probe.problem

    @property
    def path(self) -> Path | None:
        """The ring file, None where there is none."""
        return self._probe.path

    @property
    def traced(self) -> bool:
        """Whether somebody reads."""
        return self._probe.awake

    def cycle(  # noqa: PLR0913 - what a cycle is
        self,
        kind: str,
        requests: Sequence[str],
        *,
        steps: int = 0,
        topk: int = 0,
        draft_tokens: int = 0,
        number: int | None = None,
    ) -> Cycle:
        """One pass of the loop, for a `with` statement.

        Args:
            kind: `speculative`, `decode`, `extend` (prefill), `mixed`, `idle` or `other`.
            requests: Ids of the requests in the batch.
            steps: Draft steps, 0 where nothing is drafted.
            topk: Branches per draft step.
            draft_tokens: Tokens per request that verify looks at.
            number: The loop's own count, the same on all ranks and growing; by default the
                tracer counts from 1, also while nobody reads.
        """
        self._number = number if isinstance(number, int) else self._number + 1
        return Cycle(self._probe, self._number, kind, requests, (steps, topk, draft_tokens))

    def phase(self, name: str, *, of_cycle: int | None = None) -> Phase:
        """A phase of the running cycle, for a `with` statement.

        What a cycle does before its first phase is `resolve`, and between phases `schedule`.
        A phase within another one takes its time out of the outer one's.

        Args:
            name: `draft`, or `draft.step` for each of its steps; `verify`, or its parts
                `verify.prepare`, `verify.forward`, `verify.sample` and `verify.commit`;
                `draft_extend`; `forward` (prefill and plain decode); `wait` (for results);
                `result`; `resolve` or `schedule`.
            of_cycle: The earlier cycle whose batch is worked on, where the loop runs ahead.
        """
        try:
            phase = self._phases[name]
            return phase if of_cycle is None else phase.late(self._number - of_cycle)
        except Exception:  # noqa: BLE001 - nothing may reach the loop
            self._probe.note(f"the phase {name!r}, which spectrace does not know")
            return self._phases["schedule"]

    def idle(self) -> None:
        """Looks whether a reader came or went; to be called where the loop waits for work.

        Without it that is noticed at the next cycle.
        """
        self._probe.idle()

    def close(self) -> None:
        """Ends the tracer and removes its file; the end of the process does so too."""
        self._probe.close()


class Cycle:
    """One pass of the loop, made by `Tracer.cycle`; it may be kept until its counts are there.

    Attributes:
        number: Its number, by which ranks and later results find it.
    """

    __slots__ = ("_kind", "_probe", "_requests", "_size", "number")

    def __init__(
        self,
        probe: LoopProbe,
        number: int,
        kind: str,
        requests: Sequence[str],
        size: tuple[int, int, int],
    ) -> None:
        self.number = number
        self._probe = probe
        self._kind = kind
        self._requests = requests
        self._size = size

    def __enter__(self) -> Cycle:  # noqa: PYI034 - Self came with Python 3.11
        """Begins the cycle."""
        self._probe.begin(self.number, self._kind, self._requests, self._size)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the cycle; what the loop itself raised goes on its way."""
        self._probe.end(self.number, raised=error is not None)

    def accepted(
        self,
        correct_drafts: Mapping[str, int | None],
        *,
        output_tokens: Mapping[str, int] | None = None,
        ended: Collection[str] = (),
    ) -> None:
        """Hands in what the cycle brought, once the counts are on the CPU: now or later.

        Args:
            correct_drafts: For each request id the drafts found correct, without the bonus
                token; None where nothing was verified. Python's own ints: a value on a device
                is not read, since that would make the loop wait.
            output_tokens: Tokens that each request's output grew by; by default its correct
                drafts and one more.
            ended: Requests that had already ended: they are left out of every figure.
        """
        if not self._probe.awake:
            return
        try:
            rows = [
                self._row(request, correct, output_tokens, request in ended)
                for request, correct in correct_drafts.items()
            ]
        except Exception as error:  # noqa: BLE001 - nothing may reach the loop
            self._probe.note(f"the counts of cycle {self.number} ({type(error).__name__})")
        else:
            self._probe.results(self.number, rows)

    def _row(
        self, request: str, correct: object, output_tokens: Mapping[str, int] | None, ended: bool
    ) -> Row:
        drafts = None if correct is None else self._count(correct)
        if output_tokens is None:
            return request, drafts, (drafts or 0) + 1, ended
        return request, drafts, self._count(output_tokens[request]) or 0, ended

    def _count(self, value: object) -> int | None:
        """A count that is there already, None for anything that would have to be read."""
        if type(value) is int:
            return max(0, value)
        self._probe.note(f"counts of type {type(value).__name__}, which are no ints of Python")
        return None


class Phase:
    """A phase of the running cycle, made by `Tracer.phase`."""

    __slots__ = ("_late", "_mark", "_outer", "_probe")

    def __init__(self, probe: LoopProbe, mark: int) -> None:
        self._probe = probe
        self._mark = mark
        self._outer = Ph.SCHEDULE
        self._late: tuple[Phase, ...] = ()

    def late(self, lag: int) -> Phase:
        """The same phase, of the batch of `lag` cycles before."""
        if not self._late:
            marks = (self._mark | lag << LAG_SHIFT for lag in range(MAX_LAG + 1))
            self._late = tuple(Phase(self._probe, mark) for mark in marks)
        return self._late[min(max(lag, 0), MAX_LAG)]

    def __enter__(self) -> None:
        """Begins the phase; the one that ran ends."""
        self._outer = self._probe.phase
        self._probe.mark(self._mark)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Goes back to the phase that ran before."""
        self._probe.mark(self._outer)
