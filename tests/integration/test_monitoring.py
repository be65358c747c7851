"""The monitoring stack of the examples: its files, and a real Prometheus that asks a real page."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import yaml

from tests.helpers.command import TIMEOUT_S, start
from tests.helpers.page import until
from tests.helpers.ports import free_port
from tests.helpers.simulated_server import SimulatedServer
from tests.unit.test_metrics_document import documented_queries, queries

pytestmark = pytest.mark.beside_others

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "monitoring"
OWN = ROOT / ".run" / "prometheus" / "usr" / "bin" / "prometheus"  # of `make peers-setup`
PROMETHEUS = shutil.which("prometheus") or (str(OWN) if OWN.exists() else None)
NEEDS_PROMETHEUS = pytest.mark.skipif(PROMETHEUS is None, reason="no Prometheus is installed here")
VARIABLES = {  # as Grafana fills them in, but for times that a test can wait for
    "$__rate_interval": "10s",
    "$__range": "10s",
    "[5m]": "[10s]",
    "$lane": "host",
    "$run": ".*",
    "$rank": ".*",
    "$kind": ".*",
}
# The server has no device that is timed, no cycle without speculation, and no metrics of its own.
WITHOUT_DATA = ('lane="device"', 'kind="decode"', "sglang:")


def test_the_compose_file_is_one() -> None:
    """By the schema of the Compose specification."""
    checker = Path(sys.executable).with_name("check-jsonschema")
    schema = ("--builtin-schema", "vendor.compose-spec")
    file = FOLDER / "compose.yaml"
    done = subprocess.run([checker, *schema, file], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@contextmanager
def prometheus(folder: Path, page: int) -> Iterator[httpx.Client]:
    """A Prometheus with the arguments and the settings of the example, but for ports and pace."""
    assert PROMETHEUS is not None
    text = (FOLDER / "prometheus.yml").read_text()
    assert text.count(":7711") == text.count("scrape_interval: 5s") == 1
    settings = folder / "prometheus.yml"
    settings.write_text(
        text.replace(":7711", f":{page}").replace("scrape_interval: 5s", "scrape_interval: 1s")
    )
    port = free_port()
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    arguments = [
        argument.replace("/etc/prometheus/prometheus.yml", str(settings))
        .replace("=/prometheus", f"={folder / 'data'}")
        .replace("${PROMETHEUS_PORT:-9090}", str(port))
        for argument in compose["services"]["prometheus"]["command"]
    ]
    with (
        (folder / "prometheus.log").open("w") as log,
        subprocess.Popen([PROMETHEUS, *arguments], stdout=log, stderr=log) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):
        try:
            until(lambda: is_ready(client))
            yield client
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)


def is_ready(client: httpx.Client) -> bool:
    """Whether it is up, and has read its settings and data: before, it refuses queries."""
    with suppress(httpx.TransportError):
        return client.get("/-/ready").is_success
    return False


def found(client: httpx.Client, query: str) -> list[dict[str, object]]:
    """What Prometheus answers to a query, with the variables of Grafana filled in."""
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    answer = client.get("/api/v1/query", params={"query": query}).json()
    assert answer["status"] == "success", (query, answer)
    series: list[dict[str, object]] = answer["data"]["result"]
    return series


def empty_ones(client: httpx.Client, asked: list[str]) -> list[str]:
    """Those of some queries that bring nothing, once Prometheus has asked so often that all may.

    It has asked twice, and between the two something was counted of all that is counted.
    """
    deadline_s = time.monotonic() + TIMEOUT_S
    empty = asked
    while empty and time.monotonic() < deadline_s:
        empty = [query for query in asked if not found(client, query)]
        time.sleep(0.2)
    return empty


@NEEDS_PROMETHEUS
def test_every_query_is_answered_by_a_prometheus_that_asks_the_page(tmp_path: Path) -> None:
    """With data, but for what this server has none of; its run is known by its labels."""
    page = free_port()
    server_folder = tmp_path / "server"
    server_folder.mkdir()
    with SimulatedServer(server_folder, "TP0", "TP1") as server:
        tracing = start("attach", str(server.pid), "--json", "--port", str(page))
        with prometheus(tmp_path, page) as client:
            every = (*queries(), *documented_queries())
            asked = [query for query in every if not any(one in query for one in WITHOUT_DATA)]
            empty = empty_ones(client, asked)
            [run] = found(client, "spectrace_run_info")
            [ranks] = found(client, "sum(spectrace_rank_tracing)")
        tracing.send_signal(signal.SIGINT)
        tracing.communicate(timeout=TIMEOUT_S)
    assert empty == []
    labels = run["metric"]
    assert isinstance(labels, dict)
    assert (labels["job"], labels["pid"]) == ("spectrace", str(server.pid))
    value = ranks["value"]
    assert isinstance(value, list)
    assert value[1] == "2"
