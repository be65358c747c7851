"""What a collector says of what was sent to it and is not stored."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

from spectrace.cli.received import cycle_losses, losses, span_losses, wait_and_tell
from spectrace.cli.stopping import Stop
from spectrace.otlp import join
from spectrace.otlp.body import JSON, PROTOBUF
from spectrace.otlp.encode import Encoder
from spectrace.otlp.join import CycleCollector
from spectrace.server import intake
from spectrace.server.hub import Hub
from spectrace.server.state import LostSpans, Source
from spectrace.store import store as store_module
from spectrace.store.recording import open_recording
from spectrace.store.source import Stats
from spectrace.store.store import CycleStore
from tests.helpers.collector import Collector, collecting
from tests.helpers.page import until
from tests.helpers.recorded import other_span
from tests.helpers.stored import cycle_of, run_of

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
        (
            LostSpans(unjoined=1000, evicted=2, partial=3),
            [
                "1,000 cycles are not stored: their root or all of their ranks never came.",
                "2 cycles were put together no further: too many spans waited for others.",
                "3 times a cycle was stored of which spans were late or never came.",
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


def lost_of(collector: Collector) -> dict[str, Any]:
    """What the page is told of spans that were lost."""
    state = httpx.get(f"{collector.server.url}/api/state").json()
    lost: dict[str, Any] = state["lost_spans"]
    return lost


def send(collector: Collector, spans: Sequence[ReadableSpan]) -> None:
    """Posts spans, which are taken."""
    body = encode_spans(spans).SerializeToString()
    answer = httpx.post(collector.http, content=body, headers={"content-type": PROTOBUF})
    assert answer.status_code == 200


def test_spans_that_become_no_cycle_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cycle without its root, one without its rank, and one with all but a phase."""
    monkeypatch.setattr(join, "PATIENCE_S", 0.0)
    monkeypatch.setattr(join, "MEMORY_S", 0.0)
    root, *others = Encoder().spans(run_of(), cycle_of(1))
    ours = Encoder().spans(run_of(), cycle_of(3))
    with collecting(tmp_path) as collector:
        send(collector, others)
        until(lambda: lost_of(collector)["unjoined"] == 1)
        send(collector, [root])
        until(lambda: lost_of(collector)["unjoined"] == 2)
        send(collector, ours[:-1])
        until(lambda: lost_of(collector)["partial"] == 1)
        assert lost_of(collector)["unjoined"] == 2
        assert list(losses(collector.hub)) == [
            "2 cycles are not stored: their root or all of their ranks never came.",
            "1 times a cycle was stored of which spans were late or never came.",
        ]


def test_what_still_waits_at_the_end_is_stored_or_counted(tmp_path: Path) -> None:
    """Of a cycle without a phase what there is, and one without its root is counted."""
    with collecting(tmp_path) as collector:
        send(collector, Encoder().spans(run_of(), cycle_of(1))[1:])
        send(collector, Encoder().spans(run_of(), cycle_of(3))[:-1])
        hub = collector.hub
        assert not list(losses(hub))
    assert list(losses(hub)) == [
        "1 cycles are not stored: their root or all of their ranks never came.",
        "1 times a cycle was stored of which spans were late or never came.",
    ]
    with closing(open_recording(tmp_path)) as kept:
        (cycle,) = kept.cycles(run_of().run_id, limit=10)
    assert (cycle.number, cycle.ranks[0].incomplete) == (3, True)


def test_cycles_that_go_for_want_of_room_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no span can be held, those of a cycle without its root go at once."""
    monkeypatch.setattr(intake, "CycleCollector", lambda: CycleCollector(max_spans=0))
    with collecting(tmp_path) as collector:
        send(collector, Encoder().spans(run_of(), cycle_of(1))[1:])
        lost = lost_of(collector)
    assert (lost["evicted"], lost["unjoined"], lost["partial"]) == (1, 1, 0)


def test_cycles_that_nobody_passes_on_are_counted(tmp_path: Path) -> None:
    """Of 20,003 that wait the oldest three go; the page and the terminal say so."""
    with closing(CycleStore(tmp_path, retain_s=60, max_bytes=1 << 30)) as store:
        hub = Hub(store, sink=store)
        hub.put_run(run_of(), Source.RECEIVED)
        hub.feed([cycle_of(1)] * 20_001)
        hub.feed([cycle_of(2)] * 2)
        [run] = hub.state().runs
        assert run.lost.stored == 3
        assert list(losses(hub)) == ["3 cycles could not be stored."]


def test_cycles_that_could_not_be_stored_are_told_when_it_occurs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, beside a loss of spans that occurs later."""
    monkeypatch.setattr(store_module, "_PENDING_CYCLES", 0)
    monkeypatch.setattr(store_module, "_PENDING_SPANS", 0)
    stop, told = Stop(), list[str]()
    with closing(CycleStore(tmp_path, retain_s=60, max_bytes=1 << 30)) as store:
        hub = Hub(store, sink=store)
        steps = iter(
            [
                lambda: store.add([cycle_of(1)], wait=False),
                lambda: store.add([cycle_of(2)], wait=False),
                lambda: store.add_spans([other_span(1)]),
                stop.request,
            ]
        )
        monkeypatch.setattr("spectrace.cli.stopping.time.sleep", lambda _: next(steps)())
        wait_and_tell(hub, stop, told.append)
    assert told == ["1 cycles could not be stored.", "1 spans of others could not be stored."]


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
