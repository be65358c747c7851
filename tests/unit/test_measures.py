"""What is read from a store for the statistics of a run: exact counts, and windows in full."""

from __future__ import annotations

import itertools
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pytest
from msgspec.structs import replace

from spectrace.chosen import Choice
from spectrace.errors import SpectraceError
from spectrace.measures import KINDS, MODES, NONE, WARM_UP_CYCLES, Measures
from spectrace.model import Cycle, CycleKind, Lane, PhaseName, RequestRow, TimingMode
from spectrace.store import counting, measure
from spectrace.store.measured import measure_recording
from spectrace.store.recording import open_recording
from spectrace.store.store import CycleStore
from spectrace.store.windows import WINDOW, plan
from tests.helpers import long_recording
from tests.helpers.recorded import CYCLE_NS, cycle_of, record, run_of

FIRST = 50
SPECULATIVE = KINDS.index(CycleKind.SPECULATIVE)


def with_rows(number: int, *rows: RequestRow) -> Cycle:
    """A cycle with these rows."""
    return replace(cycle_of(number, 2), requests=rows)


def row(
    correct: int | None, tokens: int, *, overshoot: bool = False, health_check: bool = False
) -> RequestRow:
    """What a request got."""
    return RequestRow(
        request_id="r",
        correct_drafts=correct,
        output_tokens=tokens,
        overshoot=overshoot,
        health_check=health_check,
    )


def measured(path: Path, cycles: list[Cycle]) -> Measures:
    """What is read from a recording of these cycles behind ten of warm-up."""
    warm = [cycle_of(number, 2) for number in range(FIRST - WARM_UP_CYCLES, FIRST)]
    return measure_recording(record(path / "run.spectrace", [*warm, *cycles]))


def rows_of(found: Measures) -> dict[tuple[int, int], int]:
    """How many rows there are by correct drafts and delivered tokens."""
    counts = found.row_counts
    pairs = zip(counts["correct"].tolist(), counts["delivered"].tolist(), strict=True)
    sums: dict[tuple[int, int], int] = {}
    for pair, rows in zip(pairs, counts["rows"].tolist(), strict=True):
        sums[pair] = sums.get(pair, 0) + rows
    return sums


def test_rows_count_by_what_was_correct_and_what_was_delivered(tmp_path: Path) -> None:
    """Overshoot and health checks are counted apart, warm-up is in nothing."""
    found = measured(
        tmp_path,
        [
            with_rows(FIRST, row(3, 4), row(3, 4)),
            with_rows(FIRST + 1, row(5, 2), row(0, 1)),  # the first one is cut
            with_rows(FIRST + 2, row(4, 0, overshoot=True), row(1, 2, health_check=True)),
        ],
    )
    assert rows_of(found) == {(3, 4): 2, (5, 2): 1, (0, 1): 1}
    assert found.left_out.overshoot_rows == 1
    assert found.left_out.health_check_rows == 1
    assert found.left_out.warm_up_cycles == WARM_UP_CYCLES
    assert found.total_cycles == 3


def test_overshoot_is_counted_where_it_took_time(tmp_path: Path) -> None:
    """Of three rows two are in a cycle whose time counts; the last one's server then idled."""
    late = row(4, 0, overshoot=True)
    idle = with_rows(FIRST + 1, late)
    idle = replace(idle, ranks=(replace(idle.ranks[0], ended_idle=True), *idle.ranks[1:]))
    counts = measured(tmp_path, [with_rows(FIRST, late, late, row(1, 2)), idle]).overshoot_counts
    assert counts["rows"].tolist() == [2]
    like = [counts[name].tolist() for name in ("kind", "steps", "topk", "draft_tokens", "batch")]
    assert like == [[SPECULATIVE], [5], [1], [6], [2]]


def test_cycles_may_have_the_lowest_and_the_highest_number(tmp_path: Path) -> None:
    """Twelve of the lowest and the last of 64 bits: one block holds all of them."""
    numbers = [*range(WARM_UP_CYCLES + 2), (1 << 63) - 1]
    cycles = [replace(cycle_of(n % 100, 1), number=n) for n in numbers]
    found = measure_recording(record(tmp_path / "run.spectrace", cycles, run_of(1)))
    assert found.total_cycles == 3
    assert found.cycles["number"].tolist() == numbers[WARM_UP_CYCLES:]


