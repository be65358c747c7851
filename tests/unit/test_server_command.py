"""`spectrace serve` brings up the page and takes it down without a trace."""

from __future__ import annotations

import signal
import subprocess
import sys

import httpx
import pytest
import typer
from typer.testing import CliRunner

from spectrace.cli.page_options import size_option
from spectrace.cli.serve import serve

APP = typer.Typer()
APP.command()(serve)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1GB", 1_000_000_000),
        ("1GiB", 1 << 30),
        ("500MB", 500_000_000),
        ("1500.5kB", 1_500_500),
        ("2000KB", 2_000_000),
        ("1000000", 1_000_000),
        ("1000000B", 1_000_000),
    ],
)
def test_sizes_are_read_with_their_units(text: str, size: int) -> None:
    """GB counts in thousands, GiB in 1024."""
    assert size_option(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1GB", "1XB", "GB", "999KB", "1 2GB"])
def test_what_is_no_size_is_refused_with_examples(text: str) -> None:
    """The message shows how to write one."""
    with pytest.raises(typer.BadParameter, match="500MB"):
        size_option(text)


def test_other_addresses_are_refused_on_the_command_line() -> None:
    """Nothing is opened to the network by an option."""
    result = CliRunner().invoke(APP, ["--host", "0.0.0.0"])  # noqa: S104 - it is to be refused
    assert result.exit_code == 1
    assert "ssh -L" in str(result.exception)


@pytest.mark.parametrize("option", [("--retain", "soon"), ("--max-size", "much")])
def test_options_that_make_no_sense_are_refused(option: tuple[str, str]) -> None:
    """Typer shows the usage."""
    assert CliRunner().invoke(APP, option).exit_code == 2


def test_the_command_says_where_the_page_is_and_ends_at_a_signal() -> None:
    """It prints the address, answers there, and leaves with 0."""
    code = "import typer; from spectrace.cli.serve import serve; typer.run(serve)"
    with subprocess.Popen(
        [sys.executable, "-c", code, "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout is not None
        url = command.stdout.readline().removeprefix("The page: ").strip()
        assert httpx.get(f"{url}/api/state").status_code == 200
        command.send_signal(signal.SIGINT)
        assert command.wait(5) == 0
