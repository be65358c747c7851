"""Reads traces of the torch profiler (Kineto's JSON), as SGLang's `/start_profile` writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator

from spectrace.importing.columns import FURTHEST_NS, Meaning, ProcessTrace, Role, Span, TraceFile
from spectrace.importing.faults import Fault, Faults
from spectrace.importing.names import meaning_of_function, meaning_of_range
from spectrace.importing.pieces import Event, EventText

SOURCE = "the torch profiler"
_NS_PER_US = 1000
_FURTHEST_US = FURTHEST_NS / _NS_PER_US
_LABEL = re.compile(r"\[([A-Z0-9-]+)\] ")
_RANK = re.compile(r"(?<![A-Za-z])(DP|TP|PP)-?(\d+)")
_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_CALLS = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "runtime"})
_WAITS = frozenset(
    {
        "cudaEventSynchronize",
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
        "hipEventSynchronize",
        "hipStreamSynchronize",
        "hipDeviceSynchronize",
    }
)
_WAIT = Meaning(Role.WAIT)
_CAPTURE = Meaning(Role.CAPTURE)
_BEGIN_CAPTURE = "StreamBeginCapture"
_END_CAPTURE = "StreamEndCapture"


def read_kineto(pieces: Iterator[bytes], name: str, faults: Faults) -> TraceFile:
    """Reads one trace.

    Args:
        pieces: Its text, decompressed.
        name: Of the file; it says which rank's it is (`…-TP-0…`).
        faults: Where it is counted what is left out.

    Raises:
        SpectraceError: The file is no such trace.
    """
    text = EventText(pieces, name, faults)
    reader = _Reader(rank_of(name), faults)
    for batch in text.batches():
        for event in batch:
            reader.take(event)
    head = text.head()
    return TraceFile(SOURCE, head.host_name, reader.processes(head.base_ns))


def rank_of(name: str) -> str:
    """The rank that a file name or a label of SGLang's says, such as `DP1 TP0`; "" if none."""
    found = dict(_RANK.findall(name))
    return " ".join(f"{kind}{int(found[kind])}" for kind in ("DP", "PP", "TP") if kind in found)


