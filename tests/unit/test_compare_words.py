"""`spectrace compare`: what it says in words, and what it refuses."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console
from typer.testing import CliRunner

from spectrace.analysis.run_settings import options_in, setting_differences
from spectrace.cli.compare import compared, names_of
from spectrace.cli.compare_words import markdown, render
from spectrace.cli.main import app
from spectrace.measures import Measures
from spectrace.model import CycleKind
from tests.helpers.measured_run import RUN
from tests.helpers.recorded import cycle_of, record, run_of
from tests.unit.test_run_comparison import five, run, two

NAMES = ("5-steps", "2-steps")


def started(measures: Measures, steps: int, engine: str = "sglang 0.5.23") -> Measures:
    """The same run of a server that was started with so many steps."""
    command = (*RUN.command, "--speculative-num-steps", str(steps), "--port", str(31000 + steps))
    return replace(measures, run=replace(RUN, command=command, engine=engine))


def story() -> tuple[Measures, Measures]:
    """5 steps against 2."""
    return started(run(five), 5), started(run(two, seed=2), 2)


def test_the_paragraph_says_what_is_faster_and_which_phase_makes_it_so() -> None:
    """3.62 ms shorter from 29.9, of which verify makes 3.1."""
    said = " ".join(compared(NAMES, story()).sentences)
    assert re.search(
        r"2-steps makes 1\d\.\d % more tokens per second of decoding than 5-steps", said
    )
    assert re.search(
        r"cycles are 3\.6\d ms \(3\.\d\d to 3\.\d\d\) shorter, from 29\.9 ms to 26\.3 ms", said
    )
    assert re.search("on the device: verify \u22123\\.1\\d ms", said)


def test_settings_that_differ_are_named_and_ports_are_not() -> None:
    """The steps, and the engine's release."""
    one, other = story()
    found = setting_differences(one.run, replace(other.run, engine="sglang 0.5.22"))
    assert [(each.what, each.one, each.other) for each in found] == [
        ("engine", "sglang 0.5.23", "sglang 0.5.22"),
        ("--speculative-num-steps", "5", "2"),
    ]


def test_options_are_read_however_they_are_written() -> None:
    """Behind the option, after `=`, several, or none."""
    command = ("python", "-m", "x", "--a", "1", "--b=2", "--c", "3", "4", "--d")
    assert options_in(command) == {"--a": "1", "--b": "2", "--c": "3 4", "--d": "given"}


def test_the_terminal_and_markdown_have_the_same_figures() -> None:
    """Each row of each table, and the words."""
    found = compared(NAMES, story())
    console = Console(file=io.StringIO(), width=160)
    console.print(render(found))
    assert isinstance(console.file, io.StringIO)
    terminal, text = console.file.getvalue(), markdown(found)
    assert text.startswith("## 5-steps against 2-steps\n")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 10
    figures = [cell for row in rows for cell in row.strip("| ").split(" | ") if "\u00b1" in cell]
    assert len(figures) > 20
    assert [figure for figure in figures if figure not in terminal] == []
    assert "| --speculative-num-steps | 5 | 2 |" in text


def test_a_run_without_a_decode_has_nothing_to_compare() -> None:
    """Prefills alone: no modes, no steps, no cycles, and that is said."""
    prefills = run(five, kind=CycleKind.EXTEND)
    found = compared(NAMES, (run(five), prefills))
    assert "Nothing can be compared" in " ".join(found.sentences)
    assert "| timed in mode | device | \u2013 |" in markdown(found)


def test_nothing_to_compare_is_said() -> None:
    """Batches of 1 and 2."""
    found = compared(NAMES, (run(five), run(five, batch=lambda _: 2)))
    assert "Nothing can be compared" in " ".join(found.sentences)
    assert "Whole cycles" not in markdown(found)


def test_recordings_are_compared_by_the_command(tmp_path: Path) -> None:
    """One JSON object with both runs; the same recording does not differ from itself."""
    cycles = [cycle_of(number, 2) for number in range(300)]
    one = record(tmp_path / "before.spectrace", cycles, run_of(2))
    other = record(tmp_path / "after.spectrace", cycles, run_of(2))
    done = CliRunner().invoke(app, ["compare", str(one), str(other), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["names"] == ["before", "after"]
    assert found["comparison"]["cycle_ms"]["verdict"] == "same"
    assert found["settings"] == []


def test_files_of_the_same_name_are_told_apart_by_their_folders() -> None:
    """As two sweeps have them."""
    assert names_of(Path("a/plain.spectrace"), Path("b/plain.spectrace")) == (
        "a/plain.spectrace",
        "b/plain.spectrace",
    )


def test_one_form_of_output_is_chosen() -> None:
    """JSON and Markdown at once are refused."""
    done = CliRunner().invoke(app, ["compare", "a", "b", "--json", "--markdown"])
    assert "--markdown" in str(done.exception)


@pytest.mark.parametrize("name", ["no.spectrace"])
def test_a_recording_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    """As everywhere."""
    done = CliRunner().invoke(app, ["compare", str(tmp_path / name), str(tmp_path / name)])
    assert name in str(done.exception)


def test_throughput_of_several_groups_is_that_of_one() -> None:
    """With how many each run has; nothing of that where each has one."""
    before, after = story()
    found = compared(NAMES, (before, replace(after, groups=("DP0", "DP1"))))
    assert "of decoding per group, of which they have 1 and 2, than" in " ".join(found.sentences)
    assert "| tokens/s of decoding per group |" in markdown(found)
    assert "| groups | 1 | 2 |" in markdown(found)
    alone = compared(NAMES, (before, after))
    assert "group" not in markdown(alone)
