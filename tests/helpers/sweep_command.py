"""The command line of a sweep over settings of the real server on the CPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from examples.sglang_cpu.server import (
    HOST,
    PYTHON,
    ServerOptions,
    arguments,
    environment,
    free_port,
    prepare_models,
)
from tests.helpers.command import SPECTRACE


class SweepCommand(NamedTuple):
    """A sweep that has not begun.

    Attributes:
        command: What begins it, and goes on with it.
        environment: Of its servers.
        url: Where they answer.
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    url: str


def sweep_command(folder: Path, *asked: str) -> SweepCommand:
    """A sweep of the server with EAGLE-3.

    Args:
        folder: Where it keeps what it has.
        asked: Its options.
    """
    prepare_models()
    options, port = ServerOptions(), free_port()
    server = (str(PYTHON), "-m", "sglang.launch_server", *arguments(options, port, free_port()))
    return SweepCommand(
        command=(SPECTRACE, "sweep", "-o", str(folder), *asked, "--", *server),
        environment=environment(options, os.environ),
        url=f"http://{HOST}:{port}",
    )
