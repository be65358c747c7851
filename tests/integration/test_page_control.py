"""What a person asks for on the page is done to the server, and only for whom it is due.

The tests share one page, and the one that ends tracing comes when the others have asked.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from examples.simulated_gpu.demo import running
from examples.simulated_gpu.options import Options
from spectrace.attach import ring_file
from tests.helpers.command import TIMEOUT_S, first_line_with, run, start
from tests.helpers.page import Paged, paged, until

NOBODY = 65534
_A_BLOCK_S = 1.5
WISHES = [("timing", {"mode": "sync"}), ("detach", {})]
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    """Process id of a simulated server, with cycles of 9 ms."""
    with running(Options(shape="v2", scale=0.3)) as pid:
        yield pid


@pytest.fixture(scope="module")
def traced(server: int) -> Iterator[Paged]:
    """The page of a command that traces it."""
    with paged("attach", str(server), "--port", "0") as shown:
        until(lambda: shown.runs() and shown.cycles(1))
        yield shown


def ask(traced: Paged, what: str, wish: object, headers: dict[str, str] = JSON) -> httpx.Response:
    """Asks for something as the page does."""
    (run,) = traced.runs()
    return httpx.post(
        f"{traced.url}/api/runs/{run['run']}/{what}",
        content=json.dumps(wish),
        headers=headers,
        timeout=TIMEOUT_S,
    )


def modes_of(cycle: dict[str, Any]) -> set[str]:
    """How the ranks of a cycle were timed."""
    return {rank["mode"] for rank in cycle["ranks"]}


@pytest.mark.parametrize(
    ("wish", "headers", "status", "why"),
    [
        ({"mode": "fast"}, JSON, 400, "device"),
        ({"mode": "host", "more": 1}, JSON, 400, "more"),
        ({"mode": "h" * 2000}, JSON, 413, "too long"),
        ([], JSON, 400, "device"),
        ({}, JSON, 400, "nothing was asked for"),
        ({"sample_every": 0}, JSON, 400, "from 1 to 10000"),
        ({"sample_every": 10001}, JSON, 400, "from 1 to 10000"),
        ({"sample_every": 2.5}, JSON, 400, "from 1 to 10000"),
        ({"mode": "host"}, {"content-type": "text/plain"}, 415, "application/json"),
        ({"mode": "host"}, JSON | {"origin": "http://evil.example"}, 403, "own page"),
        ({"mode": "host"}, JSON | {"host": "evil.example"}, 403, "127.0.0.1"),
    ],
)
def test_what_is_no_wish_of_the_page_changes_nothing(
    traced: Paged, wish: object, headers: dict[str, str], status: int, why: str
) -> None:
    """It is answered with a sentence, and the server is timed as before."""
    answer = ask(traced, "timing", wish, headers)
    assert answer.status_code == status
    assert why in answer.text
    newest = max(traced.cycles(1))
    until(lambda: max(traced.cycles(1)) >= newest + 60)
    assert {mode for cycle in traced.cycles().values() for mode in modes_of(cycle)} == {"device"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process of somebody else")
def test_somebody_else_on_this_machine_may_look_and_not_decide(traced: Paged) -> None:
    """The page is open to all on loopback, the server that it shows is not theirs."""
    (run,) = traced.runs()
    host, port = traced.url.removeprefix("http://").split(":")
    head = f"HTTP/1.1\\r\\nhost: {host}:{port}\\r\\nconnection: close\\r\\n"
    body = 'content-type: application/json\\r\\ncontent-length: 16\\r\\n\\r\\n{"mode": "sync"}'
    # The user changes within: it may have no access to this interpreter, nor to its library.
    code = (
        "import os, socket\n"
        f"os.setuid({NOBODY})\n"
        "for how, what in (('GET', 'cycles?limit=1'), ('POST', 'timing'), ('POST', 'detach'),\n"
        "                  ('POST', 'exports'), ('POST', 'recording')):\n"
        "    to = socket.socket()\n"
        f"    to.connect(({host!r}, {port}))\n"
        f"    asked = how + ' /api/runs/{run['run']}/' + what + ' {head}{body}'\n"
        "    to.sendall(asked.encode())\n"
        "    found = b''\n"
        "    while chunk := to.recv(65536): found += chunk\n"
        "    print(found.decode().split(' ', 1)[1].splitlines()[0], found[-200:])\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    ).stdout.splitlines()
    assert [line[:3] for line in said] == ["200", "403", "403", "403", "403"]
    assert all("Only the account that runs spectrace" in line for line in said[1:])


def test_another_mode_comes_at_the_cycle_that_was_answered(traced: Paged) -> None:
    """Every cycle before it is timed as before, every one from it on as was asked."""
    assert traced.runs()[0]["steerable"] is True
    (switch,) = ask(traced, "timing", {"mode": "host"}).json()["switches"]
    first = switch["from_cycle"]
    until(lambda: max(traced.cycles(1)) >= first + 20)
    seen = traced.cycles(2000)
    assert {mode for n, cycle in seen.items() if n < first for mode in modes_of(cycle)} == {
        "device"
    }
    assert {mode for n, cycle in seen.items() if n >= first for mode in modes_of(cycle)} == {"host"}


def by_the_page(traced: Paged, server: int, every: int) -> int:
    """Asks for another sampling as the page does; gives the first cycle for which it holds."""
    del server
    (switch,) = ask(traced, "timing", {"sample_every": every}).json()["switches"]
    return int(switch["from_cycle"])


def by_the_command(traced: Paged, server: int, every: int) -> int:
    """Asks for it from the command line."""
    del traced
    command = run("sample", str(every), str(server))
    assert command.returncode == 0, command.stderr
    said = re.fullmatch(r"TP0: (.*) in full from cycle (\d+) on \(.*\)\.\n", command.stdout)
    assert said is not None, command.stdout
    assert said[1] == ("every cycle" if every == 1 else f"one cycle in {every}")
    return int(said[2])


@pytest.mark.parametrize("asked", [by_the_page, by_the_command])
def test_another_sampling_comes_at_the_cycle_that_was_answered(
    traced: Paged, server: int, asked: Callable[[Paged, int, int], int]
) -> None:
    """Every fifth cycle is in full between two answers, the others are counted and in no figure."""
    before = traced.runs()[0]["skipped"]
    first = asked(traced, server, 5)
    until(lambda: traced.runs()[0]["sample_every"] == 5)
    last = asked(traced, server, 1)
    wanted = {
        *range(first - 10, first),
        *(n for n in range(first, last) if n % 5 == 0),
        *range(last, last + 10),
    }
    until(lambda: max(traced.cycles(1)) >= last + 10)
    until(lambda: wanted == {n for n in traced.cycles(2000) if first - 10 <= n < last + 10})
    left_out = last - first - sum(n % 5 == 0 for n in range(first, last))

    def skipped() -> dict[str, int]:
        after = traced.runs()[0]["skipped"]
        return {name: after[name] - before[name] for name in after}

    until(lambda: skipped()["cycles"] == left_out)
    assert traced.runs()[0]["sample_every"] == 1
    # One request at a time, which verifies in each cycle but its first and behind its last.
    assert left_out / 2 < skipped()["verifies"] <= left_out
    page = httpx.get(f"{traced.url}/metrics", timeout=TIMEOUT_S).text
    counted = re.search(r"^spectrace_skipped_cycles_total\{.*\} (\d+)", page, re.MULTILINE)
    assert counted is not None
    assert int(counted[1]) == traced.runs()[0]["skipped"]["cycles"]


def test_tracing_ends_and_the_page_stays(server: int, traced: Paged) -> None:
    """The probe is out, what was collected is there, and there is nothing more to ask."""
    assert ask(traced, "detach", {}).json() == {"switches": []}
    until(lambda: traced.runs()[0]["state"] == "detached")
    until(lambda: not ring_file.ring_path(server).exists())
    (run,) = traced.runs()
    assert run["steerable"] is False
    assert traced.cycles()
    assert "not traced from here" in ask(traced, "timing", {"mode": "host"}).json()["detail"]
    assert traced.process.poll() is None


def test_who_only_reads_along_is_told_who_decides(server: int) -> None:
    """The wish is refused with who controls; nothing is changed."""
    first = start("attach", str(server), "--no-page")
    first_line_with(first, "cycles/s")
    with paged("attach", str(server), "--port", "0") as along:
        until(lambda: along.runs() and along.cycles(1))
        for what, wish in WISHES:
            answer = ask(along, what, wish)
            assert answer.status_code == 409
            assert f"Process {first.pid} controls" in answer.json()["detail"]
        assert along.runs()[0]["state"] == "tracing"
    first.send_signal(signal.SIGINT)
    output, errors = first.communicate(timeout=TIMEOUT_S)
    assert first.returncode == 0, output + errors


def test_a_comparison_that_took_control_is_not_disturbed(server: int) -> None:
    """Another mode and the end are refused with who controls; no block has a wrong mode for it.

    Its first block is mode off or behind it: so long is the page asked, and again in a later one.
    """
    with paged("attach", str(server), "--port", "0") as shown:
        until(lambda: shown.runs() and shown.cycles(1))
        command = ("--yes", "--json", "--take-control", "--duration", "25s")
        comparing = start("compare-timing", str(server), *command)
        assert comparing.stderr is not None
        while "One of 4 blocks" not in comparing.stderr.readline():  # it is in, and controls
            assert comparing.poll() is None
        for _ in range(3):
            for what, wish in WISHES:
                answer = ask(shown, what, wish)
                assert answer.status_code == 409, answer.text
                assert f"Process {comparing.pid} controls" in answer.json()["detail"]
            time.sleep(_A_BLOCK_S)
        output, errors = comparing.communicate(timeout=TIMEOUT_S)
        assert comparing.returncode == 0, errors
        found = json.loads(output)
        assert found["end"] is None
        assert "other_mode" not in found["comparison"]["left_out"]
        assert [figures["mode"] for figures in found["comparison"]["modes"]] == [
            "off",
            "host",
            "device",
            "sync",
        ]
        until(lambda: shown.runs()[0]["state"] == "tracing")
        (switch,) = ask(shown, "timing", {"mode": "host"}).json()["switches"]  # control is back
        assert switch["ranks"] == ["TP0"]
