"""Asks a page to attach to servers, to leave them and for what it knows of them, for tests."""

from __future__ import annotations

import json
from typing import Any

import httpx

from spectrace.attach import ring_file
from tests.helpers.command import TIMEOUT_S
from tests.helpers.page import Paged, until
from tests.helpers.simulated_server import SimulatedServer

JSON = {"content-type": "application/json"}


def ask(page: Paged, path: str, wish: object, headers: dict[str, str] = JSON) -> httpx.Response:
    """Asks for something as the page does."""
    url = f"{page.url}/api/{path}"
    return httpx.post(url, content=json.dumps(wish), headers=headers, timeout=TIMEOUT_S)


def attach(page: Paged, pid: int, **wish: str) -> str:
    """Has the page attach to the server of a process; gives the run's id."""
    answer = ask(page, f"servers/{pid}/attach", wish)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["run"])


def run_of(page: Paged, run: str) -> dict[str, Any]:
    """What the page knows of a run; nothing before it knows it."""
    return next((one for one in page.runs() if one["run"] == run), {})


def newest(page: Paged, run: str) -> int:
    """The number of the newest cycle, 0 before there is one."""
    cycles = page.get(f"/api/runs/{run}/cycles?limit=1")["cycles"] if run_of(page, run) else []
    return max((int(cycle["n"]) for cycle in cycles), default=0)


def wait_for(page: Paged, run: str, number: int) -> None:
    """Waits until a cycle of that number or a later one has come."""
    until(lambda: newest(page, run) >= number)


def leave(page: Paged, run: str) -> dict[str, Any]:
    """Has the page leave a server; gives what it then knows of the run."""
    assert ask(page, f"runs/{run}/detach", {}).status_code == 200
    until(lambda: run_of(page, run)["state"] == "detached")
    return run_of(page, run)


def has_left(server: SimulatedServer) -> bool:
    """Whether no ring is left and every function is the server's own."""
    rings = [ring_file.ring_path(pid).exists() for pid in server.pids.values()]
    return not any(rings) and server.untouched()
