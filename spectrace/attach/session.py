"""Traces a server from putting the probe into its ranks to taking it out again."""

from __future__ import annotations

import contextlib
import os
import time
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import msgspec

from spectrace.attach import inject, leave, procfs, ring_file
from spectrace.attach.handle import Attached, Options, TakenOut
from spectrace.collect.assembler import Assembler
from spectrace.collect.reader import RingReader
from spectrace.collect.ring_view import RingView
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
    TAKEN_OVER = "taken_over"
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
    """

    rank: str
    stop_ms: float
    loading_ms: float
    installing_ms: float
    total_ms: float
    installed: bool


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
    """

    name: str
    pid: int
    state: str
    alive: bool
    cycles: int
    lost_records: int


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
        skipped: What sampling left out.
        lost_records: Records lost in the rings.
        missing_cycles: Cycles that not every rank reported.
        errors: What went wrong in the probes.
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
    skipped: SkippedCycles = SkippedCycles()


class _Traced:
    """One rank with the probe in it and its ring mapped here."""

    def __init__(self, attached: Attached) -> None:
        self.attached = attached
        self.rank = attached.rank
        self.view = RingView(Path(attached.path))
        self.reader = RingReader(self.view, join=attached.joined)
        self.ticks = self.view.word(Word.TARGET_START_TICKS)
        self._lost_before = 0
        if attached.joined:
            self.ask_for_ids()  # those sent since `put_in` asked stand before our first record

    @property
    def controls(self) -> bool:
        """Whether no other process does: one may take over where we gave no sign of life."""
        controller = self.view.word(Word.CONTROLLER_PID)
        return controller in (0, os.getpid()) or not procfs.is_alive(controller)

    def ask_for_ids(self) -> None:
        """Has the probe send the ids behind interned numbers again."""
        self.view.set_word(Word.JOINS, self.view.word(Word.JOINS) + 1)

    def sign_of_life(self) -> None:
        """Tells the probe that somebody reads, and others who it is."""
        if self.controls:
            self.view.set_word(Word.HEARTBEAT_NS, time.monotonic_ns())
            self.view.set_word(Word.CONTROLLER_PID, os.getpid())
            self.view.set_word(Word.LOST_RECORDS, self.reader.lost)

    def ask_after_loss(self) -> None:
        """Ids may have been among what was lost."""
        if self.reader.lost > self._lost_before:
            self._lost_before = self.reader.lost
            self.ask_for_ids()

    @property
    def alive(self) -> bool:
        return procfs.is_alive(self.rank.pid, self.ticks or None)

    def state(self) -> RankState:
        return RankState(
            name=self.rank.name,
            pid=self.rank.pid,
            state=_STATES.get(self.view.word(Word.STATE), "unknown"),
            alive=self.alive,
            cycles=self.view.word(Word.CYCLES),
            lost_records=self.reader.lost,
        )

    def stall(self) -> Stall:
        installed = self.view.word(Word.INSTALL_NS)
        stop_ns = self.attached.stop_ns
        loading_ns = self.view.word(Word.LOAD_NS)
        installing_ns = self.view.word(Word.ARM_NS) + installed
        return Stall(
            rank=self.rank.name,
            stop_ms=stop_ns / _NS_PER_MS,
            loading_ms=loading_ns / _NS_PER_MS,
            installing_ms=installing_ns / _NS_PER_MS,
            total_ms=(stop_ns + loading_ns + installing_ns) / _NS_PER_MS,
            installed=bool(installed),
        )


