"""The options of the page reach it, with their defaults, and what makes no sense is refused."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from spectrace.attach import discover
from spectrace.attach.handle import Options
from spectrace.attach.ways import Method
from spectrace.cli import attach, launch, serve
from spectrace.cli.main import app
from spectrace.cli.page_options import size_option
from spectrace.errors import SpectraceError
from spectrace.model import Run
from spectrace.probe.layout import Mode
from spectrace.server import open as open_module
from tests.unit.test_cli_follow import RUN

RUNNER = CliRunner()
DEFAULTS = {"retain_s": 600.0, "max_bytes": 1_000_000_000, "directory": None, "port": None}


class OpenedError(SpectraceError):
    """Ends a command where it opens its page."""


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """With what the page is opened; no page is."""
    calls: list[dict[str, Any]] = []

    def open_page(**options: Any) -> None:
        calls.append(options)
        raise OpenedError("enough")

    monkeypatch.setattr(discover, "find_by_pid", lambda _pid: RUN)
    monkeypatch.setattr(open_module, "open_page", open_page)
    monkeypatch.setattr(serve, "open_page", open_page)
    return calls


@pytest.mark.parametrize("command", [["attach", "70"], ["serve"]])
@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--retain", "2m"], {"retain_s": 120.0}),
        (["--retain", "9" * 400 + "h"], {"retain_s": 1e9}),
        (["--max-size", "5000KB"], {"max_bytes": 5_000_000}),
        (["--max-size", "1.5GiB"], {"max_bytes": 1_610_612_736}),
        (["--port", "0"], {"port": 0}),
        (["--store", "kept/here"], {"directory": Path("kept/here")}),
    ],
)
def test_options_reach_the_page(
    opened: list[dict[str, Any]],
    command: list[str],
    arguments: list[str],
    options: dict[str, object],
) -> None:
    """Each where it belongs; the others are as the help says."""
    result = RUNNER.invoke(app, [*command, *arguments])
    assert isinstance(result.exception, OpenedError)
    assert [{name: call[name] for name in DEFAULTS} for call in opened] == [DEFAULTS | options]


@pytest.mark.parametrize("command", [["attach", "70"], ["serve"]])
@pytest.mark.parametrize(
    "arguments",
    [
        ["--retain", "0s"],
        ["--retain", "10"],
        ["--retain", "999ms"],
        ["--max-size", "1KB"],
        ["--max-size", "0GB"],
        ["--max-size", "much"],
        ["--port", "-1"],
        ["--port", "65536"],
        ["--port", "http"],
    ],
)
def test_options_that_make_no_sense_are_refused(
    opened: list[dict[str, Any]], command: list[str], arguments: list[str]
) -> None:
    """As errors of usage, before anything is opened."""
    assert RUNNER.invoke(app, [*command, *arguments]).exit_code == 2
    assert opened == []


def test_without_a_page_none_is_opened(
    opened: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--no-page` leaves the terminal alone."""
    monkeypatch.setattr(attach, "trace", lambda *_, **__: 0)
    result = RUNNER.invoke(app, ["attach", "70", "--no-page"])
    assert (result.exit_code, result.output, opened) == (0, "", [])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], Options()),
        (["--method", "gdb"], Options(method=Method.GDB)),
        (["--method", "remote-exec"], Options(method=Method.REMOTE_EXEC)),
        (["--timing", "host", "--sample-every", "10"], Options(mode=Mode.HOST, every=10)),
        (["--ring-size", "1MB"], Options(units=31_250)),
    ],
)
@pytest.mark.parametrize("command", ["attach", "launch"])
def test_options_reach_the_session_of_either_command(
    command: str, arguments: list[str], expected: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a server that is found is traced with, one that is launched is traced with too."""
    given: list[Options] = []

    def session(_run: Run, *, options: Options) -> None:
        given.append(options)
        raise OpenedError("enough")

    server = FakeServer()
    monkeypatch.setattr(attach, "TraceSession", session)
    monkeypatch.setattr(discover, "find_by_pid", lambda _pid: RUN)
    monkeypatch.setattr(launch, "Launched", lambda *_: server)
    monkeypatch.setattr(launch, "output_of", lambda *_: nullcontext(-1))
    target = ["70"] if command == "attach" else ["--", "serve", "--tp", "2"]
    RUNNER.invoke(app, [command, "--no-page", *arguments, *target])
    assert given == [expected]
    assert server.stopped == (command == "launch")


class FakeServer:
    """A server that is there at once, and has ended once it is not traced."""

    exit_code = 0
    stopped = False

    def wait_for_ranks(self, _stopped: object) -> Run:
        """At once."""
        return RUN

    def stop(self, _grace_s: float) -> None:
        """Notes it."""
        self.stopped = True


def test_a_size_is_read_exactly_however_long() -> None:
    """No digit is lost on the way, and none is too many."""
    assert size_option("1.1TB") == 1_100_000_000_000
    assert size_option("9" * 400) > 10**27
    with pytest.raises(typer.BadParameter, match="leaves no room"):
        size_option("0.5")
