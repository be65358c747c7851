"""A part of a store becomes a recording of its own: a run, or what lies in a stretch of time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from spectrace.errors import SpectraceError
from spectrace.store.cutting import Cutting
from spectrace.store.extract import Extract
from spectrace.store.recording import open_recording
from spectrace.store.source import Cut, CycleSource
from spectrace.store.store import CycleStore
from tests.helpers.recorded import CYCLE_NS, T0_NS, cycle_of, other_span, run_of

RUN = run_of().run_id
OTHER = "fedcba9876543210" * 2


def start_ns(number: int) -> int:
    """When a cycle begins; it ends `CYCLE_NS` later, on the second rank 1 ns after the first."""
    return T0_NS + number * CYCLE_NS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CycleStore]:
    """Cycles 0 to 99 of a run in several slices, 40 of them amended, and 3 of another run."""
    with closing(
        CycleStore(tmp_path / "store", retain_s=1e9, max_bytes=10**9, slice_s=0.25)
    ) as kept:
        kept.put_run(run_of())
        kept.put_run(msgspec.structs.replace(run_of(), run_id=OTHER))
        for first in range(0, 100, 10):
            kept.add(cycle_of(number, ranks=2) for number in range(first, first + 10))
            kept.flush()
        kept.add(msgspec.structs.replace(cycle_of(n, ranks=2), running=7) for n in range(40))
        kept.add(msgspec.structs.replace(cycle_of(n), run_id=OTHER) for n in range(3))
        yield kept


def cut_of(source: CycleSource, cut: Cut) -> list[tuple[str, int, int | None]]:
    """Run, number and what amending added of each cycle in what was cut out, as they began."""
    with (
        source.cut(cut, "part.spectrace", lambda _: None) as path,
        closing(Extract(path)) as extract,
    ):
        assert [run.run_id for run in extract.runs] == [cut.run_id]
        return [(cycle.run_id, cycle.number, cycle.running) for cycle in extract.cycles()]


def test_a_run_is_cut_out_whole_in_its_newest_version(store: CycleStore) -> None:
    """Every cycle once, those of the other run not."""
    whole = [(RUN, number, 7 if number < 40 else None) for number in range(100)]
    assert cut_of(store, Cut(run_id=RUN)) == whole
    assert [n for _, n, _ in cut_of(store, Cut(run_id=OTHER))] == [0, 1, 2]


def test_a_saved_file_gives_what_its_store_gave(store: CycleStore, tmp_path: Path) -> None:
    """Nothing is written beside the file, which may lie where nobody may write."""
    cut = Cut(run_id=RUN, first_ns=start_ns(30), last_ns=start_ns(50))
    expected = cut_of(store, cut)
    (tmp_path / "saved").mkdir()
    saved = tmp_path / "saved/run.spectrace"
    store.save(saved)
    with closing(open_recording(saved)) as recording:
        assert cut_of(recording, cut) == expected
        assert list(saved.parent.iterdir()) == [saved]


@pytest.mark.parametrize(
    ("first", "last", "numbers"),
    [
        (start_ns(30), start_ns(50), range(30, 50)),  # cycle 29 ends there, but for rank 1
        (start_ns(30) + 2, start_ns(50), range(30, 50)),
        (start_ns(30) + 2, start_ns(50) + 1, range(30, 51)),
        (start_ns(97), None, range(97, 100)),
        (None, start_ns(3), range(3)),
    ],
)
def test_what_lies_in_a_stretch_is_cut_out(
    store: CycleStore, first: int | None, last: int | None, numbers: range
) -> None:
    """Cycles that have time in common with it; one that only touches it does not."""
    found = cut_of(store, Cut(run_id=RUN, first_ns=first, last_ns=last))
    assert {n for _, n, _ in found} - {29} == set(numbers)


def test_spans_of_others_go_with_the_time(store: CycleStore) -> None:
    """One that ends before the run's first cycle stays behind; one of its time is taken once."""
    store.add_spans(
        other_span(n, start_ns=start_ns(n), end_ns=start_ns(n) + 1) for n in (-9, 5, 5, 70)
    )
    cuts = {
        Cut(run_id=RUN): 2,
        Cut(run_id=RUN, last_ns=start_ns(60)): 1,
        Cut(run_id=RUN, first_ns=start_ns(80)): 0,
    }
    for cut, count in cuts.items():
        with (
            store.cut(cut, "part", lambda _: None) as path,
            closing(Extract(path)) as extract,
        ):
            assert extract.rows("spans") == count


@pytest.mark.parametrize(
    "cut",
    [Cut(run_id="nobody"), Cut(run_id=RUN, first_ns=start_ns(101)), Cut(run_id="", last_ns=1)],
)
def test_where_nothing_lies_nothing_is_made(store: CycleStore, tmp_path: Path, cut: Cut) -> None:
    """It is said in a sentence, nothing is left, and the store goes on."""
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SpectraceError, match="No stored cycle"):
        cut_of(store, cut)
    assert sorted(tmp_path.rglob("*")) == before
    assert len(cut_of(store, Cut(run_id=RUN))) == 100


def test_the_store_writes_between_stretches_and_an_end_is_an_end(
    store: CycleStore, tmp_path: Path
) -> None:
    """What comes meanwhile is stored, not in what is cut; who checks may end it at any stretch."""
    seen: list[int] = []

    def check(path: Path) -> None:
        assert path.parent == tmp_path / "store"
        number = 100 + len(seen)
        store.add([cycle_of(number, ranks=2)])
        seen.append(store.stats(RUN).cycles)
        if len(seen) == 8:
            raise SpectraceError("enough")

    cutting = Cutting(store._ask, store._shelf, Cut(run_id=RUN), stretch=10)
    with pytest.raises(SpectraceError, match="enough"):
        cutting.write(tmp_path / "store/part", check)
    assert seen == list(range(seen[0], seen[0] + 8))
    with closing(Extract(tmp_path / "store/part")) as extract:
        numbers = {cycle.number for cycle in extract.cycles()}
    assert numbers < set(range(100))
    assert len(cut_of(store, Cut(run_id=RUN))) == 108
