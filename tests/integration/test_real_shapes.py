"""A real server of another shape: pipeline ranks."""

from __future__ import annotations

from examples.sglang_cpu.load import generate
from examples.sglang_cpu.server import CpuServer, ServerOptions, cores_of_ranks
from spectrace.attach import discover
from spectrace.attach.session import TraceSession
from tests.helpers.tracing import requests_of, traced

REQUESTS = 6
TOKENS = 16


def test_pipeline_ranks_are_joined_by_cycle() -> None:
    """Each stage is a rank under its own name, and a Cycle has what both reported."""
    options = ServerOptions(
        speculative=False,
        extra_args=("--pp-size", "2"),
        extra_env={"SGLANG_CPU_OMP_THREADS_BIND": cores_of_ranks(2)},
    )
    with CpuServer(options) as server:
        run = discover.find_by_url(server.url)
        assert [rank.name for rank in run.ranks] == ["PP0", "PP1"]
        generate(server.url, requests=2, concurrency=2, max_new_tokens=4, tag="first")
        with TraceSession(run) as session:
            work = requests_of(server.url, requests=REQUESTS, tag="piped", tokens=TOKENS)
            answers, collected = traced(session, work)
        assert all(out.removed for out in session.detach())
    cycles = collected.cycles
    assert len(cycles) > TOKENS
    assert {tuple(rank.rank for rank in cycle.ranks) for cycle in cycles} == {("PP0", "PP1")}
    counts = collected.counts()
    for answer in answers:
        assert counts[answer.request_id].output_tokens == answer.completion_tokens
