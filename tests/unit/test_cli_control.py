"""What of the command line only the spectrace that controls decides."""

from __future__ import annotations

import pytest

from spectrace.attach.handle import Options
from spectrace.cli.trace_options import options_of
from spectrace.model import TimingMode
from spectrace.probe.layout import Mode, Word


def test_who_asks_for_nothing_takes_what_there_is() -> None:
    """A probe that nobody controls is then timed by the device, every cycle in full."""
    options = options_of(None, 1, None)
    assert options.asked_words() == {}
    assert options.words() == {Word.MODE: Mode.DEVICE, Word.SAMPLING: 0}
    assert not options.take_control


@pytest.mark.parametrize(
    ("timing", "sample_every", "words"),
    [
        (TimingMode.SYNC, 1, {Word.MODE: Mode.SYNC}),
        (TimingMode.OFF, 1, {Word.MODE: Mode.OFF}),
        (None, 10, {Word.SAMPLING: 10}),
        (TimingMode.HOST, 3, {Word.MODE: Mode.HOST, Word.SAMPLING: 3}),
    ],
)
def test_what_was_asked_for_is_what_another_reader_would_have_to_agree_to(
    timing: TimingMode | None, sample_every: int, words: dict[int, int]
) -> None:
    """Timing and sampling, each only where it stands on the command line."""
    assert options_of(timing, sample_every, None).asked_words() == words


def test_control_is_taken_where_that_was_asked_for() -> None:
    """With or without another wish."""
    assert options_of(None, 1, 4096, take_control=True) == Options(units=128, take_control=True)
