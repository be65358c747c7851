"""Writes traces as the torch profiler does, of turns whose times are known by arithmetic.

Names and shapes are those of SGLang's releases: see `spectrace/importing/names.py`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

BASE_NS = 1_790_857_026_000_000_000
PID, TID = 4242, 4242
STREAM = 7
TURN_US = 20_000.0
# Begin and length in µs from the turn's begin.
RUN = (0.0, 17_000.0)
DRAFT = (200.0, 3_000.0)
STEPS = ((400.0, 600.0), (1_200.0, 600.0), (2_000.0, 600.0))
VERIFY = (3_200.0, 9_700.0)
FORWARD = (3_500.0, 8_000.0)
SAMPLE = (11_600.0, 700.0)
EXTEND = (13_000.0, 3_500.0)
COPY = (16_600.0, 100.0)
RESULT = (17_500.0, 1_500.0)


class TraceOf:
    """One file of one rank, filled by turns.

    Attributes:
        events: Its events; times in µs from `BASE_NS`.
        host: The machine that it names; none if empty.
    """

    def __init__(self, pid: int | str = PID) -> None:
        self.host = ""
        self.events: list[dict[str, Any]] = []
        self._pid = pid
        self._correlation = 0

    def slice(self, category: str, name: str, at: tuple[float, float], **args: Any) -> None:
        """A whole slice: begin and length in µs."""
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": self._pid,
                "tid": TID,
                "ts": at[0],
                "dur": at[1],
                "args": args,
            }
        )

    def annotation(self, name: str, at: tuple[float, float], **args: Any) -> None:
        """What `record_function` writes."""
        self.slice("user_annotation", name, at, **args)

    def function(self, place: str, at: tuple[float, float]) -> None:
        """A function of Python, as `with_stack` writes it: `path/file.py(line): name`."""
        self.slice("python_function", place, at)

    def launched(
        self,
        call_us: float,
        *kernels: tuple[str, float, float],
        call: str = "cudaLaunchKernel",
        stream: int = STREAM,
        category: str = "kernel",
    ) -> None:
        """A launch, and its kernels: name, begin and length in µs."""
        self._correlation += 1
        ids = {"correlation": self._correlation}
        self.slice("cuda_runtime", call, (call_us, 5.0), **ids)
        for name, start_us, length_us in kernels:
            args = {"device": 0, "stream": stream, **ids}
            self.events.append(
                {
                    "ph": "X",
                    "cat": category,
                    "name": name,
                    "pid": 0,
                    "tid": stream,
                    "ts": start_us,
                    "dur": length_us,
                    "args": args,
                }
            )

    def text(self) -> str:
        """The file as Kineto writes it: head first, a key to a line, the name of it at the end."""
        head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]}
        head |= {"displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS}
        head |= {"host_name": self.host} if self.host else {}
        lines = json.dumps(head, indent=2)[:-2]
        events = ",\n".join(json.dumps(event, indent=2) for event in self.events)
        return f'{lines},\n  "traceEvents": [\n{events}\n  ],"traceName": "/tmp/trace.json" }}'

    def write(self, path: Path) -> Path:
        """Writes it, compressed where the name ends so."""
        data = self.text().encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return path


def _at(turn_us: float, part: tuple[float, float]) -> tuple[float, float]:
    return turn_us + part[0], part[1]


def newest(trace: TraceOf, turn_us: float, batch: int) -> None:
    """A speculative turn of 0.5.23: the scheduler's ranges, `step[VERIFY …]`, `step[DRAFT …]`."""
    trace.annotation("scheduler.run_batch", _at(turn_us, RUN))
    trace.annotation("draft", _at(turn_us, DRAFT))
    for step in STEPS:
        trace.annotation(f"step[DRAFT bs={batch}]", _at(turn_us, step))
    trace.annotation(f"step[VERIFY bs={batch}]", _at(turn_us, FORWARD))
    trace.annotation("draft_extend", _at(turn_us, EXTEND))
    trace.annotation(f"step[DRAFT bs={batch}]", _at(turn_us, (13_500.0, 2_500.0)))
    trace.annotation("copy_result_to_cpu", _at(turn_us, COPY))
    trace.annotation("scheduler.process_batch_result", _at(turn_us, RESULT))


def worker_alone(trace: TraceOf, turn_us: float, batch: int) -> None:
    """A turn of whose scheduler nothing is there, with the names of 0.5.14: drafts decode."""
    trace.annotation("draft", _at(turn_us, DRAFT))
    for step in STEPS:
        trace.annotation(f"step[DECODE bs={batch}]", _at(turn_us, step))
    trace.annotation(f"step[TARGET_VERIFY bs={batch}]", _at(turn_us, FORWARD))
    trace.annotation("draft_extend", _at(turn_us, EXTEND))


def older(trace: TraceOf, turn_us: float, batch: int) -> None:
    """A turn of 0.5.14 to 0.5.18: ranges of the scheduler, none of its idling."""
    trace.annotation("scheduler.get_next_batch_to_run", _at(turn_us, (-300.0, 200.0)))
    trace.annotation("scheduler.run_batch", _at(turn_us, RUN))
    worker_alone(trace, turn_us, batch)
    trace.annotation("scheduler.process_batch_result", _at(turn_us, RESULT))


def with_stacks(trace: TraceOf, turn_us: float, batch: int) -> None:
    """A turn of 0.5.9's V1 worker, recorded with stacks: functions, and the target's step."""
    srt = "/usr/lib/python3/dist-packages/sglang/srt"
    worker = f"{srt}/speculative/eagle_worker.py"
    trace.function(f"{srt}/managers/scheduler.py(2010): run_batch", _at(turn_us, RUN))
    trace.function(f"{worker}(283): forward_batch_generation", _at(turn_us, (200.0, 16_400.0)))
    trace.function(f"{worker}(512): draft", _at(turn_us, DRAFT))
    for step in STEPS:
        trace.annotation(f"step[DECODE bs={batch}]", _at(turn_us, step))
    trace.function(f"{worker}(690): verify", _at(turn_us, VERIFY))
    trace.function(
        f"{srt}/managers/tp_worker.py(300): forward_batch_generation", _at(turn_us, FORWARD)
    )
    inner = (FORWARD[0] + 100.0, FORWARD[1] - 200.0)
    trace.annotation(f"step[TARGET_VERIFY bs={batch}]", _at(turn_us, inner))
    trace.function(f"{srt}/speculative/eagle_info.py(250): verify", _at(turn_us, SAMPLE))
    trace.function(f"{worker}(900): forward_draft_extend_after_decode", _at(turn_us, EXTEND))
    trace.function(f"{srt}/managers/scheduler.py(2100): process_batch_result", _at(turn_us, RESULT))


Release = Callable[[TraceOf, float, int], None]


def turns(release: Release, count: int, *, batch: int = 4, begin_us: float = 1000.0) -> TraceOf:
    """A trace of so many turns, one right after the other."""
    trace = TraceOf()
    for place in range(count):
        release(trace, begin_us + place * TURN_US, batch)
    return trace
