"""What an author writes into a decode loop: a tracer, its cycles, their phases and counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from spectrace.loop import _checks
from spectrace.loop._checks import KINDS, NOBODY, PHASES, Device, Row
from spectrace.loop._phase import Phase
from spectrace.loop._probe import LoopProbe, facts_of
from spectrace.probe.layout import DEFAULT_UNITS, UNIT_BYTES


class Tracer:
    """Records the cycles of one decode loop, for whoever attaches to this process.

    Makes one file in shared memory, `/dev/shm/spectrace-PID-TICKS.ring`, and sleeps until
    `spectrace attach PID` joins. It never waits, starts a thread or takes a lock. A mistake of
    the author's, such as a phase that there is not, is raised at the call, whether anybody
    reads or not. Nothing else is ever raised: where something is wrong with the tracer itself
    the loop goes on untraced, and `problem` says why. One tracer for one loop, used by one
    thread at a time. A forked child is not traced.

    Args:
        name: What attach shows as the engine.
        rank: Name of this process where several step together, such as `TP0`: processes of
            one parent whose tracers have the same name and differ in rank are one run.
        device: Where the loop's work runs, such as `cpu` or `cuda`, or a `torch.device`.
        algorithm: How the loop speculates, in a word.
        ring_bytes: Size of the ring, from 2 KiB to 1 GiB; a cycle takes about 200 bytes.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: A text has more than 100 characters, or the ring another size than it may.
    """

    __slots__ = ("__weakref__", "_number", "_phases", "_probe", "_size")

    def __init__(
        self,
        name: str,
        *,
        rank: str = "",
        device: str | Device = "cpu",
        algorithm: str = "",
        ring_bytes: int = DEFAULT_UNITS * UNIT_BYTES,
    ) -> None:
        facts = facts_of(
            _checks.text("name", name),
            _checks.text("rank", rank),
            _checks.device_name(device),
            _checks.text("algorithm", algorithm),
        )
        self._probe = LoopProbe(facts, _checks.ring_units(ring_bytes))
        self._phases = {name: Phase(self._probe, mark) for name, mark in PHASES.items()}
        self._number = 0
        self._size = (0, 0, 0)  # of the cycle before: a size seldom changes

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
            number: The loop's own count, the same on all ranks, from 1 and growing; by
                default the tracer counts, also while nobody reads.

        Raises:
            TypeError: An argument is of the wrong type, such as a request id that is an int.
            ValueError: There is no such kind, a size is negative, or the number does not grow.
        """
        try:  # quickly, where all is well: this runs whether anybody reads or not
            code = KINDS[kind]
            batch_size = len(requests)
            "".join(requests)
        except (KeyError, TypeError):
            code = _checks.kind_code(kind)
            _checks.refuse_ids("requests", requests)
        if type(requests) is str:
            _checks.refuse_ids("requests", requests)
        size = self._size
        if steps is not size[0] or topk is not size[1] or draft_tokens is not size[2]:
            size = self._size = _checks.size(steps, topk, draft_tokens)
        if number is None:
            number = self._number + 1
        else:
            number = _checks.whole("number", number, self._number + 1)
        self._number = number
        return Cycle(self._probe, number, code, batch_size, size)

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

        Raises:
            TypeError: An argument is of the wrong type.
            ValueError: There is no such phase.
        """
        try:
            phase = self._phases[name]
        except (KeyError, TypeError):
            _checks.refuse_phase(name)
        if of_cycle is None:
            return phase
        return phase.late(self._number - _checks.whole("of_cycle", of_cycle))

    def idle(self) -> None:
        """Looks whether a reader came or went; to be called where the loop waits for work.

        Without it that is noticed at the next cycle.
        """
        self._probe.idle()

    def close(self) -> None:
        """Ends the tracer and removes its file.

        The end of the process does so too, and the end of the last reference to the tracer.
        """
        self._probe.close()


class Cycle:
    """One pass of the loop, made by `Tracer.cycle`; it may be kept until its counts are there.

    Attributes:
        number: Its number, by which ranks and later results find it.
    """

    __slots__ = ("_batch_size", "_kind", "_probe", "_size", "number")

    def __init__(
        self,
        probe: LoopProbe,
        number: int,
        kind: int,
        batch_size: int,
        size: tuple[int, int, int],
    ) -> None:
        self.number = number
        self._probe = probe
        self._kind = kind
        self._batch_size = batch_size
        self._size = size

    def __enter__(self) -> Cycle:  # noqa: PYI034 - Self came with Python 3.11
        """Begins the cycle."""
        self._probe.begin(self.number, self._kind, self._batch_size, self._size)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the cycle; what the loop itself raised goes on its way."""
        if self._probe.awake:
            self._probe.end(self.number, raised=error is not None)

    def accepted(
        self,
        correct_drafts: Mapping[str, int | None],
        *,
        output_tokens: Mapping[str, int] | None = None,
        ended: Collection[str] = NOBODY,
    ) -> None:
        """Hands in what the cycle brought, once the counts are on the CPU: now or later.

        Args:
            correct_drafts: For each request id the drafts found correct, without the bonus
                token; None where nothing was verified. Python's or numpy's ints: a value on a
                device is refused, since reading it would make the loop wait.
            output_tokens: Tokens that each request's output grew by; by default its correct
                drafts and one more.
            ended: Requests that had already ended: they are left out of every figure.

        Raises:
            TypeError: An argument, a request id or a count is of the wrong type.
            ValueError: A count is negative, or one is missing in `output_tokens`.
        """
        _checks.check_counts("correct_drafts", correct_drafts, none=True)
        if output_tokens is not None:
            _checks.check_output(output_tokens, correct_drafts)
        if ended is not NOBODY:
            _checks.check_ids("ended", ended)
        if self._probe.awake:
            self._probe.results(self.number, _rows(correct_drafts, output_tokens, ended))


def _rows(
    correct_drafts: Mapping[str, int | None],
    output_tokens: Mapping[str, int] | None,
    ended: Collection[str],
) -> list[Row]:
    """What a cycle brought each request."""
    if output_tokens is None:
        return [
            (request, correct, 1 if correct is None else correct + 1, request in ended)
            for request, correct in correct_drafts.items()
        ]
    return [
        (request, correct, output_tokens[request], request in ended)
        for request, correct in correct_drafts.items()
    ]
