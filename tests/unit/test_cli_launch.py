"""Where the output of a launched server goes."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from spectrace.attach.launched import Launched
from spectrace.cli import launch
from spectrace.cli.screens import LineScreen, LiveScreen


def written(made: Callable[[], AbstractContextManager[Any]], folder: Path) -> bytes:
    """What a server's output comes to that goes where `made` says."""
    with made() as output:
        server = Launched(["sh", "-c", "echo said"], output)
        while server.exit_code is None:
            time.sleep(0.01)
    (file,) = folder.iterdir()
    return file.read_bytes()


def test_beside_a_live_table_the_output_goes_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is not torn, and the file is named."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    screen = LiveScreen(Console(file=io.StringIO(), force_terminal=True))
    assert written(lambda: launch.output_of(None, screen), tmp_path) == b"said\n"


def test_a_file_that_is_named_is_added_to(tmp_path: Path) -> None:
    """`--server-log` keeps what an earlier start has left there."""
    log = tmp_path / "log"
    log.write_bytes(b"before\n")
    screen = LineScreen(Console(file=io.StringIO()))
    assert written(lambda: launch.output_of(log, screen), tmp_path) == b"before\nsaid\n"


def test_without_either_it_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    """So that lines and JSON on stdout stay by themselves."""
    with launch.output_of(None, LineScreen(Console(file=io.StringIO()))) as output:
        server = Launched(["sh", "-c", "echo said"], output)
        assert isinstance(output, int)
        while server.exit_code is None:
            time.sleep(0.01)
    assert capfd.readouterr() == ("", "said\n")
