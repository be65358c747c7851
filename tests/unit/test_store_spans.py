"""Spans of others are kept in the store beside the cycles: once each, and as long as these."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from msgspec.structs import replace

from spectrace.errors import SpectraceError
from spectrace.model import OtherSpan
from spectrace.store import store as store_module
from spectrace.store.extract import Extract
from spectrace.store.recording import open_recording
from tests.helpers.recorded import other_span, record
from tests.helpers.stored import RUN_A, T0_NS, S, cycle_of, open_store, run_of

MANY = 1000


def span_at(number: int) -> OtherSpan:
    """A span of 10 ms; number N begins N * 10 ms after `T0_NS`, as cycle N does."""
    start_ns = T0_NS + number * S // 100
    return other_span(number, trace=number, start_ns=start_ns, end_ns=start_ns + S // 100)


def read(path: Path) -> list[OtherSpan]:
    """The spans of a file, or of the store that was left in a folder."""
    with closing(open_recording(path)) as recording:
        return recording.other_spans(MANY)


def test_spans_are_read_back_live_saved_and_left_behind(tmp_path: Path) -> None:
    """With all that they say, in the order in which they came, though no cycle ever did."""
    spans = [other_span(2, parent=1, failed=True), other_span(1, request_id="rid", service="")]
    with open_store(tmp_path / "store") as store:
        store.add_spans(spans)
        assert store.other_spans(MANY) == spans
        store.save(tmp_path / "saved.spectrace")
    assert read(tmp_path / "saved.spectrace") == read(tmp_path / "store") == spans


def test_a_span_that_comes_again_counts_once_and_as_it_was_first(tmp_path: Path) -> None:
    """Also in another slice, and from another owner of the store, which goes on counting."""
    with open_store(tmp_path / "store") as store:
        store.add_spans([other_span(1), other_span(2)])
    with open_store(tmp_path / "store") as store:
        store.add_spans([other_span(1, name="again"), other_span(3)])
        assert store.other_spans(MANY) == [other_span(1), other_span(2), other_span(3)]
        store.save(tmp_path / "saved.spectrace")
    assert len(list((tmp_path / "store").glob("slice-*.duckdb"))) == 2
    assert read(tmp_path / "saved.spectrace") == [other_span(1), other_span(2), other_span(3)]
    with closing(Extract(tmp_path / "store")) as extract:
        names = extract.table("spans").read_all()["name"].to_pylist()
        assert extract.rows("spans") == 3
    assert names == ["span 1", "span 2", "span 3"]


def test_the_newest_spans_are_those_that_came_last(tmp_path: Path) -> None:
    """Across slices, whatever their own times are."""
    with open_store(tmp_path, slice_s=1) as store:
        store.add_spans(span_at(number) for number in range(250))
        store.add_spans([span_at(999), span_at(500)])
        assert store.other_spans(4) == [span_at(248), span_at(249), span_at(999), span_at(500)]
        assert len(list(tmp_path.glob("slice-*.duckdb"))) > 2


def test_spans_go_with_the_slices_of_their_time(tmp_path: Path) -> None:
    """With 1 s kept, of 5 s of cycles and spans together the last ones of both are left."""
    with open_store(tmp_path, retain_s=1, slice_s=0.5) as store:
        store.put_run(run_of())
        for number in range(0, 500, 10):
            store.add(cycle_of(each) for each in range(number, number + 10))
            store.add_spans(span_at(each) for each in range(number, number + 10))
            store.flush()
        cycles = [cycle.number for cycle in reversed(store.cycles(RUN_A, limit=500))]
        spans = [int(span.span_id, 16) for span in store.other_spans(MANY)]
    assert cycles[-1] == spans[-1] == 499
    assert 300 <= spans[0] <= 400
    assert abs(spans[0] - cycles[0]) <= 10


def test_spans_of_a_later_time_push_no_cycle_out(tmp_path: Path) -> None:
    """With 1 s kept: 5 s of spans after a second of cycles leave all of these, and their last."""
    with open_store(tmp_path, retain_s=1, slice_s=0.5) as store:
        store.put_run(run_of())
        store.add(map(cycle_of, range(100)))
        store.flush()
        for number in range(100, 600, 50):
            store.add_spans(span_at(each) for each in range(number, number + 50))
            store.flush()
        assert len(store.cycles(RUN_A, limit=500)) == 100
        spans = [int(span.span_id, 16) for span in store.other_spans(MANY)]
        assert spans[-1] == 599
        assert 400 <= spans[0] <= 500
        store.add(map(cycle_of, range(600, 610)))  # which ends 5.1 s behind the first ones
        store.flush()
        assert [cycle.number for cycle in store.cycles(RUN_A, limit=500)][-1] == 600


def test_traces_are_read_page_by_page(tmp_path: Path) -> None:
    """By the starts of their first spans, across slices, each once and with all that is known."""
    with open_store(tmp_path, slice_s=0.05) as store:
        for number in range(25):
            inner = replace(span_at(number), span_id=f"{1000 + number:016x}", failed=number == 7)
            store.add_spans([span_at(number), inner])
        store.add_spans([span_at(3)])  # again
        store.flush()
        assert len(list(tmp_path.glob("slice-*.duckdb"))) > 2
        store.save(tmp_path / "saved.spectrace")
    with closing(open_recording(tmp_path / "saved.spectrace")) as recording:
        pages, before = [], None
        while page := recording.other_traces(before, 10, 200):
            pages.append([int(trace.trace_id, 16) for trace in page])
            before = page[-1].key
            assert all(trace.count == len(trace.spans) == 2 for trace in page)
            assert all(trace.failed == (trace.trace_id == f"{7:032x}") for trace in page)
    assert pages == [list(range(24, 14, -1)), list(range(14, 4, -1)), list(range(4, -1, -1))]


def test_of_a_long_trace_the_topmost_span_and_the_first_are_read(tmp_path: Path) -> None:
    """The topmost ends last, and so it comes last; the sums are those of all."""
    end_ns = T0_NS + 4 * S
    parts = [replace(span_at(n), trace_id=f"{5:032x}", parent_id=f"{999:016x}") for n in range(300)]
    with open_store(tmp_path) as store:
        store.add_spans([*parts, other_span(999, trace=5, start_ns=T0_NS, end_ns=end_ns)])
        [trace] = store.other_traces(None, 10, 3)
    assert [int(span.span_id, 16) for span in trace.spans] == [0, 1, 999]
    assert (trace.count, trace.first_ns, trace.last_ns) == (301, T0_NS, end_ns)


def test_a_file_that_somebody_made_up_is_not_read_whole(tmp_path: Path) -> None:
    """All spans at one place, texts beyond measure, and holes: no more is read than was asked."""
    path = record(tmp_path / "made-up.spectrace", [cycle_of(1)], run_of(), [other_span(1)])
    with duckdb.connect(str(path)) as made_up:
        made_up.execute(
            "INSERT INTO spans SELECT 7, printf('%032x', i), printf('%016x', i), '', "
            "repeat('x', 10000), NULL, i, i, NULL, NULL FROM range(1, 2001) AS r(i)"
        )
        made_up.execute(
            "INSERT INTO spans SELECT 7, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
            "NULL, NULL FROM range(10)"
        )
    with closing(open_recording(path)) as recording:
        spans = recording.other_spans(100)
        assert 0 < len(spans) <= 100
        assert max(len(span.service) for span in spans) == 256
        traces = recording.other_traces(None, 50, 200)
        assert [trace.first_ns for trace in traces] == list(range(2000, 1950, -1))


def test_spans_alone_hold_the_disk_flat(tmp_path: Path) -> None:
    """Where no cycle comes, spans cut the time into slices, by which they are forgotten."""
    with open_store(tmp_path, retain_s=1, slice_s=0.5) as store:
        store.add_spans(span_at(number) for number in range(500))
        store.flush()
        assert len(list(tmp_path.glob("slice-*.duckdb"))) <= 4
        assert [span.span_id for span in store.other_spans(MANY)][-1] == f"{499:016x}"
        assert len(store.other_spans(MANY)) <= 150


def test_a_slice_of_spans_alone_outlives_its_owner(tmp_path: Path) -> None:
    """The next owner knows its age."""
    with open_store(tmp_path, retain_s=10) as store:
        store.add_spans([span_at(1)])
    with open_store(tmp_path, retain_s=10) as store:
        store.add([cycle_of(100)])
        assert store.other_spans(MANY) == [span_at(1)]
        store.add([cycle_of(2000)])
        assert store.other_spans(MANY) == []


def test_a_span_that_no_database_holds_does_not_take_others_with_it(tmp_path: Path) -> None:
    """A time beyond 64 bits and a lone surrogate are counted as lost; their neighbours stay."""
    bad = [other_span(2, start_ns=1 << 63), other_span(3, name="\ud800")]
    with open_store(tmp_path) as store:
        store.add_spans([other_span(1), *bad, other_span(4)])
        assert store.other_spans(MANY) == [other_span(1), other_span(4)]
        assert (store.lost_spans, store.stats().lost_spans, store.stats().lost) == (2, 2, 0)


def test_spans_for_which_there_is_no_room_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten that come at once three can wait."""
    monkeypatch.setattr(store_module, "_PENDING_SPANS", 3)
    with open_store(tmp_path) as store:
        store.add_spans(map(other_span, range(10)))
        assert len(store.other_spans(MANY)) == 3
        assert store.lost_spans == 7


