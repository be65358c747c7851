"""Traces a server from putting the probe into its ranks to taking it out again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import msgspec

from spectrace.attach import discover, inject, leave, readers, ring_file
from spectrace.attach.handle import Attached, Options, TakenOut
from spectrace.attach.held_mode import Asked, HeldMode
from spectrace.attach.late import LateRanks
from spectrace.attach.pulse import Activity
from spectrace.attach.traced_rank import TracedRank
from spectrace.attach.ways import Way
from spectrace.collect.assembler import Assembler
from spectrace.errors import SpectraceError
from spectrace.model import Cycle, Rank, Run, SkippedCycles
from spectrace.probe.layout import State, Word

_NS_PER_MS = 1e6
_STATES = {
    State.EMPTY: "empty",
    State.LOADED: "loaded",
    State.ARMED: "armed",
    State.TRACING: "tracing",
    State.DETACHED: "detached",
    State.FAILED: "failed",
}
_GONE = ("detached", "failed")
_LATE_TIMEOUT_S = 2.0  # meanwhile nothing is read, and a rank that just starts may be busy


class Injector(Protocol):
    """Gets the probe into ranks and out of them."""

    def put_in(self, rank: Rank, *, options: Options, timeout_s: float) -> Attached:
        """Puts the probe into one rank."""

    def ask_to_leave(self, attached: Attached) -> None:
        """Tells it to leave, without waiting."""

    def take_out(self, attached: Attached, *, timeout_s: float) -> TakenOut:
        """Takes it out again."""


class _Here:
    """The ranks of this machine."""

    put_in = staticmethod(inject.put_in)
    ask_to_leave = staticmethod(leave.ask_to_leave)
    take_out = staticmethod(leave.take_out)


HERE = _Here()


class End(str, Enum):
    """Why a session has nothing more to trace."""

    SERVER_DIED = "server_died"
    TAKEN_OUT = "taken_out"
    PROBE_FAILED = "probe_failed"


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """For how long attaching held up one rank's main thread, in ms.

    Attributes:
        rank: Name of the rank.
        stop_ms: The process was stopped from outside.
        loading_ms: Reading the probe's code.
        installing_ms: Putting the hooks in.
        total_ms: The sum of the three.
        installed: The worker is hooked; until then its part of installing is still to come.
        way: How the probe came in: see `ways.Way`.
        closed: Why ways that were tried before were closed, a sentence each.
    """

    rank: str
    stop_ms: float
    loading_ms: float
    installing_ms: float
    total_ms: float
    installed: bool
    way: str = ""
    closed: tuple[str, ...] = ()


class RankState(msgspec.Struct, frozen=True, kw_only=True):
    """What the probe in one rank is doing.

    Attributes:
        name: Name of the rank.
        pid: Its process.
        state: `empty`, `loaded`, `armed` (tracing begins with the next cycle), `tracing`,
            `detached`, `failed`, or `unknown` to this release.
        alive: Its process runs.
        cycles: Cycles that the probe has recorded.
        lost_records: Records that were overwritten before they were read.
        activity: What its scheduler is doing.
        quiet_s: Time in s since its scheduler came round, by a cycle or an idle call.
        way: How the probe came in: see `ways.Way`.
    """

    name: str
    pid: int
    state: str
    alive: bool
    cycles: int
    lost_records: int
    activity: Activity = Activity.UNKNOWN
    quiet_s: float = 0.0
    way: str = ""


class SessionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a traced server beside its Cycles.

    Attributes:
        engine: Such as `sglang 0.5.23`; empty, like the next three, until a rank reported.
        algorithm: Speculative algorithm, as the server names it.
        worker: Class of the worker.
        device: Such as `cuda`.
        overlap: The overlap scheduler runs; None until a rank reported.
        unhooked: Functions that this release lacks, so that their phases are not seen, and
            what else it does not show.
        ranks: The state of every rank.
        timing: Why the device is not timed, a sentence; empty where it is, or that is not known.
        ranges: What is done about NVTX, a sentence.
        row: The rows of the table of releases that are used, such as `EAGLEWorkerV2 since
            0.5.16`; empty until a rank reported.
        untried: Why they may not fit, a sentence; empty where they were tried.
        sample_every: One of so many cycles is recorded in full by now.
        skipped: What sampling has left out since the start, also where it has changed since.
        lost_records: Records lost in the rings.
        missing_cycles: Cycles that not every rank reported.
        errors: What went wrong in the probes.
        controls: This spectrace decides how the server is timed, and does not only read.
        controller_pid: The process that does; None where nobody does at this moment, and where
            it runs in another PID namespace.
        readers: How many spectraces read, this one among them.
    """

    engine: str
    algorithm: str
    worker: str
    device: str
    overlap: bool | None
    unhooked: tuple[str, ...]
    ranks: tuple[RankState, ...]
    lost_records: int
    missing_cycles: int
    errors: tuple[str, ...]
    timing: str = ""
    ranges: str = ""
    row: str = ""
    untried: str = ""
    sample_every: int = 1
    skipped: SkippedCycles = SkippedCycles()
    controls: bool = True
    controller_pid: int | None = None
    readers: int = 1


