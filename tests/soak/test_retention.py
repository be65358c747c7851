"""An hour of cycles, in simulated time, holds the memory and the disk of a store flat."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

from spectrace.store.store import CycleStore
from tests.helpers.stored import RUN_A, cycle_of, run_of

CYCLES_PER_S = 100
_MIB = 1 << 20


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What a store holds at the end of a simulated minute.

    Attributes:
        minute: Which minute, from 1.
        cycles: Cycles that can be read.
        disk_bytes: Size of all its files.
        files: How many files there are.
        rss_bytes: Memory of this process.
    """

    minute: int
    cycles: int
    disk_bytes: int
    files: int
    rss_bytes: int


def simulate(directory: Path, *, minutes: int, retain_s: float) -> Iterator[Sample]:
    """Adds 100 cycles for every simulated second, and tells what is there every minute."""
    store = CycleStore(directory, retain_s=retain_s, max_bytes=1 << 30)
    store.put_run(run_of())
    process = psutil.Process()
    for minute in range(1, minutes + 1):
        for second in range((minute - 1) * 60, minute * 60):
            first = second * CYCLES_PER_S
            store.add(cycle_of(number) for number in range(first, first + CYCLES_PER_S))
            store.flush()
        sizes = [path.stat().st_size for path in directory.iterdir()]
        yield Sample(
            minute=minute,
            cycles=store.stats(RUN_A).cycles,
            disk_bytes=sum(sizes),
            files=len(sizes),
            rss_bytes=process.memory_info().rss,
        )
    store.close()


def test_an_hour_holds_memory_and_disk_flat(tmp_path: Path) -> None:
    """From the fifth minute on neither disk nor memory grows, with 60 s kept."""
    samples = list(simulate(tmp_path, minutes=60, retain_s=60))
    for sample in samples[:5] + samples[9::10]:
        sys.stdout.write(
            f"minute {sample.minute}: {sample.cycles} cycles, {sample.files} files, "
            f"{sample.disk_bytes / _MIB:.1f} MiB on disk, {sample.rss_bytes / _MIB:.0f} MiB RSS\n"
        )
    settled = samples[4:]
    disk = [sample.disk_bytes for sample in settled]
    assert all(6000 <= sample.cycles <= 6700 for sample in settled)
    assert max(disk) <= 1.2 * min(disk)
    assert max(sample.rss_bytes for sample in settled) <= settled[0].rss_bytes + 16 * _MIB
