"""spectrace beside spectrace on one real server: sent over OTLP, and killed."""

from __future__ import annotations

import signal
from contextlib import suppress
from itertools import pairwise

import pytest

from examples.sglang_cpu.load import generate
from examples.sglang_cpu.server import CpuServer
from tests.conftest import Served
from tests.helpers.command import run
from tests.helpers.page import paged, until

# Two ranks.
pytestmark = pytest.mark.parametrize("served", ["tp2"], indirect=True)


@pytest.fixture
def server(served: Served) -> CpuServer:
    """It, without other load."""
    return served.server


def test_a_second_spectrace_shows_the_same_cycles_sent_over_otlp(server: CpuServer) -> None:
    """What one spectrace sends, another that only serves has, each cycle the same."""
    with paged("serve", "--port", "0") as receiver:
        arguments = ("--port", "0", "--otlp-endpoint", receiver.url)
        with paged("attach", str(server.pid), *arguments) as sender:
            generate(server.url, requests=8, concurrency=4, max_new_tokens=16, tag="sent")
            until(lambda: sender.runs() and len(sender.cycles()) >= 10)
            with suppress(AssertionError):  # the assertions below say what is not the same
                until(lambda: receiver.runs() and receiver.cycles() == sender.cycles())
            sent, received = sender.cycles(), receiver.cycles()
        assert sorted(received) == sorted(sent)
        assert all(b - a == 1 for a, b in pairwise(sorted(sent)))
        for number, cycle in sent.items():
            assert received[number] == cycle
        (run,) = receiver.runs()
        assert run["source"] == "received"
        assert run["engine"] == "sglang 0.5.23"


def test_who_comes_second_reads_along_and_its_page_says_so(server: CpuServer) -> None:
    """Both pages have the same cycles; the second one names the process that controls."""
    with (
        paged("attach", str(server.pid), "--port", "0") as first,
        paged("attach", str(server.pid), "--port", "0") as second,
    ):
        until(second.runs)
        generate(server.url, requests=4, concurrency=4, max_new_tokens=16, tag="along")
        until(lambda: len(second.cycles()) >= 5 and set(second.cycles()) <= set(first.cycles()))
        until(lambda: f"process {first.process.pid} controls" in str(second.runs()))
        assert "controls" not in str(first.runs())


def test_killing_the_pages_process_does_not_touch_the_server(server: CpuServer) -> None:
    """After SIGKILL to spectrace requests go on with the same tokens."""
    before = generate(server.url, requests=4, concurrency=4, max_new_tokens=16, tag="before")
    with paged("attach", str(server.pid), "--port", "0") as it:
        it.process.send_signal(signal.SIGKILL)
        it.process.wait()
        after = generate(server.url, requests=4, concurrency=4, max_new_tokens=16, tag="after")
    done = run("detach", str(server.pid))
    assert done.returncode == 0, done.stderr
    assert [a.token_ids for a in after] == [b.token_ids for b in before]
