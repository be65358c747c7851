"""What a collector says of what was sent to it and is not stored."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from spectrace.cli.received import cycle_losses, span_losses, wait_and_tell
from spectrace.cli.stopping import Stop
from spectrace.otlp.body import JSON
from spectrace.server.hub import Hub
from spectrace.server.state import LostSpans
from spectrace.store import store as store_module
from spectrace.store.source import Stats
from spectrace.store.store import CycleStore
from tests.helpers.collector import collecting
from tests.helpers.page import until
from tests.helpers.recorded import other_span

NOTHING = Stats(cycles=0, bytes=0, first_ns=None, last_ns=None, first_n=None, last_n=None)
SPAN = {"traceId": "1" * 32, "spanId": "2" * 16, "startTimeUnixNano": 1, "endTimeUnixNano": 2}


@pytest.mark.parametrize(
    ("lost", "sentences"),
    [
        (LostSpans(), []),
        (
            LostSpans(stored=1200, problem="The disk is full."),
            ["1,200 spans of others could not be stored. The disk is full."],
        ),
        (
            LostSpans(stored=1, refused=2, reasons="Not stored: no ids (2)."),
            [
                "1 spans of others could not be stored.",
                "2 spans were refused. Not stored: no ids (2).",
            ],
        ),
    ],
)
def test_each_kind_of_loss_has_its_own_words(lost: LostSpans, sentences: list[str]) -> None:
    """Cycles are not spoken of where spans were lost."""
    assert list(span_losses(lost)) == sentences


def test_cycles_that_could_not_be_stored_are_told_apart() -> None:
    """With the reason of the store."""
    lossy = replace(NOTHING, lost=3, problem="The disk is full.")
    assert list(cycle_losses(lossy)) == ["3 cycles could not be stored. The disk is full."]
    assert list(cycle_losses(NOTHING)) == []


def test_spans_that_are_refused_are_counted_with_their_reasons(tmp_path: Path) -> None:
    """Their sender is told, and so is who looks at the page; what is stored is no loss."""
    spans = [SPAN, SPAN | {"spanId": ""}, SPAN | {"traceId": "0" * 32}]
    body = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    with collecting(tmp_path) as collector:
        answer = httpx.post(collector.http, json=body, headers={"content-type": JSON})
        assert answer.json()["partialSuccess"]["rejectedSpans"] == "2"
        state = httpx.get(f"{collector.server.url}/api/state").json()
        until(lambda: collector.store.other_spans(10))
    lost = state["lost_spans"]
    assert (lost["stored"], lost["refused"]) == (0, 2)
    assert "the span id is not 8 bytes" in lost["reasons"]
    assert "the trace id is not 16 bytes" in lost["reasons"]


def test_a_loss_is_told_when_it_occurs_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of the same kind is not told again before the end."""
    monkeypatch.setattr(store_module, "_PENDING_SPANS", 0)
    stop, told = Stop(), list[str]()
    with closing(CycleStore(tmp_path, retain_s=60, max_bytes=1 << 30)) as store:
        hub = Hub(store, sink=store)
        steps = iter(
            [
                lambda: None,
                lambda: store.add_spans([other_span(1)]),
                lambda: store.add_spans([other_span(2)]),
                lambda: None,
                stop.request,
            ]
        )
        monkeypatch.setattr("spectrace.cli.stopping.time.sleep", lambda _: next(steps)())
        wait_and_tell(hub, stop, told.append)
    assert told == ["1 spans of others could not be stored."]
