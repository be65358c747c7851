"""The queue before the exporter: what waits, what goes, what is dropped."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from spectrace_exporters import ExportStats
from spectrace_exporters._waiting import WaitingCycles

from spectrace.model import Cycle, RequestRow
from tests.helpers.anything import any_cycle, any_rank

ROWS = (RequestRow(request_id="a", correct_drafts=2, output_tokens=3),)
MANY = 1_000_000


def cycle(number: int, requests: tuple[RequestRow, ...] | None = ROWS) -> Cycle:
    """A cycle of one rank without phases, which is two spans."""
    return any_cycle(number, any_rank(), requests=requests)


@pytest.fixture
def waiting() -> WaitingCycles:
    """A queue for three cycles, of two spans each, that holds for 2 s."""
    return WaitingCycles(hold_s=2.0, max_spans=3 * 2)


def take(
    waiting: WaitingCycles, now_s: float, max_spans: int, *, everything: bool = False
) -> list[Cycle]:
    """Takes from a queue, for the cycles alone."""
    return [one.cycle for one in waiting.take(now_s, max_spans, everything=everything)]


def test_a_cycle_with_results_goes_at_once(waiting: WaitingCycles) -> None:
    """There is nothing to wait for."""
    waiting.put(cycle(1), 0.0)

    assert take(waiting, 0.0, MANY) == [cycle(1)]
    assert take(waiting, 0.0, MANY) == []


def test_a_cycle_without_results_waits_for_them(waiting: WaitingCycles) -> None:
    """It goes when they come, and once."""
    waiting.put(cycle(1, None), 0.0)
    assert take(waiting, 1.0, MANY) == []

    waiting.put(cycle(1), 1.0)
    assert take(waiting, 1.0, MANY) == [cycle(1)]
    assert len(waiting) == 0


def test_a_cycle_whose_results_do_not_come_goes_without(waiting: WaitingCycles) -> None:
    """After 2 s from its first form, whatever was amended in between."""
    waiting.put(cycle(1, None), 0.0)
    waiting.put(cycle(1, None), 1.5)

    assert take(waiting, 1.9, MANY) == []
    assert take(waiting, 2.0, MANY) == [cycle(1, None)]


def test_an_amended_cycle_takes_the_place_of_the_first(waiting: WaitingCycles) -> None:
    """What is not sent yet is sent in its newest form only."""
    waiting.put(cycle(1, ()), 0.0)
    waiting.put(cycle(1), 0.0)

    assert take(waiting, 0.0, MANY) == [cycle(1)]


def test_a_cycle_amended_after_it_was_taken_goes_again(waiting: WaitingCycles) -> None:
    """The receiver recognises it by its ids."""
    waiting.put(cycle(1, None), 0.0)
    waiting.take(2.0, MANY)

    waiting.put(cycle(1), 2.5)
    assert take(waiting, 2.5, MANY) == [cycle(1)]


def test_the_oldest_goes_when_the_queue_is_full(waiting: WaitingCycles) -> None:
    """The newest cycles are those that people look at; what is dropped is handed back."""
    gone = [one.cycle for number in (1, 2, 3, 4) for one in waiting.put(cycle(number), 0.0)]

    assert gone == [cycle(1)]
    assert waiting.spans == 3 * 2
    assert take(waiting, 0.0, MANY) == [cycle(2), cycle(3), cycle(4)]


def test_held_cycles_are_bounded_too(waiting: WaitingCycles) -> None:
    """A server whose results never come fills nothing."""
    gone = [one.cycle for number in (1, 2, 3, 4) for one in waiting.put(cycle(number, None), 0.0)]

    assert gone == [cycle(1, None)]
    assert len(waiting) == 3


def test_a_cycle_that_never_fits_is_handed_back(waiting: WaitingCycles) -> None:
    """One of eight ranks is nine spans; what waited before it had to go first."""
    waiting.put(cycle(1), 0.0)
    ranks = cycle(2).ranks * 8
    large = replace(cycle(2), ranks=ranks)

    assert [one.cycle for one in waiting.put(large, 0.0)] == [cycle(1), large]
    assert (len(waiting), waiting.spans) == (0, 0)


def test_spans_are_counted_as_they_come_and_go(waiting: WaitingCycles) -> None:
    """An amended cycle counts as what it has now, and one that was taken no longer."""
    waiting.put(cycle(1, None), 0.0)
    waiting.put(replace(cycle(1), ranks=cycle(1).ranks * 2), 0.0)
    assert waiting.spans == 3

    waiting.take(0.0, MANY)
    assert waiting.spans == 0


def test_no_more_is_taken_than_fits_into_a_request(waiting: WaitingCycles) -> None:
    """Two cycles of two spans fit into 4, three do not; one that never fits goes alone."""
    for number in (1, 2, 3):
        waiting.put(cycle(number), 0.0)

    assert take(waiting, 0.0, 4) == [cycle(1), cycle(2)]
    assert take(waiting, 0.0, 1) == [cycle(3)]


def test_at_the_end_nothing_is_held_back(waiting: WaitingCycles) -> None:
    """Who closes wants everything sent, results or not."""
    waiting.put(cycle(1, None), 0.0)

    assert take(waiting, 0.0, MANY, everything=True) == [cycle(1, None)]


def test_what_is_left_can_be_drained(waiting: WaitingCycles) -> None:
    """To be counted as lost."""
    waiting.put(cycle(1), 0.0)
    waiting.put(cycle(2, None), 0.0)

    assert [one.cycle for one in waiting.drain()] == [cycle(1), cycle(2, None)]
    assert len(waiting) == 0


def test_a_loss_is_one_sentence() -> None:
    """Of 5 + 6 + 7 spans that are lost 7 had arrived; nothing lost says nothing."""
    stats = ExportStats(
        failed_cycles=2,
        failed_spans=5,
        dropped_cycles=3,
        dropped_spans=6,
        rejected_spans=7,
        last_error="no route",
    )

    assert stats.loss() == (
        "18 spans may be lost: 5 failed, 6 were given up, 7 were rejected; 5 cycles may not have "
        "arrived. "
        "Last error: no route"
    )
    assert ExportStats(sent_cycles=2, sent_spans=4).loss() == ""