def test_cycles_count_by_what_they_have_in_common(tmp_path: Path) -> None:
    """Kinds, steps, batch sizes and modes are told apart; times are those of the first rank."""
    plain = replace(cycle_of(FIRST + 1, 2), kind=CycleKind.DECODE, steps=0, topk=0, draft_tokens=0)
    sync = cycle_of(FIRST + 2, 2)
    sync = replace(sync, ranks=tuple(replace(rank, mode=TimingMode.SYNC) for rank in sync.ranks))
    larger = replace(cycle_of(FIRST + 3, 2), batch_size=7)
    idle = cycle_of(FIRST + 4, 2)
    idle = replace(idle, ranks=(replace(idle.ranks[0], ended_idle=True), *idle.ranks[1:]))
    found = measured(tmp_path, [cycle_of(FIRST, 2), plain, sync, larger, idle]).cycle_counts
    assert set(
        zip(
            *(found[key].tolist() for key in ("kind", "steps", "batch", "mode", "timed", "cycles")),
            strict=True,
        )
    ) == {
        (SPECULATIVE, 5, 2, MODES.index(TimingMode.DEVICE), True, 1),
        (KINDS.index(CycleKind.DECODE), 0, 2, MODES.index(TimingMode.DEVICE), True, 1),
        (SPECULATIVE, 5, 2, MODES.index(TimingMode.SYNC), True, 1),
        (SPECULATIVE, 5, 7, MODES.index(TimingMode.DEVICE), True, 1),
        (SPECULATIVE, 5, 2, MODES.index(TimingMode.DEVICE), False, 1),
    }
    assert found["total_ns"].tolist() == [CYCLE_NS] * 5


def test_an_amended_cycle_counts_once_as_it_is_now(tmp_path: Path) -> None:
    """The same at once, later, and in another slice; in the counts and in the sample."""
    cycles = [with_rows(number, row(2, 3)) for number in range(FIRST - 10, FIRST + 60)]
    better = [with_rows(number, row(4, 5)) for number in range(FIRST, FIRST + 60, 3)]
    with closing(CycleStore(tmp_path / "store", retain_s=1e9, max_bytes=1 << 30)) as store:
        store.put_run(run_of(2))
        store.add(cycles)
        store.flush()
        store.add(better)
        live = store.measure(run_of().run_id)
    left = measure_recording(tmp_path / "store")
    for found in (live, left):
        assert rows_of(found) == {(2, 3): 40, (4, 5): 20}
        assert found.total_cycles == 60
        assert found.cycles["number"].tolist() == list(range(FIRST, FIRST + 60))
        assert sorted(found.rows["correct"].tolist()) == [2] * 40 + [4] * 20


