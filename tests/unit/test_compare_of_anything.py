"""Two runs are compared whatever a sender sends, and what can be said is said."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
from hypothesis import given, settings

from spectrace.cli.compare import compared
from spectrace.cli.compare_words import Compared, markdown, render
from spectrace.errors import SpectraceError
from spectrace.model import Cycle
from spectrace.store.measured import measure_recording
from tests.helpers.recorded import record, run_of
from tests.unit.test_report_of_anything import cycles


@settings(max_examples=8)
@given(cycles(), cycles())
def test_whatever_was_sent_is_compared(before: list[Cycle], after: list[Cycle]) -> None:
    """In every form, and the JSON reads as it was written."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            one, other = (
                measure_recording(record(Path(folder) / f"{name}.spectrace", sent, run_of(1)))
                for name, sent in (("before", before), ("after", after))
            )
        except SpectraceError:  # nothing of it counts
            return
    found = compared(("before", "after"), (one, other))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Compared).names == found.names
    assert markdown(found)
    assert render(found)
