"""The server over real sockets: API, live stream, limits, page, start and end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from spectrace.errors import SpectraceError
from spectrace.measures import WARM_UP_CYCLES
from spectrace.server.address import DEFAULT_PORT, listen, resolve
from spectrace.server.hub import Hub
from spectrace.server.run import PageServer
from spectrace.server.state import Life, Source
from spectrace.server.static import page_files
from spectrace.store.recording import open_recording
from spectrace.store.store import CycleStore
from tests.helpers.page import until
from tests.helpers.stored import RUN_A, RUN_B, cycle_of, open_store, run_of


@contextmanager
def serve(tmp_path: Path) -> Iterator[tuple[PageServer, Hub, CycleStore]]:
    """A server on a free port with the cycles 1 to 300 of an attached run."""
    with open_store(tmp_path / "store") as store:
        hub = Hub(store, sink=store)
        hub.put_run(run_of(), Source.ATTACHED)
        hub.feed(cycle_of(number) for number in range(1, 301))
        with PageServer(hub, port=0) as server:
            until(lambda: store.stats().cycles == 300)
            yield server, hub, store


class Events:
    """Reads the events of a stream one by one.

    Args:
        lines: The lines of the response.
    """

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def next(self, *kinds: str) -> tuple[str, Any]:
        """The next event of one of these kinds, and its data."""
        kind = ""
        for line in self._lines:
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: ") and kind in kinds:
                return kind, json.loads(line.removeprefix("data: "))
        raise AssertionError("the stream has ended")


@contextmanager
def listening(server: PageServer) -> Iterator[Events]:
    """The live stream of a server."""
    with httpx.stream("GET", f"{server.url}/api/live", timeout=60) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Events(response.iter_lines())


def test_the_state_names_the_run_and_what_is_stored(tmp_path: Path) -> None:
    """After a refresh the state has the run, its life, and the cycles that can be looked up."""
    with serve(tmp_path) as (server, hub, _):
        hub.refresh()
        state = httpx.get(f"{server.url}/api/state").json()
        assert state["otlp_endpoint"] == f"{server.url}/v1/traces"
        [run] = state["runs"]
        assert (run["run"], run["source"], run["server_pid"]) == (RUN_A, "attached", 10)
        assert run["stored"]["cycles"] == 300
        assert (run["stored"]["first_n"], run["stored"]["last_n"]) == (1, 300)
        assert run["ranks"] == [{"name": "TP0", "pid": 11, "reporting": True}]


def test_cycles_are_read_page_by_page(tmp_path: Path) -> None:
    """200 cycles, the newest first, unless told otherwise; `before` goes on from there."""
    with serve(tmp_path) as (server, _, _):
        url = f"{server.url}/api/runs/{RUN_A}/cycles"
        first = httpx.get(url).json()["cycles"]
        second = httpx.get(url, params={"before": 101, "limit": 3}).json()["cycles"]
        none = httpx.get(url, params={"group": "DP7"}).json()["cycles"]
    assert [cycle["n"] for cycle in first] == list(range(300, 100, -1))
    assert [cycle["n"] for cycle in second] == [100, 99, 98]
    assert none == []


def test_one_cycle_is_found_by_its_number(tmp_path: Path) -> None:
    """A number that is not here is a 404 with a sentence."""
    with serve(tmp_path) as (server, _, _):
        url = f"{server.url}/api/runs/{RUN_A}/cycles"
        assert httpx.get(f"{url}/42").json()["n"] == 42
        missing = httpx.get(f"{url}/4242")
    assert (missing.status_code, missing.json()["detail"]) == (
        404,
        "Cycle 4242 is not here, or not any more.",
    )


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/api/runs/{RUN_B}/cycles", 404),
        ("/api/runs/..%2f..%2fetc/cycles", 404),
        ("/api/runs/';DROP TABLE cycles;--/cycles", 404),
        (f"/api/runs/{'x' * 65}/cycles", 422),
        (f"/api/runs/{RUN_A}/cycles?limit=0", 422),
        (f"/api/runs/{RUN_A}/cycles?limit=2001", 422),
        (f"/api/runs/{RUN_A}/cycles?limit=many", 422),
        (f"/api/runs/{RUN_A}/cycles?before=-1", 422),
        (f"/api/runs/{RUN_A}/cycles?before={1 << 63}", 422),
        (f"/api/runs/{RUN_A}/cycles?group={'x' * 65}", 422),
        (f"/api/runs/{RUN_A}/cycles/{1 << 63}", 422),
        (f"/api/runs/{RUN_A}/cycles/one", 422),
        ("/api/nothing", 404),
        ("/openapi.json", 404),
    ],
)
def test_what_is_out_of_bounds_is_refused(tmp_path: Path, path: str, status: int) -> None:
    """Unknown runs are not found, numbers and names have bounds."""
    with serve(tmp_path) as (server, _, _):
        found = httpx.get(server.url + path).status_code
        # The page has not been built where this test runs without it: it answers 503 then.
        assert found == status or (path == "/openapi.json" and found == 503)
        assert httpx.get(f"{server.url}/api/state").status_code == 200


def test_the_stream_begins_with_the_state_and_the_newest_cycles(tmp_path: Path) -> None:
    """First the state, then the cycles 101 to 300, the oldest first."""
    with serve(tmp_path) as (server, _, _), listening(server) as events:
        kind, state = events.next("state", "cycles")
        assert (kind, state["runs"][0]["run"]) == ("state", RUN_A)
        kind, cycles = events.next("state", "cycles")
    assert [cycle["n"] for cycle in cycles] == list(range(101, 301))


def test_the_stream_follows_new_and_amended_cycles_and_the_state(tmp_path: Path) -> None:
    """A new cycle, an amended one, and the server's end reach the page without asking."""
    with serve(tmp_path) as (server, hub, _), listening(server) as events:
        events.next("cycles")
        hub.feed([cycle_of(301), cycle_of(300, requests=1)])
        _, cycles = events.next("cycles")
        assert [(cycle["n"], len(cycle["requests"])) for cycle in cycles] == [(300, 1), (301, 4)]
        hub.end(RUN_A, Life.SERVER_GONE, "The server has ended.")
        state = {"state": ""}
        while state["state"] != "server_gone":
            state = events.next("state")[1]["runs"][0]
        assert state["message"] == "The server has ended."
        assert httpx.get(f"{server.url}/api/runs/{RUN_A}/cycles/301").json()["n"] == 301