class TraceSession:
    """The probe in all ranks of a server, and the Cycles that come out.

    A context manager: entering puts the probe in, leaving takes it out. If one rank cannot
    be reached, those that were are given back as they were.

    Args:
        run: The server.
        injector: How the probe gets in and out.
        options: How to trace it; by default as `Options` says.
        timeout_s: How long one rank may take to let the probe in or out.
        again: Gives the run with ranks that its server has got since behind those it had.

    Attributes:
        last_cycles: What `detach` still found in the rings.
    """

    def __init__(
        self,
        run: Run,
        *,
        injector: Injector = HERE,
        options: Options | None = None,
        timeout_s: float = 5.0,
        again: Callable[[Run], Run] = discover.again,
    ) -> None:
        self.last_cycles: list[Cycle] = []
        self._run = run
        self._late = LateRanks(again)
        self._news: list[str] = []
        self._controlled = True  # at the last look
        self._injector = injector
        self._options = options or Options()
        self._held_mode = HeldMode(Asked(self._options.mode, self._options.every))
        self._timeout_s = timeout_s
        self._assembler = Assembler(run)
        self._traced: list[TracedRank] = []
        self._taken_out: list[TakenOut] | None = None
        self._facts: SessionFacts | None = None  # the last ones, once the rings are closed
        self._stalls: list[Stall] = []

    def __enter__(self) -> TraceSession:  # noqa: PYI034 - Self came with Python 3.11
        """Puts the probe into every rank.

        Raises:
            SpectraceError: A rank cannot be reached; no rank has the probe then.
        """
        try:
            for rank in self._run.ranks:
                self._attach(rank, self._timeout_s)
        except BaseException:  # Ctrl-C too must leave the server as it was
            self.detach()
            raise
        self._follow_control()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Takes the probe out, as `detach`."""
        self.detach()

    def _attach(self, rank: Rank, timeout_s: float) -> None:
        options = self._options
        if self._traced and self._traced[0].controls:
            # Another one that attaches at the same time may have come first to this rank.
            options = replace(options, take_control=True)
        attached = self._injector.put_in(rank, options=options, timeout_s=timeout_s)
        try:
            self._traced.append(TracedRank(attached))
        except BaseException:
            self._injector.take_out(attached, timeout_s=self._timeout_s)
            raise
        self._signs_of_life()  # the next rank may take long, and the probe waits 30 s for us

    def _signs_of_life(self) -> None:
        for traced in self._traced:
            traced.sign_of_life()

    def _follow_control(self) -> None:
        """Who controls the first rank controls all of them."""
        first, *others = self._traced
        asked = Asked.of(first)  # before: who takes control does so before asking for anything
        first.inherit_control()
        if first.controls:
            for other in others:
                other.take_control()
        controls, came = first.controls, first.controls and not self._controlled
        if controls is not self._controlled:
            self._controlled = controls
            self._news.append(change_of_control(self._read_facts()))
        self._news += self._held_mode.follow(
            self._run, self._traced, asked, controls=controls, came=came, now_s=time.monotonic()
        )

    def _look_for_late_ranks(self) -> None:
        for rank in self._late.look(self._run, time.monotonic()):
            try:
                self._attach(rank, _LATE_TIMEOUT_S)
            except SpectraceError as error:
                self._news += self._late.refused(rank, error, time.monotonic())
                continue
            if self._traced[0].controls:
                self._traced[-1].trace_like(self._traced[0])
            ranks = (*self._run.ranks, rank)
            self._run = msgspec.structs.replace(self._run, ranks=ranks)
            self._assembler.join(rank)
            self._news.append(f"{rank.name} (process {rank.pid}) is new, and is traced too.")

    def poll(self) -> list[Cycle]:
        """Gives the Cycles that became ready or were amended; to be called many times a second.

        An amended Cycle takes the place of the one with the same run, group and number.
        """
        if self._taken_out is not None:
            return []
        self._signs_of_life()
        self._follow_control()
        self._look_for_late_ranks()
        cycles: list[Cycle] = []
        for traced in self._traced:
            cycles += self._assembler.add(traced.rank.name, traced.poll(), time.monotonic_ns())
        return cycles + self._assembler.flush(time.monotonic_ns())

    def news(self) -> list[str]:
        """What has changed since the last call, in sentences: who controls, ranks that came."""
        news, self._news = self._news, []
        return news

    @property
    def run(self) -> Run:
        """The server, with its engine once a rank has named it."""
        return msgspec.structs.replace(self._run, engine=self.facts().engine)

    @property
    def lost(self) -> int:
        """Records lost in the rings, and cycles that not every rank reported."""
        facts = self.facts()
        return facts.lost_records + facts.missing_cycles

    @property
    def controls(self) -> bool:
        """Whether this spectrace decides how the server is timed, and does not only read."""
        if self._facts is not None:
            return self._facts.controls
        return all(traced.controls for traced in self._traced[:1])

    @property
    def server_alive(self) -> bool:
        """Whether the processes of all ranks run."""
        return all(rank.alive for rank in self._rank_states())

    @property
    def end(self) -> End | None:
        """Why there is nothing more to trace; None while at least one rank is traced."""
        ranks = self._rank_states()
        if not all(rank.alive for rank in ranks):
            return End.SERVER_DIED
        if not all(rank.state in _GONE for rank in ranks):
            return None
        failed = any(rank.state == "failed" for rank in ranks)
        return End.PROBE_FAILED if failed else End.TAKEN_OUT

    def _rank_states(self) -> tuple[RankState, ...]:
        if self._facts is not None:
            return self._facts.ranks
        return tuple(map(_state_of, self._traced))

    def facts(self) -> SessionFacts:
        """What is known about the server and the ranks now, or at the end of the session."""
        return self._facts or self._read_facts()

    def _read_facts(self) -> SessionFacts:
        infos = [traced.view.info() for traced in self._traced]
        info = next((info for info in infos if info.get("worker")), infos[0] if infos else {})
        ranks = self._rank_states()
        present = readers.present(self._traced[0].view) if self._traced else []
        controller = readers.controller(self._traced[0].view) if self._traced else None
        return SessionFacts(
            engine=_text(info, "engine"),
            algorithm=_text(info, "algorithm"),
            worker=_text(info, "worker"),
            device=_text(info, "device"),
            overlap=bool(info["overlap"]) if "overlap" in info else None,
            unhooked=_unhooked(info),
            ranks=ranks,
            lost_records=sum(rank.lost_records for rank in ranks),
            missing_cycles=self._assembler.missing,
            errors=tuple(self._assembler.errors),
            timing=_text(info, "no_device_timing"),
            ranges=_text(info, "ranges"),
            row=_text(info, "row"),
            untried=_text(info, "untried"),
            sample_every=max([1, *(traced.sample_every for traced in self._traced)]),
            skipped=self._assembler.skipped,
            controls=self.controls,
            controller_pid=controller.pid or None if controller else None,
            readers=len(present),
        )

    def stall(self) -> list[Stall]:
        """For how long each rank was held up by attaching; not those that were traced already."""
        if self._taken_out is not None:
            return self._stalls
        return [
            _stall_of(traced)
            for traced in self._traced
            if traced.attached.way not in {Way.JOINED, Way.LOOP}
        ]

    def detach(self) -> list[TakenOut]:
        """Takes the probe out of every rank and reads what it wrote last into `last_cycles`.

        Where others read on, the probe is left to them. A rank that does not let go of the
        probe does not keep the others from it: its entry says why. Calling it again gives the
        same answer.
        """
        if self._taken_out is None:
            self._signs_of_life()
            stalls, last_facts = self.stall(), self._read_facts()
            for traced in self._traced:  # all are told first, so that they leave together
                if traced.alive:
                    self._injector.ask_to_leave(traced.attached)
            deadline_s = time.monotonic() + self._timeout_s
            self._taken_out = [self._take_out(traced, deadline_s) for traced in self._traced]
            self._read_the_rest()
            self._stalls = stalls
            self._facts = msgspec.structs.replace(
                self._read_facts(),
                controls=last_facts.controls,
                controller_pid=last_facts.controller_pid,
                readers=last_facts.readers,
            )
            for traced in self._traced:
                traced.view.close()
        return self._taken_out

    def _take_out(self, traced: TracedRank, deadline_s: float) -> TakenOut:
        if not traced.alive:
            with contextlib.suppress(SpectraceError):  # its folder may be gone with the process
                ring_file.remove(Path(traced.attached.path))
            return TakenOut(removed=True, foreign=(), reason="The server has ended.")
        try:
            left_s = max(0.0, deadline_s - time.monotonic())
            return self._injector.take_out(traced.attached, timeout_s=left_s)
        except SpectraceError as error:
            return TakenOut(removed=False, foreign=(), reason=str(error))

    def _read_the_rest(self) -> None:
        for traced in self._traced:
            self.last_cycles += self._assembler.add(
                traced.rank.name, traced.reader.drain(), time.monotonic_ns()
            )
        self.last_cycles += self._assembler.close()


def _state_of(traced: TracedRank) -> RankState:
    now_ns = time.monotonic_ns()
    return RankState(
        name=traced.rank.name,
        pid=traced.rank.pid,
        state=_STATES.get(traced.view.word(Word.STATE), "unknown"),
        alive=traced.alive,
        cycles=traced.view.word(Word.CYCLES),
        lost_records=traced.reader.lost,
        activity=traced.pulse.activity(now_ns),
        quiet_s=traced.pulse.quiet_s(now_ns),
        way=traced.attached.way.value,
    )


def _stall_of(traced: TracedRank) -> Stall:
    view = traced.view
    installed = view.word(Word.INSTALL_NS)
    stop_ns = traced.attached.stop_ns
    loading_ns = view.word(Word.LOAD_NS)
    installing_ns = view.word(Word.ARM_NS) + installed
    return Stall(
        rank=traced.rank.name,
        stop_ms=stop_ns / _NS_PER_MS,
        loading_ms=loading_ns / _NS_PER_MS,
        installing_ms=installing_ns / _NS_PER_MS,
        total_ms=(stop_ns + loading_ns + installing_ns) / _NS_PER_MS,
        installed=bool(installed),
        way=traced.attached.way.value,
        closed=traced.attached.closed,
    )


def change_of_control(facts: SessionFacts) -> str:
    """Says who decides from now on how the server is timed."""
    if facts.controls:
        return (
            "This spectrace controls now how the server is timed: the one that did reads no more."
        )
    return (
        f"{controller_of(facts).capitalize()} controls how the server is timed; this one reads "
        "along, and the probe stays as long as either does."
    )


def standing_still(facts: SessionFacts) -> list[str]:
    """Says of each rank whose scheduler does not come round for how long."""
    return [
        f"The scheduler of {rank.name} (process {rank.pid}) has not come round for "
        f"{rank.quiet_s:.0f} s: it is paused or blocked, or within one long cycle."
        for rank in facts.ranks
        if rank.alive and rank.activity is Activity.STILL
    ]


def controller_of(facts: SessionFacts) -> str:
    """Who controls where this spectrace only reads, as people are told."""
    if facts.controller_pid is None:
        return "a spectrace in another container"
    return f"process {facts.controller_pid}"


def _unhooked(info: dict[str, Any]) -> tuple[str, ...]:
    missing = _texts(info, "missing")
    if info.get("known_worker", True):
        return missing
    return (
        f"the parts of {_text(info, 'worker')}, a worker that spectrace does not know",
        *missing,
    )


def _text(info: dict[str, Any], name: str) -> str:
    return str(info.get(name) or "")


def _texts(info: dict[str, Any], name: str) -> tuple[str, ...]:
    found = info.get(name)
    return tuple(str(entry) for entry in found) if isinstance(found, list) else ()