class _Reader:
    """Sorts events into the columns of their process; times are relative until the end."""

    def __init__(self, rank: str, faults: Faults) -> None:
        self._rank = rank
        self._faults = faults
        self._processes: dict[str, ProcessTrace] = {}
        self._open: dict[tuple[Hashable, Hashable], list[Event]] = {}
        self._captures: dict[tuple[str, Hashable], int] = {}
        self._by_phase: dict[str, Callable[[Event], None]] = {
            "X": self._whole,
            "B": self._begin,
            "E": self._end,
        }

    def take(self, event: Event) -> None:
        """Takes in one event."""
        handle = self._by_phase.get(event.ph)
        if handle is not None:
            handle(event)

    def processes(self, base_ns: int) -> list[ProcessTrace]:
        """The processes that were seen, on the UNIX axis.

        Args:
            base_ns: UNIX time in ns to which the trace's times are relative.
        """
        self._faults.add(Fault.UNCLOSED, sum(map(len, self._open.values())))
        for process in self._processes.values():
            _shift(process, base_ns)
        return list(self._processes.values())

    def _begin(self, event: Event) -> None:
        self._open.setdefault((event.pid, event.tid), []).append(event)

    def _end(self, event: Event) -> None:
        opened = self._open.get((event.pid, event.tid))
        if not opened:
            self._faults.add(Fault.UNOPENED)
            return
        begun = opened.pop()
        if begun.ts is None or event.ts is None:
            self._faults.add(Fault.UNREADABLE)
            return
        begun.dur = event.ts - begun.ts
        self._whole(begun)

    def _whole(self, event: Event) -> None:
        category = event.cat
        if category == "cpu_op":  # most of a trace, and of no use here
            return
        if event.ts is None or event.dur is None:
            self._faults.add(Fault.UNREADABLE)
            return
        if event.dur < 0:
            self._faults.add(Fault.NEGATIVE)
            return
        if abs(event.ts) > _FURTHEST_US or event.dur > _FURTHEST_US:
            self._faults.add(Fault.NOT_A_NUMBER)
            return
        start_ns = round(event.ts * _NS_PER_US)
        end_ns = round((event.ts + event.dur) * _NS_PER_US)
        if category in _DEVICE:
            self._kernel(event, start_ns, end_ns)
        elif category in _CALLS:
            self._call(event, start_ns, end_ns)
        elif category == "gpu_user_annotation":
            if event.args is not None and event.args.external_id is not None:
                self._device_range(event, event.args.external_id, start_ns, end_ns)
        else:
            python = category == "python_function"
            meaning = (meaning_of_function if python else meaning_of_range)(event.name)
            if meaning is not None:
                link = event.args.external_id if event.args is not None else None
                self._span(event, Span(start_ns, end_ns, meaning, link))

    def _device_range(self, event: Event, link: int, start_ns: int, end_ns: int) -> None:
        """Keeps the longest: a range has one on each stream on which anything of it ran."""
        ranges = self._process(event).device_ranges
        begun_ns, ended_ns = ranges.get(link, (start_ns, start_ns))
        if end_ns - start_ns > ended_ns - begun_ns:
            ranges[link] = (start_ns, end_ns)

    def _kernel(self, event: Event, start_ns: int, end_ns: int) -> None:
        args = event.args
        correlation = args.correlation if args is not None else None
        stream = (event.pid, args.stream if args is not None else event.tid)
        process = self._process(event)
        process.kernels.add(
            start_ns, end_ns, -1 if correlation is None else correlation, stream, event.name
        )

    def _call(self, event: Event, start_ns: int, end_ns: int) -> None:
        name = event.name
        if name in _WAITS:
            self._span(event, Span(start_ns, end_ns, _WAIT))
        elif _BEGIN_CAPTURE in name:
            self._captures[_label(event), event.tid] = start_ns
        elif _END_CAPTURE in name:
            begun_ns = self._captures.pop((_label(event), event.tid), None)
            if begun_ns is not None:
                self._span(event, Span(begun_ns, end_ns, _CAPTURE))
        args = event.args
        if args is not None and args.correlation is not None:
            process = self._process(event)
            process.launches.add(
                start_ns,
                args.correlation,
                process.thread_number(event.tid),
                graph="GraphLaunch" in name,
            )

    def _span(self, event: Event, span: Span) -> None:
        process = self._process(event)
        process.threads.setdefault(event.tid, []).append(span)
        process.end_ns = max(process.end_ns, span.end_ns)
        if not process.pid:
            process.pid = _number(event.pid)

    def _process(self, event: Event) -> ProcessTrace:
        label = _label(event)
        process = self._processes.get(label)
        if process is None:
            process = ProcessTrace(rank_of(label) or self._rank)
            self._processes[label] = process
        return process


def _label(event: Event) -> str:
    """What SGLang puts before the process ids of each rank when it merges traces; else ""."""
    if isinstance(event.pid, int):
        return ""
    found = _LABEL.match(event.pid)
    return found[1] if found else ""


def _number(pid: int | str) -> int:
    digits = str(pid).rpartition(" ")[2]
    return int(digits) if digits.isdecimal() else 0


def _shift(process: ProcessTrace, base_ns: int) -> None:
    """Puts all times of a process on the UNIX axis."""
    for thread, spans in process.threads.items():
        process.threads[thread] = [
            span._replace(start_ns=span.start_ns + base_ns, end_ns=span.end_ns + base_ns)
            for span in spans
        ]
    process.end_ns += base_ns
    process.launches.shift(base_ns)
    process.kernels.shift(base_ns)
    process.device_ranges = {
        link: (start_ns + base_ns, end_ns + base_ns)
        for link, (start_ns, end_ns) in process.device_ranges.items()
    }
