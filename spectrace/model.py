"""The words that every room of spectrace speaks: Run, Rank, Cycle, Phase and what they carry."""

from __future__ import annotations

from enum import Enum

import msgspec


class Lane(str, Enum):
    """Who did the work of a phase: the CPU (`host`) or the accelerator (`device`)."""

    HOST = "host"
    DEVICE = "device"


class TimingMode(str, Enum):
    """How the boundaries of a cycle were timed.

    `device`: events on the forward stream. `host`: the host's clock alone. `sync`: a
    synchronize at every boundary. `off`: one host stamp per cycle and no phases.
    """

    DEVICE = "device"
    HOST = "host"
    SYNC = "sync"
    OFF = "off"


class CycleKind(str, Enum):
    """What one pass of the decode loop did."""

    SPECULATIVE = "speculative"
    DECODE = "decode"
    EXTEND = "extend"
    MIXED = "mixed"
    IDLE = "idle"
    OTHER = "other"


class PhaseName(str, Enum):
    """The phases of a cycle; a dot separates a parent from its part.

    `schedule` is the scheduler's own code wherever it runs in a cycle: after the worker
    returned, and after results were processed. It can therefore occur more than once.
    """

    RESOLVE = "resolve"
    FORWARD = "forward"
    DRAFT = "draft"
    DRAFT_STEP = "draft.step"
    VERIFY = "verify"
    VERIFY_PREPARE = "verify.prepare"
    VERIFY_FORWARD = "verify.forward"
    VERIFY_SAMPLE = "verify.sample"
    VERIFY_COMMIT = "verify.commit"
    DRAFT_EXTEND = "draft_extend"
    WAIT = "wait"
    RESULT = "result"
    SCHEDULE = "schedule"

    @property
    def parent(self) -> PhaseName | None:
        """The phase that this one is a part of, None at the top level."""
        head, dot, _ = self.value.partition(".")
        return PhaseName(head) if dot else None


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One stretch of a cycle on one lane of one rank.

    Attributes:
        name: Which phase; the phases of a lane never overlap. Where the draft runs step by
            step, `draft` is what it does around its steps.
        start_ns: UNIX time in ns.
        end_ns: UNIX time in ns, never before `start_ns`.
        lane: Whose time it is.
        of_cycle: The number of the cycle whose batch was worked on. With the overlap
            scheduler `wait` and `result` belong to an earlier cycle than the one in
            whose time they ran.
        graph: Whether its forward ran as a CUDA graph; None where that is not known, or the
            phase has none.
    """

    name: PhaseName
    start_ns: int
    end_ns: int
    of_cycle: int
    lane: Lane = Lane.HOST
    graph: bool | None = None

    @property
    def duration_ns(self) -> int:
        """How long the phase took, in ns."""
        return self.end_ns - self.start_ns


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one request got out of one cycle, as the server itself counted it.

    Attributes:
        request_id: The server's id of the request.
        correct_drafts: Drafts that verify found correct, without the bonus token; None
            where the cycle verified nothing (prefill, plain decode).
        output_tokens: Tokens that the server added to the request's output.
        overshoot: The request was already finished or retracted when its result was
            processed, so that the server counted nothing.
        health_check: The request is the server's own health probe.
        span: The server's own span of the request where it traces requests itself: trace id
            and span id, 32 and 16 lower-case hexadecimal digits with a hyphen between them.
    """

    request_id: str
    correct_drafts: int | None
    output_tokens: int
    overshoot: bool = False
    health_check: bool = False
    span: str | None = None

    @property
    def counts(self) -> bool:
        """Whether the row belongs into acceptance figures."""
        return self.correct_drafts is not None and not (self.overshoot or self.health_check)


