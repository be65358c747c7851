"""Cycles of a stretch of time, summed up to columns: the arithmetic, the store and the API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from msgspec.structs import astuple

from spectrace.analysis.overview import columns_of, step_of
from spectrace.model import Cycle
from spectrace.server.hub import Hub
from spectrace.server.run import PageServer
from spectrace.store.overseeing import Overseeing
from spectrace.store.recording import open_recording
from tests.helpers.picked import SPACING_NS, forward
from tests.helpers.recorded import T0_NS, record, run_of
from tests.helpers.stored import open_store

RUN = run_of().run_id
COUNT = 100


def times(*rows: tuple[int, int, int]) -> dict[str, Any]:
    """The columns of cycles: number, start and time in ns."""
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return dict(zip(("number", "start_ns", "took_ns"), columns, strict=True))


def cycles() -> Iterator[Cycle]:
    """A hundred, one each 100 ms; their times in ns are their numbers and a thousand."""
    return (forward(n, 1000 + n) for n in range(COUNT))


def test_a_column_has_its_least_and_its_most_and_names_the_slowest() -> None:
    """Ten ns a column; the one at 20 belongs to the third, those outside to none."""
    found = columns_of(
        times((3, 5, 7), (1, 0, 9), (2, 9, 4), (4, 20, 6), (5, -1, 99), (6, 30, 99)), 0, 10, 3
    )
    assert [astuple(one) for one in found] == [(0, 3, 4, 9, 1, 3), (2, 1, 6, 6, 4, 4)]


def test_of_cycles_that_took_as_long_the_newest_is_named() -> None:
    """In whatever order they came."""
    (found,) = columns_of(times((2, 1, 7), (9, 0, 7), (4, 2, 7)), 0, 10, 1)
    assert (found.slowest, found.last, found.cycles) == (9, 9, 3)


def test_nothing_makes_no_column() -> None:
    """No cycles, or none in the stretch."""
    assert columns_of(times(), 0, 10, 3) == []
    assert columns_of(times((1, 50, 5)), 0, 10, 3) == []


@pytest.mark.parametrize(("length", "count", "step"), [(100, 10, 10), (101, 10, 11), (3, 10, 1)])
def test_columns_cover_the_stretch(length: int, count: int, step: int) -> None:
    """The last one may be shorter than the others; none is shorter than a ns."""
    assert step_of(7, 7 + length, count) == step


def test_the_store_reads_the_newest_version_of_what_began_in_the_stretch(tmp_path: Path) -> None:
    """One was amended; from 200 ms to before 500 ms there are three."""
    with open_store(tmp_path) as store:
        store.put_run(run_of())
        store.add(cycles())
        store.add([forward(3, 5)])
        found = store.timed(RUN, "", T0_NS + 2 * SPACING_NS, T0_NS + 5 * SPACING_NS)
        assert found.cycles["number"].tolist() == [2, 3, 4]
        assert found.cycles["took_ns"].tolist() == [1002, 5, 1004]
        assert found.first_ns == found.since_ns == T0_NS
        assert found.last_ns == T0_NS + 99 * SPACING_NS + 1099
        assert len(store.timed(RUN, "", None, None).cycles["number"]) == COUNT
        assert len(store.timed(RUN, "other", None, None).cycles["number"]) == 0


def test_what_takes_too_long_is_left_out_from_the_oldest_on(tmp_path: Path) -> None:
    """Files of two seconds each: the newest is read in any case, and it is said since when."""
    with open_store(tmp_path, retain_s=1000.0, slice_s=2.0) as store:
        store.put_run(run_of())
        store.add(cycles())
        store.flush()
        few = Overseeing(store._ask, store._shelf, (RUN, ""), most_cycles=1)
        found = few.timed(None, None)
        numbers = found.cycles["number"].tolist()
        assert 0 < len(numbers) < COUNT
        assert numbers == list(range(COUNT - len(numbers), COUNT))
        assert found.since_ns == T0_NS + numbers[0] * SPACING_NS
        assert found.first_ns == T0_NS


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the overview of a recording of these cycles."""
    path = record(tmp_path_factory.mktemp("overview") / "run.spectrace", cycles())
    with closing(open_recording(path)) as store, PageServer(Hub(store), port=0) as server:
        yield f"{server.url}/api/runs/{RUN}/overview"


def test_the_api_answers_a_column_for_each_pixel(api: str) -> None:
    """Of ten columns over all that is kept each has ten cycles, of five over a second two."""
    found = httpx.get(api, params={"columns": 10}).json()
    assert (found["first"], found["begin"], found["since"]) == (str(T0_NS),) * 3
    assert [column[:4] for column in found["columns"]] == [
        [place, 10, 1000 + 10 * place, 1009 + 10 * place] for place in range(10)
    ]
    second = {"from_ns": T0_NS + 10 * SPACING_NS, "to_ns": T0_NS + 20 * SPACING_NS}
    found = httpx.get(api, params={"columns": 5, **second}).json()
    assert found["step_ns"] == 2 * SPACING_NS
    assert [column[1:] for column in found["columns"]] == [
        [2, 1000 + n, 1001 + n, n + 1, n + 1] for n in range(10, 20, 2)
    ]


@pytest.mark.parametrize(
    "wrong", [{"columns": 0}, {"columns": 10_000}, {"from_ns": 5, "to_ns": 5}, {"from_ns": "x"}]
)
def test_what_is_wrong_is_one_sentence(api: str, wrong: dict[str, Any]) -> None:
    """Status 400."""
    answer = httpx.get(api, params=wrong)
    assert answer.status_code == 400
    assert answer.json()["detail"].endswith(".")