def test_a_browser_that_reads_nothing_holds_up_nobody(tmp_path: Path) -> None:
    """While one browser is stuck, another gets its cycles; later the first learns its loss."""
    with serve(tmp_path) as (server, hub, _):
        stuck = open_and_read_nothing(server)
        until(lambda: hub.live.listeners == 1)
        [listener] = hub.live._listeners
        number = 300
        with listening(server) as events:
            while not listener._skipped:
                assert number < 100_000
                hub.feed(cycle_of(number + step) for step in range(1, 501))
                number += 500
                while events.next("cycles")[1][-1]["n"] < number:
                    pass
        stuck.settimeout(60)
        received = b""
        while b"event: skipped" not in received[-2_000_000:] and len(received) < 1 << 27:
            received += stuck.recv(1 << 20)
        assert b"event: skipped" in received
        stuck.close()


def open_and_read_nothing(server: PageServer) -> socket.socket:
    """A browser that asks for the stream and leaves it in the pipe."""
    stuck = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck.connect(("127.0.0.1", server.port))
    stuck.sendall(b"GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return stuck


@pytest.mark.parametrize("header", [{"host": "evil.example"}, {"origin": "http://evil.example"}])
@pytest.mark.parametrize("path", ["/", "/api/state", "/api/live", "/v1/traces"])
def test_foreign_pages_are_refused_everywhere(
    tmp_path: Path, header: dict[str, str], path: str
) -> None:
    """A foreign Host or Origin gets 403 and a sentence on every path, whatever the method."""
    with serve(tmp_path) as (server, _, _):
        for method in ("GET", "POST", "OPTIONS"):
            answer = httpx.request(method, server.url + path, headers=header)
            assert answer.status_code == 403
            assert "evil.example" in answer.text
            assert "access-control-allow-origin" not in answer.headers


def test_every_answer_tells_the_browser_what_it_may_do(tmp_path: Path) -> None:
    """Only our own scripts and styles run, types are not guessed, figures are not cached."""
    with serve(tmp_path) as (server, _, _):
        for path in ("/", "/api/state", "/api/nothing"):
            headers = httpx.get(server.url + path).headers
            assert headers["content-security-policy"].startswith("default-src 'none';")
            assert headers["x-content-type-options"] == "nosniff"
        assert httpx.get(f"{server.url}/api/state").headers["cache-control"] == "no-store"


def listen_to_the_end(server: PageServer) -> None:
    """Reads the stream until the server ends it, or cuts it off."""
    with contextlib.suppress(httpx.HTTPError):
        httpx.get(f"{server.url}/api/live", timeout=60)


def test_the_server_ends_with_open_streams(tmp_path: Path) -> None:
    """One browser listens, another one reads nothing, and the end comes nonetheless."""
    with serve(tmp_path) as (server, hub, _):
        reader = threading.Thread(target=listen_to_the_end, args=(server,))
        reader.start()
        stuck = open_and_read_nothing(server)
        until(lambda: hub.live.listeners == 2)
        began_s = time.monotonic()
        server.stop()
        took_s = time.monotonic() - began_s
        reader.join(60)
        stuck.close()
        assert took_s < 30  # as long as the streams stay open it would take for ever
        with pytest.raises(httpx.ConnectError):
            httpx.get(server.url)


def test_the_server_ends_soon_when_a_browser_is_stuck(tmp_path: Path) -> None:
    """A browser whose pipe is full is cut off; what was fed is stored before the end."""
    with serve(tmp_path) as (server, hub, store):
        stuck = open_and_read_nothing(server)
        until(lambda: hub.live.listeners == 1)
        [listener] = hub.live._listeners
        for begin in range(301, 100_000, 1000):
            hub.feed(cycle_of(number) for number in range(begin, begin + 1000))
            time.sleep(0.15)
            if listener._skipped:
                break
        hub.feed([cycle_of(1_000_000)])
        began_s = time.monotonic()
        server.stop()
        assert time.monotonic() - began_s < 30  # the browser would be stuck for ever
        assert store.cycles(RUN_A, limit=1) == [cycle_of(1_000_000)]
        stuck.close()


def test_a_taken_default_port_gives_the_next_one() -> None:
    """Two servers find two ports; a third that insists on a taken port is refused."""
    one, two = listen(resolve("127.0.0.1"), None), listen(resolve("localhost"), None)
    ports = [bound.getsockname()[1] for bound in (one, two)]
    assert DEFAULT_PORT <= ports[0] < ports[1]
    with pytest.raises(SpectraceError, match=f"Port {ports[0]} is taken"):
        listen(resolve("127.0.0.1"), ports[0])
    one.close()
    two.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "[2001:db8::7]"])  # noqa: S104 - it is to be refused