def test_it_makes_no_difference_how_many_are_counted_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids of two groups and of amended cycles by sevens, and requests by a few: the same counts."""
    amended = [with_rows(number, row(4, 5)) for number in range(FIRST, FIRST + 60, 3)]
    cycles = [
        replace(cycle, group=group)
        for cycles in ([with_rows(n, row(2, 3)) for n in range(FIRST - 10, FIRST + 60)], amended)
        for cycle in cycles
        for group in ("DP0", "DP1")
    ]
    monkeypatch.setattr(counting, "_CHUNK", 7)
    monkeypatch.setattr(counting, "_ROWS", 3)
    with closing(CycleStore(tmp_path / "store", retain_s=1e9, max_bytes=1 << 30)) as store:
        store.put_run(run_of(2))
        store.add(cycles)
        found = store.measure(run_of().run_id)
    assert rows_of(found) == {(2, 3): 2 * 40, (4, 5): 2 * 20}
    counts = found.cycle_counts
    for group in (0, 1):
        here = counts["group"] == group
        assert counts["cycles"][here].sum() == 60
        assert counts["total_ns"][here].sum() == 60 * CYCLE_NS
        assert (counts["first_n"][here].min(), counts["last_n"][here].max()) == (FIRST, FIRST + 59)


def test_a_sampled_cycle_has_all_of_its_ranks_and_phases(tmp_path: Path) -> None:
    """Phases by lane and rank; a parent is the sum of its parts."""
    found = measured(tmp_path, [cycle_of(FIRST + number, 2) for number in range(5)])
    assert len(found.ranks["cycle"]) == 10
    assert found.rank_names == ("TP0", "TP1")
    assert found.cycles["start_ns"][0] == cycle_of(FIRST).start_ns
    part_ms = CYCLE_NS // 8 / 1e6
    assert found.phase_ms(Lane.HOST, PhaseName.VERIFY) == pytest.approx([4 * part_ms] * 5)
    assert found.phase_ms(Lane.HOST, PhaseName.VERIFY_SAMPLE) == pytest.approx([part_ms] * 5)
    assert found.phase_ms(Lane.DEVICE, PhaseName.DRAFT) == pytest.approx([2.999999] * 5)
    assert np.isnan(found.phase_ms(Lane.HOST, PhaseName.WAIT)).all()
    assert found.cycles["queued"].tolist() == [1] * 5
    assert found.cycles["context_sum"].tolist() == [NONE] * 5
    assert found.cycles["graph"].tolist() == [1] * 5


def test_groups_have_numbers_of_their_own(tmp_path: Path) -> None:
    """Two replicas count the same numbers, and each has a warm-up."""
    cycles = [
        replace(cycle_of(number, 1), group=group)
        for number in range(FIRST, FIRST + 40)
        for group in ("DP0", "DP1")
    ]
    found = measure_recording(record(tmp_path / "run.spectrace", cycles))
    assert found.groups == ("DP0", "DP1")
    assert found.total_cycles == 2 * (40 - WARM_UP_CYCLES)
    assert found.left_out.warm_up_cycles == 2 * WARM_UP_CYCLES


@pytest.mark.parametrize("cycles", [0, WARM_UP_CYCLES])
def test_a_run_without_cycles_has_nothing_to_say(tmp_path: Path, cycles: int) -> None:
    """Or with none but warm-up; it says so."""
    with pytest.raises(SpectraceError, match="no cycles"):
        measure_recording(record(tmp_path / "run.spectrace", map(cycle_of, range(cycles))))


def test_numbers_may_be_as_far_apart_as_a_sender_likes(tmp_path: Path) -> None:
    """Memory goes by the cycles that there are."""
    far = [replace(cycle_of(FIRST, 1), number=(1 << 62) + number) for number in (0, 1, 1)]
    found = measured(tmp_path, [cycle_of(FIRST, 1), *far])
    assert found.total_cycles == 3


def test_ids_may_be_as_far_apart_as_a_file_likes(tmp_path: Path) -> None:
    """What is counted goes by the cycles that there are, and not by the holes between them."""
    found = measured(tmp_path, [with_rows(number, row(2, 3)) for number in range(FIRST, FIRST + 9)])
    path = tmp_path / "run.spectrace"
    with duckdb.connect(path) as file:
        for table in ("cycles", "ranks", "phases", "requests"):
            far = "(id % 2 - id % 3) * (1::BIGINT << 61)"
            file.execute(f"UPDATE {table} SET id = id + {far}")  # noqa: S608 - our own names
    apart = measure_recording(path)
    assert rows_of(apart) == rows_of(found) == {(2, 3): 9}
    assert apart.total_cycles == found.total_cycles == 9
    with closing(open_recording(path)) as recording:
        chosen = recording.chosen(Choice(run_id=run_of().run_id))
    assert chosen.cycles["number"].tolist() == list(range(FIRST, FIRST + 9))


def test_cycles_without_results_have_times_alone(tmp_path: Path) -> None:
    """They are counted, since acceptance knows nothing of them."""
    unknown = [replace(cycle_of(FIRST + n, 1), requests=None) for n in range(3)]
    found = measured(tmp_path, unknown)
    assert found.left_out.unknown_cycles == 3
    assert found.total_cycles == 3
    assert not len(found.row_counts["rows"])


def test_a_long_run_is_sampled_where_each_kind_of_cycle_is(tmp_path: Path) -> None:
    """All counts are exact; windows lie over the whole run, and in the rare stretches too."""
    long_recording.make(tmp_path / "store", 100_000, slices=3)
    found = measure_recording(tmp_path / "store", sample=20_000)
    assert found.total_cycles == 100_000 - WARM_UP_CYCLES
    plain = found.cycle_counts["kind"] == KINDS.index(CycleKind.DECODE)
    assert found.cycle_counts["cycles"][plain].sum() == 5_000
    assert found.row_counts["rows"].sum() == 150_000 - WARM_UP_CYCLES
    sampled = found.cycles
    assert len(sampled["number"]) <= 20_000
    assert (sampled["kind"] == KINDS.index(CycleKind.DECODE)).sum() >= WINDOW
    assert (sampled["steps"] == 2).sum() >= WINDOW
    thirds = np.histogram(sampled["number"], bins=3)[0]
    assert thirds.min() >= WINDOW
    within = np.diff(sampled["number"])[np.diff(sampled["window"]) == 0]
    assert (within == 1).all()


def test_of_large_batches_fewer_cycles_are_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two requests a cycle, rounded up: 4,000 rows are 2,000 cycles. Counts are exact."""
    long_recording.make(tmp_path / "store", 10_000, slices=1)
    monkeypatch.setattr(measure, "_REQUEST_ROWS", 4_000)
    found = measure_recording(tmp_path / "store")
    assert 1_000 <= len(found.cycles["number"]) <= 2_000
    assert found.row_counts["rows"].sum() == 15_000 - WARM_UP_CYCLES
    ids = [found.request_ids[place] for place in found.rows["request"][:3]]
    assert found.request_ids == tuple(sorted(found.request_ids))
    assert set(ids) <= set(found.request_ids)


