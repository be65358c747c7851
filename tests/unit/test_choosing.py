"""Picking cycles out of a store: which they are, what their times are, and what bounds that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectrace.chosen import Chosen
from spectrace.model import Cycle, CycleKind, Lane, PhaseName, RequestRow, TimingMode
from spectrace.store.choosing import Choosing
from spectrace.store.store import CycleStore
from tests.helpers.picked import LEADS_NS, SPACING_NS, WARM_UP, choice, cycle, forward, rank
from tests.helpers.recorded import T0_NS, run_of
from tests.helpers.stored import open_store

DRAFT, STEP, VERIFY = PhaseName.DRAFT, PhaseName.DRAFT_STEP, PhaseName.VERIFY_FORWARD
FORWARD = PhaseName.FORWARD


def filled(store: CycleStore, *cycles: Cycle) -> CycleStore:
    """Warm-up, and then these."""
    store.put_run(run_of())
    store.add(forward(number, 7) for number in range(WARM_UP))
    store.add(cycles)
    return store


def numbers(chosen: Chosen) -> list[int]:
    """Which cycles were picked."""
    found: list[int] = chosen.cycles["number"].tolist()
    return found


def test_parts_have_the_sums_of_their_cycles(tmp_path: Path) -> None:
    """A parent counts with its parts, a phase that occurs twice with both times."""
    host = [(DRAFT, 10), (STEP, 3), (STEP, 4), (VERIFY, 50)]
    with open_store(tmp_path) as store:
        filled(store, cycle(20, rank(20, host, [(VERIFY, 45)])), cycle(21, rank(21, host[:1])))
        chosen = store.chosen(choice())
    found = {
        (lane.value, phase.value): (times.at.tolist(), times.took_ns.tolist())
        for (lane, phase), times in chosen.parts.items()
    }
    assert found == {
        ("host", "draft"): ([0, 1], [17, 10]),
        ("host", "draft.step"): ([0], [7]),
        ("host", "verify"): ([0], [50]),
        ("host", "verify.forward"): ([0], [50]),
        ("device", "verify"): ([0], [45]),
        ("device", "verify.forward"): ([0], [45]),
    }
    assert chosen.cycles["took_ns"].tolist() == [67, 10]
    begun = T0_NS + 20 * SPACING_NS + LEADS_NS
    assert chosen.cycles["first_ns"].tolist() == [begun, -1]
    assert chosen.cycles["last_ns"].tolist() == [begun + 45, -1]


def test_an_amended_cycle_counts_in_its_newest_version(tmp_path: Path) -> None:
    """Also where the older one lies in another slice."""
    with open_store(tmp_path, slice_s=1) as store:
        filled(store, forward(20, 100))
        store.flush()
        store.add(forward(number, 300) for number in (40, 41))
        store.flush()
        store.add([forward(20, 200), forward(40, 400)])
        chosen = store.chosen(choice())
    assert numbers(chosen) == [20, 40, 41]
    assert chosen.cycles["took_ns"].tolist() == [200, 400, 300]


def test_what_is_open_is_settled_by_what_most_cycles_are(tmp_path: Path) -> None:
    """Kind and mode are those of most cycles that decode; all there is can be chosen."""
    with open_store(tmp_path) as store:
        filled(
            store,
            *(forward(number, 5, kind=CycleKind.EXTEND) for number in range(20, 29)),
            *(forward(number, 5, batch_size=number % 2 + 1) for number in range(30, 34)),
            cycle(40, rank(40, [(FORWARD, 5)], mode=TimingMode.SYNC)),
            forward(41, 5, kind=CycleKind.DECODE, steps=0),
        )
        chosen = store.chosen(choice())
        of_sync = store.chosen(choice(mode=TimingMode.SYNC))
        of_two = store.chosen(choice(batch=2))
        plain = store.chosen(choice(kind=CycleKind.DECODE))
    assert numbers(chosen) == [30, 31, 32, 33]
    settled = chosen.choice
    assert (settled.kind, settled.mode) == (CycleKind.SPECULATIVE, TimingMode.DEVICE)
    assert (settled.rank, settled.batch, settled.steps) == ("TP0", None, None)
    seen = chosen.seen
    assert seen.kinds == {CycleKind.EXTEND: 9, CycleKind.SPECULATIVE: 5, CycleKind.DECODE: 1}
    assert seen.modes == {TimingMode.DEVICE: 4, TimingMode.SYNC: 1}
    assert (seen.batches, seen.steps, seen.ranks) == ({1: 2, 2: 2}, {5: 4}, ("TP0",))
    assert numbers(of_sync) == [40]
    assert numbers(of_two) == [31, 33]
    assert (numbers(plain), plain.seen.steps) == ([41], {0: 1})


def test_cycles_whose_times_do_not_count_are_left_out_and_counted(tmp_path: Path) -> None:
    """Warm-up, incomplete ones, ones that ended idle or changed their mode late."""
    odd: list[dict[str, Any]] = [
        {"incomplete": True},
        {"ended_idle": True},
        {"late_switch": True},
    ]
    with open_store(tmp_path) as store:
        filled(
            store,
            *(
                cycle(20 + place, rank(20 + place, [(FORWARD, 5)], **how))
                for place, how in enumerate(odd)
            ),
            forward(30, 5),
        )
        chosen = store.chosen(choice())
    assert numbers(chosen) == [30]
    assert (chosen.warm_up, chosen.untimed) == (WARM_UP, 3)
    assert (chosen.stored, chosen.looked_at, chosen.whole) == (WARM_UP + 4, 4, True)


def test_another_rank_has_times_of_its_own(tmp_path: Path) -> None:
    """By its name, in the cycles that it reported; a device lane with holes has no part."""
    with open_store(tmp_path) as store:
        filled(
            store,
            cycle(
                20,
                rank(20, [(FORWARD, 5)]),
                rank(20, [(FORWARD, 9)], [(FORWARD, 8)], rank="TP1", device_incomplete=True),
            ),
            forward(21, 6),
        )
        chosen = store.chosen(choice(rank="TP1"))
        nobody = store.chosen(choice(rank="TP2"))
    assert (numbers(chosen), chosen.cycles["took_ns"].tolist()) == ([20], [9])
    assert list(chosen.parts) == [(Lane.HOST, FORWARD)]
    assert chosen.seen.ranks == ("TP0", "TP1")
    assert (numbers(nobody), nobody.parts) == ([], {})


def test_only_the_last_seconds(tmp_path: Path) -> None:
    """The time counts back from the end of the newest cycle; ten cycles begin in a second."""
    with open_store(tmp_path, slice_s=1) as store:
        filled(store, *(forward(number, 5) for number in range(20, 60)))
        chosen = store.chosen(choice(last_s=1.0))
    assert numbers(chosen) == list(range(50, 60))
    assert chosen.warm_up == 0


def test_rows_that_verified_are_counted_alike(tmp_path: Path) -> None:
    """Overshoot, health checks and prefill are in none of the figures of acceptance."""
    rows = (
        RequestRow(request_id="a", correct_drafts=2, output_tokens=3),
        RequestRow(request_id="b", correct_drafts=2, output_tokens=1),
        RequestRow(request_id="c", correct_drafts=5, output_tokens=0, overshoot=True),
        RequestRow(request_id="d", correct_drafts=5, output_tokens=6, health_check=True),
        RequestRow(request_id="e", correct_drafts=None, output_tokens=1),
    )
    with open_store(tmp_path) as store:
        filled(store, *(forward(number, 5, requests=rows) for number in (20, 21)))
        found = store.chosen(choice()).rows
    table = zip(*(found[key].tolist() for key in ("correct", "delivered", "rows")), strict=True)
    # The two cycles are as far apart as can be, so that each is a block.
    assert sorted(table) == [(2, 1, 1), (2, 1, 1), (2, 3, 1), (2, 3, 1)]
    assert set(found["steps"]) == {5}
    assert set(found["draft_tokens"]) == {6}


@pytest.mark.parametrize("limit", [{"most_cycles": 1}, {"most_s": 0.0}])
def test_too_much_is_cut_after_the_newest(tmp_path: Path, limit: dict[str, Any]) -> None:
    """At least one stretch is read, whatever the limits, and the answer says of how many."""
    with open_store(tmp_path, slice_s=1) as store:
        filled(store, *(forward(number, number) for number in range(20, 60)))
        store.flush()
        chosen = Choosing(store._ask, store._shelf, choice(), **limit).chosen()
    assert chosen.stored == WARM_UP + 40
    assert 0 < chosen.looked_at < 40
    assert not chosen.whole
    assert numbers(chosen) == list(range(60 - chosen.looked_at, 60))
    assert chosen.cycles["took_ns"].tolist() == numbers(chosen)
    times = chosen.parts[Lane.HOST, FORWARD]
    assert times.at.tolist() == list(range(chosen.looked_at))
    assert np.array_equal(times.took_ns, chosen.cycles["took_ns"])


def test_of_nothing_there_is_nothing(tmp_path: Path) -> None:
    """A group that does not exist, and a run of warm-up alone, have empty columns."""
    with open_store(tmp_path) as store:
        filled(store)
        for chosen in (store.chosen(choice()), store.chosen(choice(group="DP7"))):
            assert numbers(chosen) == []
            assert chosen.parts == {}
            assert len(chosen.rows["rows"]) == 0
