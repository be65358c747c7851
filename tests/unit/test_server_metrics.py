"""`/metrics` of the page's server: what it counts, and who may ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families

from spectrace.server.hub import Hub
from spectrace.server.metered import MeterTap, facts_of
from spectrace.server.run import PageServer
from spectrace.server.state import Source
from spectrace.store.recording import open_recording
from tests.helpers.stored import RUN_A, RUN_B, cycle_of, open_store, run_of
from tests.unit.test_server_traced import Session

PARSE: Callable[[str], Iterable[Metric]] = parse_openmetrics  # which has no types


@contextmanager
def serving(tmp_path: Path) -> Iterator[tuple[str, Hub]]:
    """The address of the metrics of a server on a free port, and its hub."""
    with open_store(tmp_path / "store") as store:
        hub = Hub(store, sink=store)
        with PageServer(hub, port=0) as server:
            yield f"{server.url}/metrics", hub


def by_run(text: str, name: str) -> dict[str, float]:
    """The values of a metric by run."""
    [family] = (one for one in text_string_to_metric_families(text) if one.name == name)
    return {sample.labels["run"]: sample.value for sample in family.samples}


def test_cycles_that_are_received_count_once(tmp_path: Path) -> None:
    """Those of each run apart; one that is traced here counts by its own tap, not again here."""
    with serving(tmp_path) as (url, hub):
        hub.put_run(run_of(), Source.RECEIVED)
        hub.put_run(run_of(RUN_B), Source.ATTACHED)
        MeterTap(hub.meter).tell(run_of(RUN_B), Session().facts(), ())
        hub.feed(cycle_of(number) for number in range(5))
        hub.feed(cycle_of(number) for number in range(7))
        MeterTap(hub.meter).feed([cycle_of(1, run_id=RUN_B)])
        hub.meter.settle()
        hub.feed([cycle_of(1, run_id=RUN_B)])
        answer = httpx.get(url)
    assert answer.status_code == 200
    assert by_run(answer.text, "spectrace_cycles") == {RUN_A: 7, RUN_B: 1}
    assert by_run(answer.text, "spectrace_late_reports") == {RUN_A: 0, RUN_B: 0}


def test_a_run_that_the_hub_forgets_is_gone_from_the_metrics(tmp_path: Path) -> None:
    """64 runs are kept."""
    with serving(tmp_path) as (_, hub):
        for number in range(70):
            hub.put_run(run_of(f"{number:032x}"), Source.RECEIVED)
        known = {metrics.run.run_id for metrics in hub.meter.read().runs}
    assert known == {f"{number:032x}" for number in range(6, 70)}


def test_the_format_is_chosen_by_who_asks(tmp_path: Path) -> None:
    """OpenMetrics for whoever prefers it, and compressed where that can be read."""
    with serving(tmp_path) as (url, hub):
        hub.put_run(run_of(), Source.RECEIVED)
        hub.feed([cycle_of(1)])
        hub.meter.settle()
        text = httpx.get(url, headers={"accept-encoding": "identity"})
        openmetrics = httpx.get(url, headers={"accept": "application/openmetrics-text"})
        odd = httpx.get(url, headers={"accept": "application/openmetrics-text;version=x"})
    assert text.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "content-encoding" not in text.headers
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text;")
    assert openmetrics.headers["content-encoding"] == "gzip"
    assert odd.status_code == 200
    families = {family.name for family in PARSE(openmetrics.text)}
    assert "spectrace_cycle_duration_seconds" in families


@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example"}, {"origin": "http://evil.example"}],
)
def test_the_metrics_are_guarded_as_the_page_is(tmp_path: Path, headers: dict[str, str]) -> None:
    """A foreign name or page does not get them."""
    with serving(tmp_path) as (url, _):
        assert httpx.get(url, headers=headers).status_code == 403


def test_only_get_is_answered(tmp_path: Path) -> None:
    """Nothing can be put there."""
    with serving(tmp_path) as (url, _):
        assert httpx.post(url).status_code == 405


def test_a_recording_has_no_metrics(tmp_path: Path) -> None:
    """What is over is not scraped."""
    path = tmp_path / "saved.spectrace"
    with open_store(tmp_path / "store") as store:
        store.put_run(run_of())
        store.add([cycle_of(1)])
        store.save(path)
    recording = open_recording(path)
    try:
        with PageServer(Hub(recording), port=0) as server:
            assert httpx.get(f"{server.url}/metrics").status_code == 404
    finally:
        recording.close()


def test_facts_of_a_session_reach_the_metrics() -> None:
    """Losses, the stall by its parts, and whether a rank reports."""
    session = Session()
    facts = facts_of(session.facts(), session.stall(), 7)
    assert facts.tracing == {"TP0": False}
    assert facts.lost_records == {"TP0": 1}
    assert (facts.missing_cycles, facts.export_lost) == (2, 7)
    assert facts.stall_ns == {
        ("TP0", "stop"): 250_000,
        ("TP0", "loading"): 1_250_000,
        ("TP0", "installing"): 0,
    }
    assert facts.skipped.output_tokens == 20
    session.state = "tracing"
    assert facts_of(session.facts()).tracing == {"TP0": True}
