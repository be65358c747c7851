"""Builds the NVTX tool of `recorder.c` and reads the files that it writes."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).with_name("recorder.c")
CACHE = Path(__file__).with_name(".build")

# time_ns, thread, type of payload, payload, domain, text, op
_RECORD = struct.Struct("<QIiq24s72sQ")
_CALLS = struct.Struct("<Q")
_CAPACITY = 1 << 18
_INTEGERS = {1, 2}  # NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 and _INT64


class Op(IntEnum):
    """What NVTX was asked to do."""

    DOMAIN = 1
    STRING = 2
    PUSH = 3
    POP = 4
    MARK = 5
    DESTROY = 6


@dataclass(frozen=True)
class Call:
    """One call of NVTX.

    Attributes:
        op: Which.
        domain: The domain's name, "" for the default one.
        text: The range's or string's text, cut at 71 bytes.
        payload: An integer payload, None without one.
        time_ns: CLOCK_MONOTONIC.
        thread: The caller's thread id in the kernel.
    """

    op: Op
    domain: str
    text: str
    payload: int | None
    time_ns: int
    thread: int


@dataclass(frozen=True)
class Range:
    """One range as it was opened and closed.

    Attributes:
        path: Texts of the ranges around it and its own, from the outermost.
        domain: The domain's name.
        payload: An integer payload, None without one.
        start_ns: CLOCK_MONOTONIC.
        end_ns: The same.
    """

    path: tuple[str, ...]
    domain: str
    payload: int | None
    start_ns: int
    end_ns: int


def build() -> Path:
    """Compiles the tool unless that has been done.

    Returns:
        The shared object, for NVTX_INJECTION64_PATH.
    """
    source = SOURCE.read_bytes()
    library = CACHE / f"recorder-{sha256(source).hexdigest()[:16]}.so"
    if not library.exists():
        CACHE.mkdir(exist_ok=True)
        part = library.with_suffix(".part")
        options = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
        subprocess.run(["/usr/bin/env", "gcc", *options, "-o", part, SOURCE], check=True)
        part.rename(library)
    return library


def environment(folder: Path) -> dict[str, str]:
    """The variables of a process that is to be recorded into `folder`."""
    return {"NVTX_INJECTION64_PATH": str(build()), "NVTX_RECORDER_FOLDER": str(folder)}


def read(folder: Path, pid: int) -> list[Call]:
    """The calls of one process in their order.

    Raises:
        OverflowError: There were more calls than a file holds.
    """
    with (
        (folder / f"{pid}.nvtx").open("rb") as file,
        mmap(file.fileno(), 0, access=ACCESS_READ) as m,
    ):
        (calls,) = _CALLS.unpack_from(m)
        if calls > _CAPACITY:
            raise OverflowError(f"{calls} calls, of which {_CAPACITY} were kept")
        places = range(_RECORD.size, _RECORD.size * (calls + 1), _RECORD.size)
        return [_call(*_RECORD.unpack_from(m, place)) for place in places]


def _call(  # noqa: PLR0913, PLR0917 - the fields of a record
    time_ns: int, thread: int, kind: int, payload: int, domain: bytes, text: bytes, op: int
) -> Call:
    return Call(
        op=Op(op),
        domain=_text(domain),
        text=_text(text),
        payload=payload if kind in _INTEGERS else None,
        time_ns=time_ns,
        thread=thread,
    )


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode()


def ranges(calls: list[Call]) -> Iterator[Range]:
    """The ranges of all domains and threads in the order in which they were opened.

    Raises:
        ValueError: A range was closed that was not open, or one stayed open.
    """
    stacks: dict[tuple[str, int], list[tuple[int, Call]]] = {}
    done: dict[int, Range] = {}
    for index, call in enumerate(calls):
        stack = stacks.setdefault((call.domain, call.thread), [])
        if call.op is Op.PUSH:
            stack.append((index, call))
        elif call.op is Op.POP:
            if not stack:
                raise ValueError(f"call {index} closes a range of {call.domain!r}; none is open")
            path = tuple(opened.text for _, opened in stack)
            opened_at, opened = stack.pop()
            done[opened_at] = Range(
                path, opened.domain, opened.payload, opened.time_ns, call.time_ns
            )
    still_open = [call.text for stack in stacks.values() for _, call in stack]
    if still_open:
        raise ValueError(f"never closed: {still_open}")
    return (done[index] for index in sorted(done))
