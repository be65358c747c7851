"""A store stays bounded in time and size, slice by slice."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from spectrace.store.retention import Retention
from tests.helpers.stored import RUN_A, T0_NS, S, cycle_of, open_store, run_of
from tests.soak.test_retention import CYCLES_PER_S, Sample, simulate


class Held(msgspec.Struct):
    """A slice as retention sees it."""

    opened_ns: int
    newest_ns: int
    cycles_ns: int = 0
    bytes: int = 0
    cycles: int = 0


def test_slices_go_when_their_newest_cycle_is_too_old() -> None:
    """With 60 s kept and the newest cycle at 100 s, a slice that ends at 39 s goes, at 40 not."""
    retention = Retention.of(60, 1000)
    ends_s = (20, 39, 40, 100)
    slices = [Held(opened_ns=0, newest_ns=end_s * S, cycles_ns=end_s * S) for end_s in ends_s]
    assert retention.expired(slices) == slices[:2]


def test_cycles_are_as_old_as_the_newest_cycle_says() -> None:
    """Spans of others at 200 s push out other spans, and no cycle of the 60 s before 100 s."""
    cycles = [
        Held(opened_ns=0, newest_ns=end_s * S, cycles_ns=end_s * S) for end_s in (39, 40, 100)
    ]
    spans = [Held(opened_ns=0, newest_ns=end_s * S) for end_s in (120, 139, 140, 200)]
    assert Retention.of(60, 1000).expired(cycles + spans) == [*spans[:2], cycles[0]]


def test_for_the_size_slices_without_cycles_go_first() -> None:
    """Of 300 bytes each 1000 bytes hold three: with cycles and with spans by turns, these go."""
    slices = [Held(opened_ns=0, newest_ns=S, cycles_ns=S * (n % 2), bytes=300) for n in range(6)]
    assert Retention.of(60, 1000).expired(slices) == [slices[0], slices[2], slices[4]]
    assert Retention.of(60, 500).expired(slices) == [*slices[0::2], *slices[1:4:2]]


def test_the_oldest_slices_go_until_the_size_is_kept() -> None:
    """Of five slices of 300 bytes 1000 bytes hold three."""
    slices = [Held(opened_ns=n, newest_ns=S, cycles_ns=S, bytes=300) for n in range(5)]
    assert Retention.of(60, 1000).expired(slices) == slices[:2]


def test_the_slice_being_written_stays_whatever_its_size() -> None:
    """One slice alone is never dropped."""
    assert Retention.of(60, 10).expired([Held(opened_ns=0, newest_ns=S, bytes=300)]) == []


def test_a_slice_covers_a_tenth_of_the_kept_time() -> None:
    """With 60 s kept, the cycles before 6 s after its opening fit into a slice."""
    held = Held(opened_ns=100 * S, newest_ns=100 * S)
    times_ns = [101 * S, 106 * S - 1, 106 * S, 102 * S]
    assert Retention.of(60, 1000).fitting(held, times_ns) == 2


@pytest.mark.parametrize("kept", [(0, 1), (1, 0)])
def test_keeping_nothing_is_refused(kept: tuple[float, int]) -> None:
    """Neither no time nor no size makes a store."""
    with pytest.raises(ValueError, match="positive"):
        Retention.of(*kept)


def test_a_dropped_slice_leaves_no_file_and_its_cycles_are_gone(tmp_path: Path) -> None:
    """After 5 s of cycles with 1 s kept, only the last slices of 0.5 s are there."""
    with open_store(tmp_path, retain_s=1, slice_s=0.5) as store:
        store.put_run(run_of())
        store.add(cycle_of(number) for number in range(500))
        store.flush()
        files = sorted(path.name for path in tmp_path.glob("slice-*"))
        oldest = store.cycles(RUN_A, limit=500)[-1]
        assert store.cycle(RUN_A, "", 100) is None
        assert store.runs() == [run_of()]
    # The last cycle ends at 5 s: slices that end before 4 s go. Slices are opened every 0.5 s.
    assert {name.removesuffix(".wal") for name in files} == {
        f"slice-{number:08}.duckdb" for number in (7, 8, 9)
    }
    assert oldest.start_ns == T0_NS + 3.5 * S


def test_the_size_is_kept(tmp_path: Path) -> None:
    """However many cycles come, the files stay below the size that is allowed."""
    allowed = 4_000_000
    with open_store(tmp_path, max_bytes=allowed) as store:
        for begin in range(0, 10_000, 500):
            store.add(cycle_of(number) for number in range(begin, begin + 500))
            store.flush()
            assert store.stats().bytes <= allowed
        on_disk = sum(path.stat().st_size for path in tmp_path.glob("slice-*"))
        assert on_disk == store.stats().bytes
        assert store.cycles(RUN_A, limit=1) == [cycle_of(9999)]


def test_a_clock_that_runs_ahead_drops_nobody_elses_cycles(tmp_path: Path) -> None:
    """A cycle from the year 2100 counts as from now, so that cycles of a minute ago stay."""
    ahead = cycle_of(5, group="DP1", start_ns=4_102_444_800 * S)
    with open_store(tmp_path, retain_s=1e9, slice_s=1) as store:
        store.add([cycle_of(1)])
        store.add([ahead])
        assert store.cycles(RUN_A) == [cycle_of(1)]
        assert store.cycles(RUN_A, group="DP1") == [ahead]
    with open_store(tmp_path, retain_s=1e9, slice_s=1) as store:  # nor when it is opened again
        store.add([cycle_of(2)])
        assert store.cycles(RUN_A) == [cycle_of(2), cycle_of(1)]


def test_a_minute_of_cycles_holds_the_disk_flat(tmp_path: Path) -> None:
    """With 10 s kept, never more than 10 s, one slice and one batch of cycles are stored."""
    samples: list[Sample] = list(simulate(tmp_path, minutes=1, retain_s=10))
    most = (10 + 1 + 1) * CYCLES_PER_S
    assert [sample.minute for sample in samples] == [1]
    assert all(10 * CYCLES_PER_S <= sample.cycles <= most for sample in samples)
    assert all(sample.files <= 2 * 12 for sample in samples)
