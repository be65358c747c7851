"""Real servers of other shapes: an engine within another program, and pipeline ranks."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from examples.sglang_cpu.load import Answer, generate, parse
from examples.sglang_cpu.server import (
    PYTHON,
    CpuServer,
    ServerOptions,
    arguments,
    cores_of_ranks,
    environment,
    free_port,
    prepare_models,
)
from spectrace.attach import discover, ring_file
from spectrace.attach.session import TraceSession
from tests.helpers.tracing import requests_of, traced

REQUESTS = 6
TOKENS = 16

# A program that is no server: it holds an engine, and answers whenever it reads a line.
PROGRAM = """
import json, sys

def main():
    import sglang
    from sglang.srt.server_args import prepare_server_args
    engine = sglang.Engine(server_args=prepare_server_args(sys.argv[1:]))
    print("up", flush=True)
    sampling = {"temperature": 0, "ignore_eos": True}
    for line in sys.stdin:
        prompts = json.loads(line)
        tokens = [{**sampling, "max_new_tokens": 12 + place} for place in range(len(prompts))]
        print(json.dumps(engine.generate(prompts, tokens)), flush=True)
    engine.shutdown()

if __name__ == "__main__":
    main()
"""


@contextlib.contextmanager
def program_with_engine(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The program, once its engine is up."""
    prepare_models()
    script = folder / "rollout.py"
    script.write_text(PROGRAM, "utf-8")
    options = ServerOptions()
    log = folder / "log"
    with (
        log.open("w") as complaints,
        subprocess.Popen(
            [PYTHON, script, *arguments(options, free_port(), free_port())],
            env=environment(options, os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            said = iter(process.stdout.readline, "")
            assert "up\n" in said, log.read_text("utf-8")[-2000:]
            yield process
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
        finally:
            process.kill()


def answers_of(process: subprocess.Popen[str]) -> list[Answer]:
    """What the program's engine answers, all requests at once."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([f"{number} def main():" for number in range(REQUESTS)]) + "\n")
    process.stdin.flush()
    return [parse(reply) for reply in json.loads(process.stdout.readline())]


def test_engine_within_another_program_is_traced(tmp_path: Path) -> None:
    """Found by the program's process, its counts are those of the engine, and answers the same."""
    with program_with_engine(tmp_path) as process:
        run = discover.find_by_pid(process.pid)
        assert [rank.name for rank in run.ranks] == ["TP0"]
        assert str(tmp_path / "rollout.py") in run.command
        before = answers_of(process)
        with TraceSession(run) as session:
            answers, collected = traced(session, lambda: answers_of(process))
        assert [answer.token_ids for answer in answers] == [one.token_ids for one in before]
        counts = collected.counts()
        for answer in answers:
            ours = counts[answer.request_id]
            assert (ours.cycles, ours.correct_drafts) == (
                answer.verify_count,
                answer.correct_drafts,
            )
        assert discover.again(run) is run
        assert not ring_file.ring_path(run.ranks[0].pid).exists()


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