class RankCycle(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's share of a cycle.

    Attributes:
        rank: Name of the rank in its server, such as `TP0`.
        start_ns: UNIX time in ns at which `run_batch` was entered.
        end_ns: UNIX time in ns at which the next cycle began or the scheduler went idle.
        phases: Those of the host first, in order and without holes from `start_ns` to
            `end_ns`; none in mode `off`. Then those of the device in order, with gaps in
            which nothing of this cycle ran; they may end after the cycle does on the host.
        mode: How the phases were timed.
        probe_ns: Time that the probe itself took within the cycle, in ns.
        ended_idle: The scheduler went idle after this cycle.
        incomplete: Boundaries are missing: more came than fit, or the server's own code
            raised. Left out of every statistic of phases.
        asked_mode: How the phases were to be timed where this rank could not: `device` on a
            device without timing events. None where `mode` is what was asked for.
        late_switch: Mode or sampling changed with this cycle or just before it, later than asked
            for.
        clock_error_ns: By how much all device phases together may be shifted against the
            host's; None without device phases.
        device_incomplete: Boundaries of the device lane are missing.
    """

    rank: str
    start_ns: int
    end_ns: int
    phases: tuple[Phase, ...]
    mode: TimingMode
    probe_ns: int
    ended_idle: bool = False
    incomplete: bool = False
    asked_mode: TimingMode | None = None
    late_switch: bool = False
    clock_error_ns: int | None = None
    device_incomplete: bool = False

    @property
    def duration_ns(self) -> int:
        """How long the cycle took on this rank, in ns."""
        return self.end_ns - self.start_ns


class Cycle(msgspec.Struct, frozen=True, kw_only=True):
    """One pass of the decode loop, with all ranks that reported it.

    Attributes:
        run_id: The run that the cycle belongs to.
        group: The ranks that step together; `""` where the server has one group.
        number: The scheduler's own count (`forward_ct`), the same on all ranks of a group.
        kind: What the cycle did.
        batch_size: Requests in the batch.
        steps: Draft steps of the cycle, 0 where nothing was drafted.
        topk: Branches per draft step, 0 where nothing was drafted.
        draft_tokens: Tokens that verify looked at per request, 0 where nothing was verified.
        ranks: What each rank reported, the first rank first.
        requests: One row per request of the batch; None until the server has processed
            the results, which the overlap scheduler does one cycle later.
        padded_batch: The batch size that the graph of the target model was made for; None
            where none ran, or it is not known.
        context_tokens_sum: Tokens of all requests, prompt and output, before this cycle; None
            until their results are known, like the next three.
        context_tokens_max: The most that one request has.
        queued: Requests that waited when the results were processed.
        running: Requests that ran then.
    """

    run_id: str
    group: str
    number: int
    kind: CycleKind
    batch_size: int
    steps: int
    topk: int
    draft_tokens: int
    ranks: tuple[RankCycle, ...]
    requests: tuple[RequestRow, ...] | None
    padded_batch: int | None = None
    context_tokens_sum: int | None = None
    context_tokens_max: int | None = None
    queued: int | None = None
    running: int | None = None

    @property
    def start_ns(self) -> int:
        """UNIX time in ns at which the first rank began the cycle."""
        return self.ranks[0].start_ns

    @property
    def end_ns(self) -> int:
        """UNIX time in ns at which the first rank ended the cycle."""
        return self.ranks[0].end_ns


class OtherSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A span that somebody else made, such as SGLang's own of a request.

    Attributes:
        trace_id: 32 hexadecimal digits.
        span_id: 16 hexadecimal digits.
        parent_id: The same of the span above it; empty where it has none.
        service: Whose span it is, as its resource says; empty where it does not.
        name: What was done.
        start_ns: UNIX time in ns.
        end_ns: UNIX time in ns, never before `start_ns`.
        request_id: The engine's id of the request; empty where the span names none.
        failed: Its maker says that it failed.
    """

    trace_id: str
    span_id: str
    parent_id: str
    service: str
    name: str
    start_ns: int
    end_ns: int
    request_id: str = ""
    failed: bool = False


class SkippedCycles(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of the cycles that sampling left out.

    Attributes:
        cycles: How many, of all groups.
        total_ns: Their time in ns.
        verifies: Rows that verified; health checks count here, overshoot does not.
        correct_drafts: Drafts found correct in them.
        output_tokens: Tokens that the server added to outputs.
    """

    cycles: int = 0
    total_ns: int = 0
    verifies: int = 0
    correct_drafts: int = 0
    output_tokens: int = 0


class Rank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One scheduler process of a server.

    Attributes:
        name: Such as `TP0` or `DP1 TP0`; `ENGINE2 TP0` of a second engine in one program.
        pid: Process id as spectrace sees it.
        host: Name of its machine where that is not the run's, else empty.
    """

    name: str
    pid: int
    host: str = ""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One server from start to end.

    Attributes:
        run_id: 32 hexadecimal digits, the same for everyone who looks at this server.
        host: Name of the machine.
        server_pid: Process id of the server's root process.
        command: The server's command line.
        engine: Such as `sglang 0.5.23`; empty until the probe has reported.
        ranks: The scheduler processes.
        anchor_unix_ns: UNIX time in ns at the moment of `anchor_monotonic_ns`.
        anchor_monotonic_ns: CLOCK_MONOTONIC in ns at that moment; times of the run are
            UNIX = MONOTONIC - anchor_monotonic_ns + anchor_unix_ns.
    """

    run_id: str
    host: str
    server_pid: int
    command: tuple[str, ...]
    ranks: tuple[Rank, ...]
    anchor_unix_ns: int
    anchor_monotonic_ns: int
    engine: str = ""

    def unix_ns(self, monotonic_ns: int) -> int:
        """Puts a CLOCK_MONOTONIC time in ns on the UNIX axis of this run."""
        return monotonic_ns - self.anchor_monotonic_ns + self.anchor_unix_ns
