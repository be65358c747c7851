"""What servers call themselves does nothing to a terminal or a Markdown page."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.text import Text
from typer.testing import CliRunner

from spectrace.cli.main import app
from spectrace.cli.output import OutputConsole, harmless
from spectrace.cli.run_table import plain
from tests.helpers.recorded import cycle_of, record, run_of

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
LEFT = "]0;owned[2J31m"


def test_controls_are_left_out_and_letters_stay() -> None:
    """Also marks of direction and the other set of controls; blanks become spaces."""
    assert harmless(f"a{EVIL}b") == f"a{LEFT}b"
    assert harmless("größer\u00a0大きい\tc\nd") == "größer 大きい c\nd"
    assert plain(f"a{EVIL}|b\nc") == "a]0;owned[2J31m|b c".translate(
        {ord("]"): "\\]", ord("["): "\\[", ord("|"): "\\|"}
    )


def test_a_console_prints_its_own_colours_and_no_controls_of_others() -> None:
    """In a styled text and in a cell alike."""
    console = OutputConsole(force_terminal=True, color_system="standard", width=80)
    with console.capture() as capture:
        console.print(Text(f"a{EVIL}b", style="red"))
    assert capture.get() == f"\x1b[31ma{LEFT}b\x1b[0m\n"


@pytest.mark.parametrize("options", [(), ("--markdown",)])
def test_a_report_and_a_comparison_hold_no_controls(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Of an engine, a host, a rank and an option of evil names."""
    runs = [
        replace(run_of(1), engine=f"{place}{EVIL}", host=f"h{EVIL}", command=("x", f"--a={EVIL}"))
        for place in range(2)
    ]
    files = [
        str(record(tmp_path / f"{place}.spectrace", [cycle_of(n, 1) for n in range(60)], run))
        for place, run in enumerate(runs)
    ]
    for command in (("report", files[0]), ("compare", *files)):
        done = CliRunner().invoke(app, [*command, *options])
        assert done.exit_code == 0, done.output
        assert "owned" in done.stdout
        assert done.stdout.replace("\n", "").isprintable()
