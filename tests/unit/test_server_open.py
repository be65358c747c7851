"""A page comes up with its store and leaves nothing behind that was not asked for."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from spectrace.server.open import open_page, open_page_of_recording, store_directory
from tests.unit.test_store_round_trip import RUN_A, cycle_of, open_store, run_of


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


def test_a_store_that_was_left_behind_is_shown_as_a_recording(tmp_path: Path) -> None:
    """Its run and its cycles are on the page."""
    with open_store(tmp_path) as store:
        store.put_run(run_of())
        store.add([cycle_of(1)])
    with open_page_of_recording(tmp_path, port=0) as server:
        [run] = httpx.get(f"{server.url}/api/state").json()["runs"]
        [cycle] = httpx.get(f"{server.url}/api/runs/{RUN_A}/cycles").json()["cycles"]
    assert (run["run"], run["source"], cycle["n"]) == (RUN_A, "file", 1)
