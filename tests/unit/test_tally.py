"""Several columns in one number, and requests counted by what their cycles have in common."""

from __future__ import annotations

from collections import Counter

import duckdb
import numpy as np
import pytest

from spectrace.store.tally import OF_ROW, TIMED, Known, packed, stretches, summed, unpacked, width


def test_what_needs_more_bits_is_as_large_as_they_allow() -> None:
    """Of three bits 0 to 7, of four 0 to 15, in one number and out again."""
    bits = {"a": 3, "b": 4}
    rows = duckdb.values((-1, 3), (5, 98))
    [both] = rows.project(packed(bits, {"a": "col0", "b": "col1 + 1"})).fetchnumpy().values()
    assert both.tolist() == [0 * 16 + 4, 5 * 16 + 15]
    found = unpacked(both, bits)
    assert (found["a"].tolist(), found["b"].tolist()) == ([0, 5], [4, 15])


def test_cycles_that_are_alike_are_added_up_by_stretches() -> None:
    """Keys 3, 3, 1, 3: key 1 has one cycle, key 3 the three around it."""
    keys = np.array([3, 3, 1, 3])
    cycles = {
        "number": np.array([10, 11, 12, 13]),
        "took_ns": np.array([5, 6, 7, 8]),
        "unknown": np.array([0, 1, 0, 1]),
    }
    found = summed(cycles, stretches(keys), group=2)
    assert {name: column.tolist() for name, column in found.items()} == {
        "group": [2, 2],
        "key": [1, 3],
        "cycles": [1, 3],
        "total_ns": [7, 19],
        "unknown": [0, 2],
        "first_n": [12, 10],
        "last_n": [12, 13],
    }


@pytest.mark.parametrize("most", [6, (1 << OF_ROW["correct"]) - 1])
def test_requests_are_counted_however_many_drafts_a_sender_says(most: int) -> None:
    """By a table where that is small, else sorted; those of other cycles are left out."""
    random = np.random.default_rng(0)
    keys = random.integers(0, 4, 50)
    known = Known(60)
    timed = keys & 1
    known.note(np.arange(50), stretches((keys << width(TIMED)) | timed), group=1)
    at = random.integers(0, 60, 2000)  # ten ids are of no cycle that counts
    correct, delivered, flags = (random.integers(0, n, 2000) for n in (most + 1, most + 1, 4))
    what = (correct << (width(OF_ROW) - OF_ROW["correct"])) | (delivered << 2) | flags
    found = known.counted(at, what)
    counted = dict(
        zip(
            zip(found["alike"].tolist(), found["what"].tolist(), strict=True),
            found["rows"].tolist(),
            strict=True,
        )
    )
    here = at < 50
    alike = ((keys << 1) | timed)[at[here]]
    assert counted == Counter(zip(alike.tolist(), what[here].tolist(), strict=True))
    assert set(found["group"].tolist()) == {1}
