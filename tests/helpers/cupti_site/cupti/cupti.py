"""Hands over records of kernels that nobody ran, for the way from a server to a report.

While runtime calls and kernels are asked for a launch a 0.1 ms is taken to have been made, each of
a kernel that ran 50 µs later for 20 µs; while graphs are asked for, of a whole graph as long.

Where a file `refuses` stands beside this one it does nothing of that: CUPTI answers with the number
that the file has, or `no driver`, or it cannot be loaded (`no library`).
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.helpers.cupti_records import Buffer, record
from tests.helpers.scripted_cupti import Activity, CuptiError, NotSupportedError

NAME = b"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
EVERY_NS, AFTER_NS, LONG_NS = 100_000, 50_000, 20_000
GRAPH, RUNTIME = 51, 5
_name = ctypes.create_string_buffer(NAME)
_take: Callable[[Sequence[Any]], None]
_since: dict[int, int] = {}
_launches: list[tuple[int, bool]] = []  # when, and whether of a whole graph


def _refuse() -> None:
    """Answers as the file says.

    Raises:
        CuptiError: With the number that stands there.
        NotSupportedError: There is no driver.
        ImportError: The library cannot be loaded.
    """
    file = Path(__file__).with_name("refuses")
    answer = file.read_text() if file.exists() else ""
    if answer == "no driver":
        raise NotSupportedError("libcuda.so.1: cannot open shared object file")
    if answer == "no library":
        raise ImportError("libcupti.so.13: cannot open shared object file")
    if answer:
        raise CuptiError(int(answer))


def activity_register_callbacks(
    func_buffer_requested: Callable[[], tuple[int, int]],
    func_buffer_completed: Callable[[Sequence[Any]], None],
) -> None:
    """Takes who takes what is done."""
    global _take  # noqa: PLW0603 - as a library does
    _refuse()
    func_buffer_requested()
    _take = func_buffer_completed


def activity_enable(kind: int) -> None:
    """Records of this kind are wanted."""
    _since[kind] = time.time_ns()


def activity_disable(kind: int) -> None:
    """And no more: launches are made up of the time in between."""
    since_ns = _since.pop(kind)
    if kind == GRAPH:
        _launches.extend((at, True) for at in range(since_ns, time.time_ns(), EVERY_NS))
    if kind == RUNTIME:
        first = max([at for at, _ in _launches], default=since_ns) + EVERY_NS
        _launches.extend((at, False) for at in range(first, time.time_ns(), EVERY_NS))


def activity_flush_all(flag: int) -> None:
    """Hands over what is done."""
    assert flag == 0
    launches, _launches[:] = list(_launches), []
    for begin in range(0, len(launches), 1000):
        buffer = Buffer(*_records(launches[begin : begin + 1000], begin + 1))
        if buffer.places:
            memory = ctypes.create_string_buffer(buffer.data, len(buffer.data))
            address = ctypes.addressof(memory)
            _take([Activity(address + place) for place in buffer.places])


def _records(launches: Sequence[tuple[int, bool]], first: int) -> Iterator[bytes]:
    thread = threading.get_ident() & 0xFFFFFFFF
    for number, (at, whole) in enumerate(launches, start=first):
        yield record("api", start=at, end=at + 1000, correlation_id=number, thread_id=thread)
        ran: dict[str, int] = {
            "start": at + AFTER_NS,
            "end": at + AFTER_NS + LONG_NS,
            "correlation_id": number,
            "stream_id": 7,
        }
        more = {"graph_id": 1} if whole else {"name": ctypes.addressof(_name)}
        yield record("graph_trace2" if whole else "kernel13", "", **ran, **more)
