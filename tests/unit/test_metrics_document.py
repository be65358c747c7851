"""The document, the dashboard and the files of the monitoring stack speak of metrics that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from spectrace.metrics.exposition import INFO, INFO_LABELS, RUN
from spectrace.metrics.table import DURATION_BOUNDS, TABLE, Form
from spectrace.server.address import DEFAULT_PORT

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "metrics.md").read_text()
FOLDER = ROOT / "examples" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "spectrace-dashboard.json").read_text())
SGLANG_METRICS = {  # those of the dashboard, all of them gauges
    "sglang:spec_accept_length",
    "sglang:gen_throughput",
    "sglang:num_running_reqs",
    "sglang:num_queue_reqs",
}
LABELS = {
    sample: {RUN, *instrument.attributes, *(["le"] if sample.endswith("_bucket") else [])}
    for instrument in TABLE
    for sample in instrument.samples
} | {f"{INFO}_info": {RUN, *INFO_LABELS}}
_ROW = re.compile(
    r"^\| `([\w.]+)` \| `(\w+)` \| (\w+) \| (\S+) \| ([^|]*) \| (.+) \|$", re.MULTILINE
)
_ATTRIBUTE = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
_VARIABLES = {"$__rate_interval": "1m", "$__range": "15m"}


def queries() -> list[str]:
    """Every query of the dashboard's panels."""
    targets = (target for panel in DASHBOARD["panels"] for target in panel.get("targets", ()))
    return [target["expr"] for target in targets]


def documented_queries() -> list[str]:
    """Every query of the document."""
    table = DOCUMENT.split("## Questions and queries\n")[1].split("\n\nA phase")[0]
    return re.findall(r"\| `(.+)` \|$", table, re.MULTILINE)


def parsed(query: str) -> promql.Expr:
    """A query as PromQL, with the variables of Grafana filled in."""
    for name, value in _VARIABLES.items():
        query = query.replace(name, value)
    return promql.parse(query)


def nodes(query: str) -> list[promql.Expr]:
    """All parts of a query."""
    found: list[promql.Expr] = []
    promql.walk(parsed(query), found.append)
    return found


def selectors(query: str) -> Iterator[promql.VectorSelector]:
    """The series that a query asks for."""
    for node in nodes(query):
        if isinstance(node, promql.MatrixSelector):
            yield node.vector_selector
        elif isinstance(node, promql.VectorSelector):
            yield node


def grouped_by(query: str) -> set[str]:
    """The labels by which a query sums up."""
    return {
        label
        for node in nodes(query)
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None
        for label in node.modifier.labels
    }


def test_the_document_has_every_metric_as_it_is() -> None:
    """In the order of the table: name, name in Prometheus, form, unit, attributes, meaning."""
    described = [
        (name, prometheus, form, unit, tuple(re.findall(r"`(\w+)`", attributes)), about)
        for name, prometheus, form, unit, attributes, about in _ROW.findall(DOCUMENT)
    ]
    assert described == [
        (
            one.name,
            one.family + ("_total" if one.form is Form.COUNTER else ""),
            one.form.value,
            one.unit,
            one.attributes,
            one.about,
        )
        for one in TABLE
    ]


def test_the_document_has_every_attribute_and_bound() -> None:
    """And no others."""
    section = DOCUMENT.split("| attribute | |\n")[1].split("\n\n")[0]
    assert set(_ATTRIBUTE.findall(section)) == {RUN} | {
        name for one in TABLE for name in one.attributes
    }
    bounds = DOCUMENT.split("bounds, in ms: ")[1].split(". ")[0].split()
    assert [round(float(bound) * 1e6) for bound in bounds] == list(DURATION_BOUNDS)


@pytest.mark.parametrize("query", [*queries(), *documented_queries()])
def test_a_query_asks_for_series_and_labels_that_exist(query: str) -> None:
    """It is PromQL, and every metric and label in it is one of ours, or one of SGLang's."""
    asked = list(selectors(query))
    assert asked
    known: set[str] = set()
    for selector in asked:
        assert selector.name is not None
        if selector.name in SGLANG_METRICS:
            continue
        labels = LABELS[selector.name]
        assert {matcher.name for matcher in selector.matchers.matchers} <= labels
        known |= labels
    assert grouped_by(query) <= known


