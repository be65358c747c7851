"""A page comes up with its store and leaves nothing behind that was not asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from spectrace.server.open import open_page, open_page_of_recording, store_directory
from spectrace.server.run import PageServer
from tests.helpers.page import until
from tests.helpers.recorded import other_span, record
from tests.helpers.stored import RUN_A, cycle_of, open_store, run_of


def test_without_a_directory_nothing_is_left(tmp_path: Path) -> None:
    """A directory of our own is removed, a chosen one stays."""
    with store_directory(None) as own:
        assert own.is_dir()
    assert not own.exists()
    with store_directory(tmp_path) as chosen:
        assert chosen == tmp_path
    assert tmp_path.is_dir()


def test_a_page_is_up_within_the_block(tmp_path: Path) -> None:
    """Its state answers, and afterwards nobody does."""
    with open_page(retain_s=60, max_bytes=1 << 20, directory=tmp_path, port=0) as (hub, server):
        state = httpx.get(f"{server.url}/api/state").json()
        assert state["otlp_endpoint"] == hub.otlp_endpoint
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url)


def test_requests_outlive_their_collector(tmp_path: Path) -> None:
    """The next one shows them, knows a span that comes again, and its recording has them, too."""
    spans = [other_span(1), other_span(2, parent=1)]
    with open_page(retain_s=1e12, max_bytes=1 << 30, directory=tmp_path, port=0) as (hub, server):
        hub.feed_spans([*spans, spans[0]])
        [shown] = until(lambda: requests_of(server))
    with open_page(retain_s=1e12, max_bytes=1 << 30, directory=tmp_path, port=0) as (hub, server):
        assert requests_of(server) == [shown]
        hub.feed_spans([spans[1], other_span(3, trace=2)])
        [again, other] = until(lambda: requests_of(server)[1:] and requests_of(server))
        assert (again, len(other["spans"])) == (shown, 1)
    with open_page_of_recording(tmp_path, port=0) as server:
        assert requests_of(server) == [shown, other]
    places = []
    for path in sorted(tmp_path.glob("slice-*.duckdb")):
        with duckdb.connect(str(path), read_only=True) as database:
            places += database.execute("SELECT place FROM spans").fetchall()
    assert places == [(0,), (1,), (2,)]


def test_all_requests_of_a_recording_can_be_reached(tmp_path: Path) -> None:
    """Of 1,100, of which the page keeps 500: page by page, the last first, each once."""
    spans = [
        other_span(2 * n + k, trace=n, start_ns=1000 * n + k) for n in range(1100) for k in (1, 2)
    ]
    path = record(tmp_path / "run.spectrace", [cycle_of(1)], run_of(), spans)
    found: list[dict[str, Any]] = []
    before = None
    with open_page_of_recording(path, port=0) as server:
        assert len(requests_of(server)) == 500
        while before is not None or not found:
            query = {"limit": 400} | ({"before": before} if before else {})
            answer = httpx.get(f"{server.url}/api/requests/stored", params=query).json()
            found += answer["requests"]
            before = answer["before"]
        for wrong in ("x", "-1-" + "0" * 32, "1-0"):
            refused = httpx.get(f"{server.url}/api/requests/stored", params={"before": wrong})
            assert refused.status_code == 422
    assert [int(request["trace"], 16) for request in found] == list(range(1099, -1, -1))
    assert {len(request["spans"]) + request["more"] for request in found} == {2}
    assert found[-1]["t0"] == "1"


def requests_of(server: PageServer) -> list[dict[str, Any]]:
    """The requests that a page shows."""
    found: list[dict[str, Any]] = httpx.get(f"{server.url}/api/requests").json()["requests"]
    return found


def test_a_store_that_was_left_behind_is_shown_as_a_recording(tmp_path: Path) -> None:
    """Its run and its cycles are on the page."""
    with open_store(tmp_path) as store:
        store.put_run(run_of())
        store.add([cycle_of(1)])
    with open_page_of_recording(tmp_path, port=0) as server:
        [run] = httpx.get(f"{server.url}/api/state").json()["runs"]
        [cycle] = httpx.get(f"{server.url}/api/runs/{RUN_A}/cycles").json()["cycles"]
    assert (run["run"], run["source"], cycle["n"]) == (RUN_A, "file", 1)
