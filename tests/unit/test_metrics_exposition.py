"""What Prometheus reads is what was counted, in either format."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from msgspec.structs import replace
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from spectrace.metrics.exposition import INFO, INFO_LABELS, RUN, expose, prefers_openmetrics
from spectrace.metrics.meter import Facts, Meter
from spectrace.metrics.table import TABLE, Form
from tests.helpers.metered import Expected, Key
from tests.helpers.recorded import cycle_of, run_of

CYCLES = [cycle_of(number, ranks=2) for number in range(30)]
Parser = Callable[[str], Iterable[Metric]]
FORMATS = [
    ("", parse_text, "text/plain; version=0.0.4; charset=utf-8"),
    (
        "application/openmetrics-text;version=1.0.0",
        parse_openmetrics,
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
    ),
]


def meter_of_all() -> Meter:
    """A meter that has a series of every metric."""
    meter = Meter()
    meter.put_run(run_of(2))
    facts = Facts(
        worker="EAGLEWorkerV2",
        algorithm="EAGLE3",
        device="cuda",
        tracing={"TP0": True},
        lost_records={"TP0": 1},
        stall_ns={("TP0", "stop"): 1_000_000},
    )
    meter.tell(run_of(2).run_id, facts)
    meter.add(CYCLES)
    meter.settle()
    return meter


def families(parse: Parser, accept: str) -> dict[str, Metric]:
    """The families by name."""
    body, _ = expose(meter_of_all().read(), accept)
    return {family.name: family for family in parse(body.decode())}


def labels_of(series: Key) -> dict[str, str]:
    """The labels of a series, the empty ones left out."""
    return {RUN: run_of(2).run_id, **dict(series[1])}


@pytest.mark.parametrize(("accept", "parse", "content_type"), FORMATS)
def test_every_sample_is_the_sum_of_the_cycles(
    accept: str, parse: Parser, content_type: str
) -> None:
    """Read back by the parser of Prometheus itself: counters, counts, sums and buckets."""
    body, given = expose(meter_of_all().read(), accept)
    assert given == content_type
    samples = {
        (sample.name, frozenset((k, v) for k, v in sample.labels.items() if v)): sample.value
        for family in parse(body.decode())
        for sample in family.samples
    }
    expected = Expected(CYCLES)
    instruments = {instrument.name: instrument for instrument in TABLE}
    for one, total in expected.sums.items():
        name = instruments[one[0]].family + "_total"
        assert samples[name, frozenset(labels_of(one).items())] == total
    for one, values in expected.values.items():
        instrument = instruments[one[0]]
        labels = labels_of(one)
        scale = instrument.scale
        found = {
            ending: samples[instrument.family + ending, frozenset(labels.items())]
            for ending in ("_count", "_sum")
        }
        assert found["_count"] == len(values)
        assert found["_sum"] == pytest.approx(sum(values) / scale)
        for bound in (*instrument.bounds, None):
            edge = "+Inf" if bound is None else str(bound / scale)
            within = frozenset((labels | {"le": edge}).items())
            count = sum(bound is None or value <= bound for value in values)
            assert samples[instrument.family + "_bucket", within] == count


@pytest.mark.parametrize(("accept", "parse"), [one[:2] for one in FORMATS])
def test_every_metric_has_its_name_form_unit_and_labels(accept: str, parse: Parser) -> None:
    """As the table says, and as the rules of OpenTelemetry derive them."""
    found = families(parse, accept)
    assert set(found) - {INFO, f"{INFO}_info"} == {
        # the parser of the older format leaves the ending of a counter away
        instrument.family
        for instrument in TABLE
    }
    for instrument in TABLE:
        family = found[instrument.family]
        assert family.type == instrument.form.value
        assert family.documentation == instrument.about
        for sample in family.samples:
            labels = {RUN, *instrument.attributes, *(["le"] if "_bucket" in sample.name else [])}
            assert set(sample.labels) == labels
            assert sample.name in instrument.samples
        if accept:
            assert family.unit == instrument.prometheus_unit


@pytest.mark.parametrize(
    ("name", "derived"),
    [
        ("spectrace.cycle.duration", "spectrace_cycle_duration_seconds_bucket"),
        ("spectrace.accept.length", "spectrace_accept_length_bucket"),
        ("spectrace.output.tokens", "spectrace_output_tokens_total"),
        ("spectrace.skipped.time", "spectrace_skipped_time_seconds_total"),
        ("spectrace.attach.stall", "spectrace_attach_stall_seconds"),
        ("spectrace.rank.tracing", "spectrace_rank_tracing"),
    ],
)
def test_names_are_derived_by_the_rules(name: str, derived: str) -> None:
    """Dots become underscores, seconds are spelled out, words in braces are dropped."""
    [instrument] = (one for one in TABLE if one.name == name)
    assert instrument.samples[0] == derived


def test_the_run_is_described_once() -> None:
    """By an info metric, which says what its id stands for."""
    [sample] = families(parse_text, "")[f"{INFO}_info"].samples
    assert set(sample.labels) == {RUN, *INFO_LABELS}
    assert sample.labels["engine"] == "sglang 0.5.23"
    assert (sample.labels["host"], sample.labels["pid"]) == ("node", "10")
    assert (sample.labels["worker"], sample.labels["device"]) == ("EAGLEWorkerV2", "cuda")


def test_two_runs_have_series_of_their_own() -> None:
    """One page has the runs of several servers."""
    meter = meter_of_all()
    meter.put_run(replace(run_of(2), run_id="b" * 32, host='quo"te\n\\'))
    meter.add([replace(CYCLES[0], run_id="b" * 32)])
    meter.settle()
    body, _ = expose(meter.read())
    found = {family.name: family for family in parse_text(body.decode())}
    counts = {sample.labels[RUN]: sample.value for sample in found["spectrace_cycles"].samples}
    assert counts == {run_of(2).run_id: 30, "b" * 32: 1}
    hosts = {sample.labels["host"] for sample in found[f"{INFO}_info"].samples}
    assert hosts == {"node", 'quo"te\n\\'}


def test_text_that_is_none_does_not_spoil_the_answer() -> None:
    """A command line or a name may hold bytes that are no UTF-8."""
    meter = Meter()
    meter.put_run(replace(run_of(1), host="h\udcff"))
    body, _ = expose(meter.read())
    assert 'host="h?"' in body.decode()


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8, text/plain;q=0.5", True),
        (
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2",
            True,
        ),
        ("text/plain;version=0.0.4;q=0.5,application/openmetrics-text;q=0.2", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;version=x;q=y", False),
        ("Application/OpenMetrics-Text", True),
    ],
)
def test_the_format_is_that_which_is_preferred(accept: str, wanted: bool) -> None:
    """By the weights of the header Accept; text for whoever does not ask for the other."""
    assert prefers_openmetrics(accept) is wanted


def test_nothing_known_is_no_error() -> None:
    """Before the first run there are no series."""
    for accept, parse, _ in FORMATS:
        body, _ = expose(Meter().read(), accept)
        assert [family for family in parse(body.decode()) if family.samples] == []


def test_counters_are_counters() -> None:
    """A rate can be taken of everything that only grows, and of nothing else."""
    for instrument in TABLE:
        grows = instrument.form is Form.COUNTER
        assert (instrument.samples[0].endswith("_total")) is grows