@pytest.mark.parametrize("query", [*queries(), *documented_queries()])
def test_a_query_takes_rates_of_what_grows_and_of_nothing_else(query: str) -> None:
    """A rate of a gauge, or a counter shown as it is, would be nonsense."""
    ranged = [one.vector_selector for one in nodes(query) if isinstance(one, promql.MatrixSelector)]
    grows = {sample for one in TABLE if one.form is not Form.GAUGE for sample in one.samples}
    assert {one.name for one in ranged} == {one.name for one in selectors(query)} & grows


def test_the_parser_refuses_what_is_wrong() -> None:
    """So that the tests above can fail."""
    with pytest.raises(ValueError, match="unclosed"):
        parsed("sum(rate(spectrace_cycles_total[1m])")
    assert grouped_by("sum by (no_label) (spectrace_rank_tracing)") == {"no_label"}


def test_sglang_has_the_metrics_that_are_asked_of_it() -> None:
    """By the sources of the release that the examples install, where they are."""
    [*sources] = ROOT.glob(".venv-sglang/lib/python3*/site-packages/sglang/srt/observability/*.py")
    if not sources:
        pytest.skip("no SGLang is installed here")
    text = "".join(path.read_text() for path in sources)
    assert {name for name in SGLANG_METRICS if f'"{name}"' in text} == SGLANG_METRICS
    asked = {selector.name for query in queries() for selector in selectors(query)}
    assert {name for name in asked if name and name.startswith("sglang:")} == SGLANG_METRICS


def test_the_dashboard_shows_every_metric_but_the_sums_of_skipped_cycles() -> None:
    """What is counted can be seen."""
    asked = {selector.name for query in queries() for selector in selectors(query)}
    unseen = {one.name for one in TABLE if not asked & set(one.samples)}
    assert unseen == {
        "spectrace.skipped.time",
        "spectrace.skipped.verifies",
        "spectrace.skipped.accepted",
    }


def test_the_dashboard_is_one_that_grafana_11_reads() -> None:
    """Its schema, its panels beside each other without overlap, each with an id of its own."""
    assert DASHBOARD["schemaVersion"] >= 39
    assert DASHBOARD["uid"] == "spectrace"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken
        taken |= cells


def test_the_variables_of_the_dashboard_are_all_defined() -> None:
    """Those of queries and of other variables, and their own queries ask for what exists."""
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD)))
    assert used <= set(variables) | {"__rate_interval", "__range", "__all"}
    for variable in variables.values():
        if variable["type"] == "query":
            query = variable["query"]["query"]
            inner = re.fullmatch(r"(?:label_values|query_result)\((.*?)(?:, (\w+))?\)", query)
            assert inner is not None
            [selector] = selectors(inner[1])
            assert selector.name is not None
            assert inner[2] is None or inner[2] in LABELS[selector.name]


def test_prometheus_asks_spectrace_and_the_server() -> None:
    """Both on loopback, on the ports that they have by default."""
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    targets = {
        job["job_name"]: job["static_configs"][0]["targets"] for job in config["scrape_configs"]
    }
    assert targets == {
        "spectrace": [f"127.0.0.1:{DEFAULT_PORT}"],
        "sglang": ["127.0.0.1:30000"],
    }


def test_the_stack_has_the_services_that_its_readme_names() -> None:
    """Nothing listens beyond loopback, and every file that is mounted is there."""
    stack = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    readme = (FOLDER / "README.md").read_text()
    named = dict(re.findall(r"^\| `(\w+)` \| ([\w/]+) \|", readme, re.MULTILINE))
    assert named == {
        name: service["image"].partition(":")[0] for name, service in stack["services"].items()
    }
    for service in stack["services"].values():
        assert service["network_mode"] == "host"  # the page of spectrace is on loopback
        assert "ports" not in service
        for mount in service["volumes"]:
            source = mount.partition(":")[0]
            assert source in stack["volumes"] or (FOLDER / source).is_file()
    assert any("127.0.0.1" in one for one in stack["services"]["prometheus"]["command"])
    assert stack["services"]["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"


def test_grafana_is_told_where_everything_is() -> None:
    """The dashboard where the stack mounts it, and the Prometheus of the stack."""
    [source] = yaml.safe_load((FOLDER / "grafana" / "datasources.yaml").read_text())["datasources"]
    assert (source["type"], source["url"]) == ("prometheus", "http://127.0.0.1:${PROMETHEUS_PORT}")
    [provider] = yaml.safe_load((FOLDER / "grafana" / "dashboards.yaml").read_text())["providers"]
    stack = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    mounts = stack["services"]["grafana"]["volumes"]
    dashboard = f"{provider['options']['path']}/spectrace-dashboard.json"
    assert f"./spectrace-dashboard.json:{dashboard}:ro" in mounts
