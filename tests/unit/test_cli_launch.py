"""A launched server is traced with all its ranks, also with those that come late."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from spectrace.attach.launched import Launched
from spectrace.cli import launch
from spectrace.cli.screens import LineScreen, LiveScreen
from spectrace.cli.stopping import Stop
from spectrace.model import Rank, Run
from tests.unit.test_cli_follow import RUN

ONE = msgspec.structs.replace(RUN, ranks=(Rank(name="TP0", pid=1),))
BOTH = msgspec.structs.replace(RUN, ranks=(Rank(name="TP0", pid=1), Rank(name="TP1", pid=2)))


class Growing:
    """A server whose second rank is there at the second look."""

    exit_code: int | None = None

    def __init__(self, *found: Run | None) -> None:
        self._found = list(found)

    def find(self) -> Run | None:
        """One after the other; the last one for good."""
        return self._found.pop(0) if len(self._found) > 1 else self._found[0]


def followed(server: Any, stop: Stop, code: int = 0) -> tuple[int, list[Run]]:
    """Follows a server, whose sessions end when they are asked to, and the second one by itself."""
    runs: list[Run] = []

    def follow(run: Run, asked: Stop) -> int:
        runs.append(run)
        deadline = time.monotonic() + 10
        while len(runs) < 2 and not asked.requested and time.monotonic() < deadline:
            time.sleep(0.001)
        return code

    return launch._follow(follow, server, ONE, stop), runs


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the pause between two looks."""
    monkeypatch.setattr(launch, "_LOOK_S", 0.0)


def test_a_rank_that_comes_late_is_traced_with_the_others() -> None:
    """The session ends and one with all ranks begins."""
    server = Growing(ONE, None, BOTH)  # a look may find nothing, while processes come and go
    assert followed(server, Stop(), code=3) == (3, [ONE, BOTH])


def test_asked_to_stop_no_second_session_begins() -> None:
    """Not even where a rank comes at that moment."""
    stop = Stop()
    stop.request()
    assert followed(Growing(BOTH), stop) == (0, [ONE])


def test_after_a_while_nobody_looks_for_ranks_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking at all processes of a machine takes time that the server could use."""
    monkeypatch.setattr(launch, "_GROWTH_S", 0.0)
    server: Any = Growing(BOTH)
    watch = launch.StopOrGrowth(Stop(), server, ONE)
    assert not watch.requested
    assert watch.grown is None


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