def test_other_addresses_than_loopback_are_refused(tmp_path: Path, host: str) -> None:
    """Without a token nobody else may look."""
    with open_store(tmp_path) as store, pytest.raises(SpectraceError, match="ssh -L"):
        PageServer(Hub(store, sink=store), host=host, port=0)


def test_answers_do_not_wait_for_acknowledgements(tmp_path: Path) -> None:
    """With Nagle's algorithm each would take 40 ms."""
    with serve(tmp_path) as (server, _, _), httpx.Client() as client:
        client.get(f"{server.url}/api/state")
        [connection] = server._server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_a_recording_is_served_like_a_live_run(tmp_path: Path) -> None:
    """The same paths answer over a file; nothing is received."""
    path = tmp_path / "saved.spectrace"
    with open_store(tmp_path / "store") as store:
        store.put_run(run_of())
        store.add(cycle_of(number) for number in range(1, 301))
        store.save(path)
    recording = open_recording(path)
    hub = Hub(recording)
    with PageServer(hub, port=0) as server, listening(server) as events:
        hub.refresh()
        state = httpx.get(f"{server.url}/api/state").json()
        [run] = state["runs"]
        assert (run["source"], run["state"], run["stored"]["cycles"]) == ("file", "detached", 300)
        assert state["otlp_endpoint"] is None
        _, cycles = events.next("cycles")
        assert [cycle["n"] for cycle in cycles] == list(range(101, 301))
        assert httpx.post(f"{server.url}/v1/traces").status_code in (404, 405)
    recording.close()


def test_a_page_that_was_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    """Without the built files the answer is a sentence, with them it is the page."""
    for content in (None, "<p>The page</p>"):
        if content:
            (tmp_path / "index.html").write_text(content)
        text = asyncio.run(front_page(tmp_path))
        assert (content or "npm --prefix ui run build") in text


async def front_page(directory: Path) -> str:
    """What is served as the page from a directory."""
    transport = httpx.ASGITransport(app=page_files(directory))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return (await client.get("/")).text


def test_pages_that_are_refused_do_not_shut_out_the_others(tmp_path: Path) -> None:
    """Of 120 that want the stream 32 get it, and the state is answered all the same."""
    with serve(tmp_path) as (server, hub, _):
        opened = [open_and_read_nothing(server) for _ in range(120)]
        answers = [connection.recv(12) for connection in opened]
        assert httpx.get(f"{server.url}/api/state").status_code == 200
        assert (hub.live.listeners, answers.count(b"HTTP/1.1 200")) == (32, 32)
        for connection in opened:
            connection.close()


def test_the_report_of_a_run(tmp_path: Path) -> None:
    """Is made of what the store holds; a run that is not here, and a time that is none, are not."""
    with serve(tmp_path) as (server, _, store):
        [run] = [run.run_id for run in store.runs()]
        url = f"{server.url}/api/runs/{run}/report"
        answer = httpx.get(url, timeout=60)
        assert answer.status_code == 200
        assert answer.json()["cycles"] == store.stats().cycles - WARM_UP_CYCLES
        assert httpx.get(url, params={"baseline_ms": "0"}).status_code == 422
        assert httpx.get(f"{server.url}/api/runs/nobody/report").status_code == 404