def test_windows_do_not_overlap_and_keep_to_the_sample() -> None:
    """Also where two kinds of cycles alternate in every block."""
    blocks = np.arange(200)
    counts = {
        "group": np.zeros(400, dtype=np.int64),
        "block": np.tile(blocks, 2),
        "kind": np.repeat([0, 1], 200),
        "steps": np.repeat([5, 0], 200),
        "draft_tokens": np.repeat([6, 0], 200),
        "batch": np.ones(400, dtype=np.int64),
        "cycles": np.repeat([990, 10], 200),
        "first_n": np.tile(blocks * 1000, 2),
        "last_n": np.tile(blocks * 1000 + 999, 2),
    }
    windows = plan(counts, 20_000)
    assert sum(window.last_n - window.first_n + 1 for window in windows) <= 20_000
    assert all(one.last_n < other.first_n for one, other in itertools.pairwise(windows))


def test_cycles_with_impossible_times_are_in_nothing(tmp_path: Path) -> None:
    """One that takes no time, and one that ends before it begins; the others stay."""
    wrong = []
    for number, took_ns in ((FIRST + 1, 0), (FIRST + 2, -5)):
        cycle = cycle_of(number, 1)
        [rank] = cycle.ranks
        end_ns = rank.start_ns + took_ns
        wrong.append(replace(cycle, ranks=(replace(rank, end_ns=end_ns, phases=()),)))
    found = measured(tmp_path, [cycle_of(FIRST, 1), *wrong, cycle_of(FIRST + 3, 1)])
    assert found.total_cycles == 2
    assert found.row_counts["rows"].sum() == 4
    assert found.cycles["number"].tolist() == [FIRST, FIRST + 3]


@pytest.mark.parametrize(
    ("numbers", "sampled"),
    [
        ([*range(FIRST, 1050)], False),
        ([*range(FIRST, 5000, 10)], True),
        ([*range(FIRST, 1050), *range(1050, 3050, 10)], True),
        ([*range(FIRST, 3050, 1000), *range(3050, 4050)], True),
        ([number for number in range(FIRST, 1050) if number % 50], False),
        ([*range(FIRST, 550), *range(5550, 6050)], False),
    ],
    ids=["all", "sampled", "then sampled", "sampled before", "some lost", "not traced between"],
)
def test_it_is_known_whether_sampling_left_cycles_out(
    tmp_path: Path, numbers: list[int], sampled: bool
) -> None:
    """Also in a part of a run; neither what was lost nor a time without a tracer is that."""
    assert measured(tmp_path, [cycle_of(number, 2) for number in numbers]).is_sampled is sampled
