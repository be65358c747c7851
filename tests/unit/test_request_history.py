"""Which requests the stored cycles served, and the cycles of one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spectrace.model import CycleKind, RequestRow
from spectrace.store.store import CycleStore
from tests.helpers.picked import SPACING_NS, forward
from tests.helpers.recorded import T0_NS, run_of
from tests.helpers.stored import open_store

RUN = run_of().run_id


def row(name: str, correct: int | None, tokens: int, **over: Any) -> RequestRow:
    """What a request got."""
    return RequestRow(request_id=name, correct_drafts=correct, output_tokens=tokens, **over)


def fill(store: CycleStore) -> None:
    """Request `a` in the cycles 1 to 3, `b` in 3 to 5; the last row of `b` is overshoot."""
    store.put_run(run_of())
    store.add(
        [
            forward(1, 50, kind=CycleKind.EXTEND, requests=(row("a", None, 1),)),
            forward(2, 50, requests=(row("a", 9, 9),)),
            forward(3, 70, batch_size=2, requests=(row("a", 4, 2), row("b", 0, 1))),
            forward(4, 50, requests=(row("b", 5, 6), row("HEALTH", 1, 1, health_check=True))),
        ]
    )
    store.flush()
    store.add(
        [
            forward(5, 50, requests=(row("b", 3, 0, overshoot=True),)),
            forward(2, 60, requests=(row("a", 1, 2),)),  # the newer version of it counts
        ]
    )


@pytest.mark.parametrize("slice_s", [1e-9, 1e6])
def test_sums_of_all_requests(tmp_path: Path, slice_s: float) -> None:
    """The one served last comes first; overshoot verifies nothing, health checks are no request."""
    with open_store(tmp_path, slice_s=slice_s) as store:
        fill(store)
        b, a = store.served_requests(RUN, "", None, 10)
        one = store.served_requests(RUN, "", None, 1)
        rest = store.served_requests(RUN, "", b.key, 10)
        none = store.served_requests(RUN, "DP1", None, 10)
    assert (one, rest, none) == ([b], [a], [])
    assert (a.request_id, a.cycles, a.verifies, a.correct_drafts, a.output_tokens) == (
        ("a", 3, 2, 1 + 4, 1 + 2 + 2)
    )
    assert (b.request_id, b.cycles, b.verifies, b.correct_drafts, b.output_tokens) == (
        ("b", 3, 2, 0 + 5, 1 + 6 + 0)
    )
    assert (a.first_n, a.last_n, b.first_n, b.last_n) == (1, 3, 3, 5)
    assert a.first_ns == T0_NS + SPACING_NS
    assert a.last_ns == T0_NS + 3 * SPACING_NS + 70


@pytest.mark.parametrize("slice_s", [1e-9, 1e6])
def test_the_cycles_of_one_request(tmp_path: Path, slice_s: float) -> None:
    """The newest first, page by page, each with what it gave; the sums stay those of all."""
    with open_store(tmp_path, slice_s=slice_s) as store:
        fill(store)
        whole = store.request_history(RUN, "", "a", None, 10)
        page = store.request_history(RUN, "", "a", 3, 1)
        over = store.request_history(RUN, "", "b", None, 1)
        nobody = store.request_history(RUN, "", "A", None, 10)
    assert whole is not None
    assert page is not None
    assert over is not None
    assert nobody is None
    found = [(one.number, one.correct_drafts, one.output_tokens) for one in whole.cycles]
    assert found == [(3, 4, 2), (2, 1, 2), (1, None, 1)]
    assert [one.took_ns for one in whole.cycles] == [70, 60, 50]
    assert (whole.cycles[0].batch, whole.cycles[0].steps) == (2, 5)
    assert page.cycles == whole.cycles[1:2]
    assert page.request == whole.request
    assert [one.overshoot for one in over.cycles] == [True]


def test_an_id_of_somebody_else_is_cut_and_harmless(tmp_path: Path) -> None:
    """Quotes change no query, and of an endless id the beginning names it."""
    names = ("'; DROP TABLE cycles; --", "x" * 10_000)
    with open_store(tmp_path) as store:
        store.put_run(run_of())
        store.add(forward(n, 5, requests=(row(name, 0, 1),)) for n, name in enumerate(names))
        found = [one.request_id for one in store.served_requests(RUN, "", None, 10)]
        histories = [store.request_history(RUN, "", name, None, 10) for name in found]
    assert found == ["x" * 256, names[0]]
    assert [one and one.request.cycles for one in histories] == [1, 1]