def test_spans_that_cannot_be_written_are_counted_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk; what comes afterwards is stored."""

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with open_store(tmp_path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(store._writer._database, "insert", fail)
            store.add_spans([other_span(1)])
            with pytest.raises(SpectraceError, match="make room"):
                store.flush()
        store.add_spans([other_span(2)])
        store.flush()
        assert store.other_spans(MANY) == [other_span(2)]
        assert store.stats().lost_spans == 1


def test_a_file_of_version_three_has_no_spans(tmp_path: Path) -> None:
    """It is one without their table; a file of this version without it is none of ours."""
    path = record(tmp_path / "old.spectrace", [cycle_of(1)], run_of(), [other_span(1)])
    duckdb.connect(str(path)).execute("DROP TABLE spans").close()
    with pytest.raises(SpectraceError, match="not those of spectrace"):
        open_recording(path)
    duckdb.connect(str(path)).execute("UPDATE format SET version = 3").close()
    assert read(path) == []
    with closing(Extract(path)) as extract:
        assert (extract.count, extract.rows("spans")) == (1, 0)


def test_a_sample_of_a_recording_has_the_spans_of_its_time(tmp_path: Path) -> None:
    """Of 100 cycles with a span each the first ten have ten."""
    spans = [span_at(number) for number in range(100)]
    path = record(tmp_path / "run.spectrace", map(cycle_of, range(100)), run_of(), spans)
    with closing(Extract(path, limit=10)) as extract:
        assert (extract.count, extract.rows("spans")) == (10, 10)
