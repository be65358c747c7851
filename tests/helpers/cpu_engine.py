"""Starts a program that decodes with `sglang.Engine` on the CPU, and asks it for text."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from examples.sglang_cpu.load import LENGTHS, Answer, parse, prompt, sampling
from examples.sglang_cpu.server import (
    PYTHON,
    ServerOptions,
    arguments,
    end_group,
    environment,
    free_port,
    prepare_models,
)

PROGRAM = Path(__file__).parent / "engine_program.py"
GUARD = Path(__file__).parents[2] / "examples" / "sglang_cpu" / "die_with_parent.py"
TAIL = 3000


class CpuEngine:
    """The running program.

    Attributes:
        pid: Of the program, the parent of its schedulers.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
        self.pid = process.pid
        self._process = process
        self._log = log

    def read(self) -> str:
        """The next line of its answers.

        Raises:
            EOFError: It has ended, with the tail of its log.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        if not line:
            self._log.seek(0)
            raise EOFError(self._log.read()[-TAIL:].decode(errors="replace"))
        return line

    def generate(self, *, requests: int, max_new_tokens: int, tag: str) -> list[Answer]:
        """Answers the requests that `load.generate` sends to a server, all at once."""
        indexes = range(requests)
        call = {
            "prompt": [prompt(index) for index in indexes],
            "rid": [f"{tag}-{index:04d}" for index in indexes],
            "sampling_params": [sampling(max_new_tokens + index % LENGTHS) for index in indexes],
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(call).encode() + b"\n")
        self._process.stdin.flush()
        return [parse(reply) for reply in json.loads(self.read())]


@contextmanager
def cpu_engine(options: ServerOptions) -> Iterator[CpuEngine]:
    """The program while the context lasts, with an engine that answers.

    Raises:
        EOFError: The engine cannot be made, with the tail of the log.
    """
    prepare_models()
    guarded = [str(PYTHON), str(GUARD), str(os.getpid()), str(PYTHON), str(PROGRAM)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*guarded, *arguments(options, free_port(), free_port())],
            env=environment(options, os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        try:
            engine = CpuEngine(process, log)
            assert engine.read() == "ready\n"
            yield engine
        finally:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            end_group(process)
            process.stdout.close()
