"""The load of a sweep: how many requests are under way, which count, and what becomes of errors."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from spectrace.cli.sweep_load import CommandLoad, HttpLoad, Load, is_healthy, is_taken
from spectrace.cli.sweep_prompts import Prompt, in_order, own_prompts, read_prompts
from spectrace.errors import SpectraceError

TIMEOUT_S = 60.0
ANSWER_S = 0.02


class Generating(BaseHTTPRequestHandler):
    """Answers as `/generate` does, after a moment, and refuses the prompt `no`."""

    server: Counting

    def do_GET(self) -> None:
        """Says that it is well."""
        self._answer(200, {})

    def do_POST(self) -> None:
        """Gives as many tokens as were asked for."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.key and self.headers["Authorization"] != f"Bearer {self.server.key}":
            self._answer(401, {"error": f"wrong: {self.headers['Authorization']}"})
            return
        with self.server.lock:
            self.server.asked.append(body)
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
            waits = len(self.server.asked) <= self.server.together.parties
        if waits:
            self.server.together.wait(TIMEOUT_S)
        time.sleep(ANSWER_S)
        with self.server.lock:
            self.server.now -= 1
        if body["text"] == "no":
            self._answer(400, {"error": {"message": "too long"}})
            return
        tokens = body["sampling_params"]["max_new_tokens"]
        self._answer(200, {"text": "", "meta_info": {"completion_tokens": tokens}})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Counting(ThreadingHTTPServer):
    """Counts the requests that are under way.

    Args:
        key: Who has it is answered; everybody where it is empty.
        together: So many of the first requests are answered when all of them have come.
    """

    daemon_threads = True

    def __init__(self, key: str, together: int) -> None:
        super().__init__(("127.0.0.1", 0), Generating)
        self.key = key
        self.together = threading.Barrier(together)
        self.lock = threading.Lock()
        self.asked: list[dict[str, Any]] = []
        self.now = self.most = 0

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving(key: str = "", together: int = 1) -> Iterator[Counting]:
    """The server, while it answers."""
    with Counting(key, together) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def run(load: Load) -> None:
    """Runs a load to its end."""
    deadline = time.monotonic() + TIMEOUT_S
    load.start()
    while not load.over:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    load.stop()


def prompts(count: int) -> list[Prompt]:
    """So many different ones."""
    return [Prompt(text=f"prompt {number}") for number in range(count)]


def test_requests_are_sent_in_order_so_many_at_a_time() -> None:
    """Twelve, three at a time; each with its own length or the load's, and greedy."""
    asked = [*prompts(11), Prompt(text="short", max_tokens=2)]
    with serving(together=3) as server:
        load = HttpLoad(server.url, asked, warm_up=3, concurrency=3, max_tokens=8)
        run(load)
        assert server.most == 3
        assert sorted(body["text"] for body in server.asked) == sorted(p.text for p in asked)
        first = {body["text"] for body in server.asked[:3]}
        assert first == {"prompt 0", "prompt 1", "prompt 2"}
        assert {body["sampling_params"]["temperature"] for body in server.asked} == {0}
        assert all(body["sampling_params"]["ignore_eos"] for body in server.asked)
        lengths = {b["text"]: b["sampling_params"]["max_new_tokens"] for b in server.asked}
        assert (lengths["prompt 0"], lengths["short"]) == (8, 2)
        assert load.progress() == "12 of 12 requests"


def test_what_warms_up_and_what_ends_when_nothing_is_left_to_begin_does_not_count() -> None:
    """One at a time: of twelve the first four warm up, and with the last one the load is over."""
    with serving() as server:
        load = HttpLoad(server.url, prompts(12), warm_up=4, concurrency=1, max_tokens=8)
        run(load)
    found = load.result()
    assert (found.requests, found.tokens) == (8, 64)
    seconds = (found.end_ns - found.begin_ns) / 1e9
    assert seconds >= 8 * ANSWER_S
    assert found.tokens_per_s == pytest.approx(64 / seconds)


def test_a_request_that_is_refused_ends_the_load_and_is_told() -> None:
    """With the status and what the server said."""
    with serving() as server:
        load = HttpLoad(
            server.url, [*prompts(2), Prompt(text="no"), *prompts(50)], warm_up=0,
            concurrency=1, max_tokens=8,
        )  # fmt: skip
        run(load)
        assert len(server.asked) == 3
    with pytest.raises(SpectraceError, match=r"status 400.*too long"):
        load.result()


def test_a_server_with_a_key_is_sent_it_and_nobody_is_shown_it() -> None:
    """The wrong one is refused, with what to name instead, even where the server repeats it."""
    with serving("s3cr3t") as server:
        load = HttpLoad(
            server.url, prompts(8), warm_up=2, concurrency=2, max_tokens=8, key="s3cr3t"
        )
        run(load)
        assert len(server.asked) == 8
        wrong = HttpLoad(
            server.url, prompts(8), warm_up=2, concurrency=1, max_tokens=8, key="oth3r"
        )
        run(wrong)
    with pytest.raises(SpectraceError, match=r"status 401.*SPECTRACE_API_KEY") as refused:
        wrong.result()
    assert "oth3r" not in str(refused.value)


