"""spectrace beside spectrace on one real server: sent over OTLP, and killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import pairwise

import pytest

from examples.sglang_cpu.load import generate
from examples.sglang_cpu.server import CpuServer, ServerOptions
from spectrace.attach import ring_file
from tests.helpers.page import paged, until


@pytest.fixture(scope="module")
def server() -> Iterator[CpuServer]:
    """A real EAGLE-3 server with two ranks, without other load."""
    with CpuServer(ServerOptions(tp=2)) as server:
        yield server
    ring_file.sweep()  # a test here kills spectrace, and then its server ends


def test_a_second_spectrace_shows_the_same_cycles_sent_over_otlp(server: CpuServer) -> None:
    """What one spectrace sends, another that only serves has, each cycle the same."""
    with paged("serve", "--port", "0") as receiver:
        arguments = ("--port", "0", "--otlp-endpoint", receiver.url)
        with paged("attach", str(server.pid), *arguments) as sender:
            generate(server.url, requests=8, concurrency=4, max_new_tokens=16, tag="sent")
            sent = until(lambda: sender.runs() and sender.cycles())
            until(lambda: receiver.runs() and set(sent) <= set(receiver.cycles()))
            sent, received = sender.cycles(), receiver.cycles()
        both = sorted(set(sent) & set(received))
        assert len(both) >= 10
        assert all(b - a == 1 for a, b in pairwise(both))
        for number in both:
            assert received[number] == sent[number]
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
        assert f"process {first.process.pid} controls" in str(second.runs())
        assert "controls" not in str(first.runs())


def test_killing_the_pages_process_does_not_touch_the_server(server: CpuServer) -> None:
    """After SIGKILL to spectrace requests go on with the same tokens."""
    before = generate(server.url, requests=4, concurrency=4, max_new_tokens=16, tag="before")
    with paged("attach", str(server.pid), "--port", "0") as it:
        it.process.send_signal(signal.SIGKILL)
        it.process.wait()
        after = generate(server.url, requests=4, concurrency=4, max_new_tokens=16, tag="after")
    assert [a.token_ids for a in after] == [b.token_ids for b in before]
