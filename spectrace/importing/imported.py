"""Reads the files of one run, whatever tool wrote them, and makes its Cycles."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from spectrace.errors import SpectraceError
from spectrace.importing.columns import ProcessTrace, Role, Span, TraceFile
from spectrace.importing.device import KernelTime, OnDevice, on_device
from spectrace.importing.faults import Faults
from spectrace.importing.kineto import read_kineto
from spectrace.importing.nesting import nested
from spectrace.importing.nsys import is_sqlite, read_nsys
from spectrace.importing.opening import pieces_of
from spectrace.importing.ranks import RankTurns, cycles_of
from spectrace.importing.turns import Turn, turns_of
from spectrace.model import Cycle, Rank, Run

_BOUNDING = frozenset({Role.TURN, Role.RUN, Role.FORWARD, Role.DRAFT, Role.DRAFT_EXTEND})
_CAPTURE_FILE = "cuda_graph_capture-"  # SGLang's own name of what it writes at start
_HEX_DIGITS = 32


class Traced(NamedTuple):
    """A process of one rank.

    Attributes:
        process: What it did; ranges of threads are not kept.
        thread: That of the scheduler.
        turns: Of that thread, in order.
    """

    process: ProcessTrace
    thread: Hashable
    turns: list[Turn]


class Imported(NamedTuple):
    """A run as it was read.

    Attributes:
        run: What is known of it.
        cycles: In the order of their begins within each group.
        kernels: Time of kernels by rank, phase ("" outside of phases, and in a cycle that the trace
            cuts off) and name of the kernel.
        traced: Its processes.
        faults: What was mended or left out.
    """

    run: Run
    cycles: list[Cycle]
    kernels: dict[tuple[str, str, str], KernelTime]
    traced: list[Traced]
    faults: Faults


def import_files(paths: Sequence[Path], progress: Callable[[int], None]) -> Imported:
    """Reads traces of the ranks of one run.

    Args:
        paths: The files, in any order.
        progress: Is told the bytes that were read since it was told last.

    Raises:
        SpectraceError: A file cannot be read, is no trace, or two are of the same rank at one
            time; or none shows a cycle.
    """
    faults = Faults()
    files = [_read(path, faults, progress) for path in paths]
    processes = _named(files)
    ranks: list[RankTurns] = []
    traced: list[Traced] = []
    kernels: dict[tuple[str, str, str], KernelTime] = {}
    for name, parts in processes.items():
        shares = [_share(process, faults) for process in parts]
        ranks.append(_in_turn(name, [share for share in shares if share.traced.turns]))
        for share in shares:
            _add(kernels, name, share.device.times)
            traced.append(share.traced)
    pids = {name: parts[0].pid for name, parts in processes.items()}
    hosts = {name: _host_of(parts[0], files) for name, parts in processes.items()}
    run = _run(files, ranks, pids, hosts)
    cycles = cycles_of(run.run_id, ranks, faults)
    if not cycles:
        raise SpectraceError(_nothing(paths))
    return Imported(run, cycles, kernels, traced, faults)


def _nothing(paths: Sequence[Path]) -> str:
    names = ", ".join(path.name for path in paths)
    return (
        f"{names} shows no cycle: none of SGLang's ranges (scheduler.run_batch, step[…], draft), "
        "nor spectrace's own, is in it. Trace the scheduler while it decodes, with CPU activity."
    )


def _read(path: Path, faults: Faults, progress: Callable[[int], None]) -> TraceFile:
    if path.name.startswith(_CAPTURE_FILE):
        raise SpectraceError(
            f"{path.name} was written while graphs were captured at the server's start, when "
            "nothing runs as in a cycle: give a trace of the running server."
        )
    try:
        if is_sqlite(path):
            return read_nsys(path, faults, progress)
        return read_kineto(pieces_of(path, faults, progress), path.name, faults)
    except OSError as error:
        raise SpectraceError(
            f"{path} cannot be read ({error.strerror or error}): name a trace that is there."
        ) from error


def _named(files: Sequence[TraceFile]) -> dict[str, list[ProcessTrace]]:
    """The processes that show something of a scheduler, by name of their rank.

    A rank may have several: SGLang writes a trace of each stage (`…-DECODE`) if asked to.
    """
    shown = [process for file in files for process in file.processes if _thread_of(process)]
    named: dict[str, list[ProcessTrace]] = {}
    for process in shown:
        name = process.rank or ("TP0" if len(shown) == 1 else f"PROCESS{process.pid}")
        process.rank = name
        named.setdefault(name, []).append(process)
    return named


def _thread_of(process: ProcessTrace) -> tuple[Hashable, list[Span]] | None:
    """The thread with most that bounds cycles, and its ranges."""
    best = max(process.threads.items(), key=lambda thread: _bounds(thread[1]), default=None)
    return best if best is not None and _bounds(best[1]) else None


def _bounds(spans: Sequence[Span]) -> int:
    return sum(span.meaning.role in _BOUNDING for span in spans)


class _Share(NamedTuple):
    traced: Traced
    device: OnDevice


def _share(process: ProcessTrace, faults: Faults) -> _Share:
    found = _thread_of(process)
    thread, spans = found if found is not None else ("", [])
    turns = turns_of(nested(spans, faults), faults, end_ns=process.end_ns)
    device = on_device(process, thread, turns, faults)
    process.threads.clear()  # of a long trace they take more memory than all else
    return _Share(Traced(process, thread, turns), device)


def _in_turn(name: str, shares: Sequence[_Share]) -> RankTurns:
    """The traces of one rank, one after the other.

    Raises:
        SpectraceError: They are of the same time, and so not of one process.
    """
    ordered = sorted(shares, key=lambda share: share.traced.turns[0].start_ns)
    for before, after in itertools.pairwise(ordered):
        if after.traced.turns[0].start_ns < before.traced.turns[-1].end_ns:
            raise SpectraceError(
                f"Two of the traces are of rank {name} at the same time: give the traces of one "
                "run, whose names say the rank (…-TP-0…)."
            )
    turns = [turn for share in ordered for turn in share.traced.turns]
    return RankTurns(name, turns, [lane for share in ordered for lane in share.device.lanes])


def _add(
    kernels: dict[tuple[str, str, str], KernelTime],
    name: str,
    times: dict[tuple[str, str], KernelTime],
) -> None:
    for (phase, kernel), time in times.items():
        total = kernels.setdefault((name, phase, kernel), KernelTime())
        total.time_ns += time.time_ns
        total.kernels += time.kernels


def _host_of(process: ProcessTrace, files: Sequence[TraceFile]) -> str:
    """The machine of a process, as the file says in which it is; empty where it says nothing."""
    return next(file.host for file in files if any(process is one for one in file.processes))


def _run(
    files: Sequence[TraceFile],
    ranks: Sequence[RankTurns],
    pids: Mapping[str, int],
    hosts: Mapping[str, str],
) -> Run:
    """What the traces say of their run; its id comes of what is in them."""
    extents = sorted(
        (rank.rank, turn.start_ns, turn.end_ns) for rank in ranks for turn in rank.turns
    )
    names = sorted(rank.rank for rank in ranks)
    host = next((hosts[name] for name in names if hosts[name]), "")
    return Run(
        run_id=hashlib.sha256(repr(extents).encode()).hexdigest()[:_HEX_DIGITS],
        host=host,
        server_pid=min((pid for pid in pids.values() if pid), default=0),
        command=(),
        ranks=tuple(
            Rank(name=name, pid=pids[name], host="" if hosts[name] == host else hosts[name])
            for name in names
        ),
        anchor_unix_ns=0,
        anchor_monotonic_ns=0,
        engine=f"a trace of {' and '.join(sorted({file.source for file in files}))}",
    )