def test_a_load_that_is_stopped_sends_no_more_and_has_no_result() -> None:
    """As at Ctrl-C."""
    with serving() as server:
        load = HttpLoad(server.url, prompts(1000), warm_up=1, concurrency=2, max_tokens=8)
        load.start()
        while len(server.asked) < 4:
            time.sleep(0.005)
        load.stop()
        assert load.over
        assert len(server.asked) < 1000
    with pytest.raises(SpectraceError):
        load.result()


def test_more_warm_up_than_requests_cannot_count() -> None:
    """That is said, and what to change."""
    with serving() as server:
        load = HttpLoad(server.url, prompts(2), warm_up=2, concurrency=2, max_tokens=8)
        run(load)
    with pytest.raises(SpectraceError, match="--requests"):
        load.result()


def test_a_server_is_asked_whether_it_is_well() -> None:
    """One that answers is taken and healthy, one that has gone is neither."""
    with serving() as server:
        url = server.url
        assert is_healthy(url)
        assert is_taken(url)
    assert not is_healthy(url)
    assert not is_taken(url)


def test_a_command_is_a_load_until_it_ends(tmp_path: Path) -> None:
    """It is told the address in two ways, and of its time four fifths count."""
    program = (
        "import os, sys, time; time.sleep(0.2); print(sys.argv[1], os.environ['SPECTRACE_URL'])"
    )
    load = CommandLoad(
        f'{sys.executable} -c "{program}" --url={{url}}', "http://here", tmp_path / "log"
    )
    begin = time.time_ns()
    run(load)
    assert (tmp_path / "log").read_text() == "--url=http://here http://here\n"
    found = load.result()
    assert found.tokens_per_s is None
    assert found.begin_ns > begin + 0.02e9
    assert found.end_ns - found.begin_ns > 0.8 * 0.2e9


def test_a_command_is_told_the_key_in_a_variable(tmp_path: Path) -> None:
    """So that it is in no command line."""
    program = "import os; print(os.environ['SPECTRACE_API_KEY'])"
    load = CommandLoad(f'{sys.executable} -c "{program}"', "u", tmp_path / "log", key="k3y")
    run(load)
    assert (tmp_path / "log").read_text() == "k3y\n"


def test_all_processes_of_a_command_are_ended(tmp_path: Path) -> None:
    """Those that a shell has started too, also where the shell itself has gone."""
    for number, command in enumerate(("sleep 60 & echo $!; sleep 61; true", "sleep 60 & echo $!")):
        log = tmp_path / str(number)
        load = CommandLoad(f"bash -c {shlex.quote(command)}", "u", log)
        load.start()
        deadline = time.monotonic() + TIMEOUT_S
        while not log.read_text().endswith("\n"):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        child = psutil.Process(int(log.read_text()))
        load.stop()
        assert load.over
        with contextlib.suppress(psutil.NoSuchProcess):
            assert child.status() == psutil.STATUS_ZOMBIE


def test_a_command_that_fails_is_named_with_its_output(tmp_path: Path) -> None:
    """And so is one that cannot be started."""
    load = CommandLoad(f'{sys.executable} -c "raise SystemExit(3)"', "u", tmp_path / "log")
    run(load)
    with pytest.raises(SpectraceError, match=f"status 3.*{tmp_path / 'log'}"):
        load.result()
    with pytest.raises(SpectraceError, match="cannot be started"):
        CommandLoad("/no/such/program", "u", tmp_path / "log").start()


def test_the_same_seed_gives_the_same_requests() -> None:
    """All prompts come before any comes again."""
    known = own_prompts()
    found = in_order(known, 30, seed=4)
    assert found == in_order(known, 30, seed=4)
    assert found != in_order(known, 30, seed=5)
    assert {prompt.text for prompt in found[: len(known)]} == {prompt.text for prompt in known}


def test_prompts_are_read_from_lines(tmp_path: Path) -> None:
    """Text, or JSON with a length; empty lines are left out."""
    file = tmp_path / "prompts"
    file.write_text('Say it.\n\n{"text": "Say more.", "max_tokens": 7}\n')
    assert read_prompts(file) == [
        Prompt(text="Say it."),
        Prompt(text="Say more.", max_tokens=7),
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("\n", "holds no prompts"),
        ('{"text": 1}', "Line 1"),
        ("{", "Line 1"),
        ('{"text": ""}', "asks for nothing"),
        ('{"text": "a", "max_tokens": 0}', "asks for nothing"),
    ],
)
def test_a_file_without_prompts_is_refused(tmp_path: Path, content: str, says: str) -> None:
    """With the line that is wrong."""
    file = tmp_path / "prompts"
    file.write_text(content)
    with pytest.raises(SpectraceError, match=says):
        read_prompts(file)
    with pytest.raises(SpectraceError, match="cannot be read"):
        read_prompts(tmp_path / "none")