class TraceSession:
    """The probe in all ranks of a server, and the Cycles that come out.

    A context manager: entering puts the probe in, leaving takes it out. If one rank cannot
    be reached, those that were are given back as they were.

    Args:
        run: The server.
        injector: How the probe gets in and out.
        options: How to trace it; by default as `Options` says.
        timeout_s: How long one rank may take to let the probe in or out.

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
    ) -> None:
        self.last_cycles: list[Cycle] = []
        self._run = run
        self._injector = injector
        self._options = options or Options()
        self._timeout_s = timeout_s
        self._assembler = Assembler(run)
        self._traced: list[_Traced] = []
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
                self._attach(rank)
        except BaseException:  # Ctrl-C too must leave the server as it was
            self.detach()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Takes the probe out, as `detach`."""
        self.detach()

    def _attach(self, rank: Rank) -> None:
        attached = self._injector.put_in(rank, options=self._options, timeout_s=self._timeout_s)
        try:
            self._traced.append(_Traced(attached))
        except BaseException:
            self._injector.take_out(attached, timeout_s=self._timeout_s)
            raise
        self._signs_of_life()  # the next rank may take long, and the probe waits 30 s for us

    def _signs_of_life(self) -> None:
        for traced in self._traced:
            traced.sign_of_life()

    def poll(self) -> list[Cycle]:
        """Gives the Cycles that became ready or were amended; to be called many times a second.

        An amended Cycle takes the place of the one with the same run, group and number.
        """
        if self._taken_out is not None:
            return []
        self._signs_of_life()
        cycles: list[Cycle] = []
        for traced in self._traced:
            cycles += self._assembler.add(
                traced.rank.name, traced.reader.poll(), time.monotonic_ns()
            )
            traced.ask_after_loss()
        return cycles + self._assembler.flush(time.monotonic_ns())

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
    def server_alive(self) -> bool:
        """Whether the processes of all ranks run."""
        return all(rank.alive for rank in self._rank_states())

    @property
    def end(self) -> End | None:
        """Why there is nothing more to trace; None while at least one rank is traced."""
        ranks = self._rank_states()
        if not all(rank.alive for rank in ranks):
            return End.SERVER_DIED
        if not self._in_control():
            return End.TAKEN_OVER
        if not all(rank.state in _GONE for rank in ranks):
            return None
        failed = any(rank.state == "failed" for rank in ranks)
        return End.PROBE_FAILED if failed else End.TAKEN_OUT

    def _rank_states(self) -> tuple[RankState, ...]:
        if self._facts is not None:
            return self._facts.ranks
        return tuple(traced.state() for traced in self._traced)

    def _in_control(self) -> bool:
        return self._facts is not None or all(traced.controls for traced in self._traced)

    def facts(self) -> SessionFacts:
        """What is known about the server and the ranks now, or at the end of the session."""
        return self._facts or self._read_facts()

    def _read_facts(self) -> SessionFacts:
        infos = [traced.view.info() for traced in self._traced]
        info = next((info for info in infos if info.get("worker")), infos[0] if infos else {})
        ranks = self._rank_states()
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
            skipped=self._assembler.skipped,
        )

    def stall(self) -> list[Stall]:
        """For how long each rank was held up by attaching."""
        if self._taken_out is not None:
            return self._stalls
        return [traced.stall() for traced in self._traced]

    def detach(self) -> list[TakenOut]:
        """Takes the probe out of every rank and reads what it wrote last into `last_cycles`.

        A rank that does not let go of the probe does not keep the others from it: its entry
        says why. Calling it again gives the same answer.
        """
        if self._taken_out is None:
            for traced in self._traced:  # all are told first, so that they leave together
                if traced.alive and traced.controls:
                    self._injector.ask_to_leave(traced.attached)
            deadline_s = time.monotonic() + self._timeout_s
            self._taken_out = [self._take_out(traced, deadline_s) for traced in self._traced]
            self._read_the_rest()
            self._stalls = [traced.stall() for traced in self._traced]
            self._facts = self._read_facts()
            for traced in self._traced:
                traced.view.close()
        return self._taken_out

    def _take_out(self, traced: _Traced, deadline_s: float) -> TakenOut:
        self._signs_of_life()
        if not traced.alive:
            with contextlib.suppress(SpectraceError):  # its folder may be gone with the process
                ring_file.remove(Path(traced.attached.path))
            return TakenOut(removed=True, foreign=(), reason="The server has ended.")
        if not traced.controls:
            controller = traced.view.word(Word.CONTROLLER_PID)
            reason = f"Process {controller} traces it now."
            return TakenOut(removed=False, foreign=(), reason=reason)
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
