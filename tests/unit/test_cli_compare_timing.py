"""The command `compare-timing`: what it refuses, what it asks, what it shows and writes."""

from __future__ import annotations

import io
import json
import os
import re
import resource
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from spectrace.analysis.intervals import Estimate
from spectrace.analysis.timing_comparison import compare
from spectrace.cli.compare_timing import TimingResult, announcement, answer, page_of, wish_of
from spectrace.cli.main import app
from spectrace.cli.timing_run import Glance
from spectrace.cli.timing_table import render, with_reach
from spectrace.cli.timing_words import sentences
from spectrace.errors import SpectraceError
from spectrace.model import TimingMode
from tests.helpers.timing_results import found, result


def test_sync_has_to_be_agreed_to() -> None:
    """Where nobody can be asked it takes --yes or --no-sync, and nothing is attached to."""
    done = CliRunner().invoke(app, ["compare-timing", "1"])
    assert isinstance(done.exception, SpectraceError)
    assert "--yes" in str(done.exception)
    assert "--no-sync" in str(done.exception)
    assert done.exception.exit_code == 2


@pytest.mark.parametrize("text", ["1", "0%", "60%", "-1%", "x"])
def test_a_precision_is_a_share(text: str) -> None:
    """From above 0 to 50 %."""
    done = CliRunner().invoke(app, ["compare-timing", "1", "--yes", "--precision", text])
    assert done.exit_code == 2
    assert "no precision" in re.sub(r"[\s│]+", " ", done.output)


@pytest.mark.parametrize(
    ("cycles", "precision", "ends"),
    [(None, None, True), (None, 0.02, True), (500, None, False), (500, 0.02, True)],
)
def test_with_cycles_a_precision_ends_only_what_it_was_given_for(
    cycles: int | None, precision: float | None, *, ends: bool
) -> None:
    """One that nobody asked for is the margin alone, 1 %."""
    wish = wish_of(120.0, cycles, precision, None, 0)
    assert wish.precision_ends is ends
    assert wish.precision == (precision or 0.01)


def test_a_page_is_not_written_over_what_is_there(tmp_path: Path) -> None:
    """That is said before anything is measured, as is what cannot be written; nothing is left."""
    there = tmp_path / "there.html"
    there.write_text("x")
    refused = (
        (there, "exists"),
        (tmp_path / "no" / "x.html", "no folder"),
        (tmp_path, "is a folder: name a file in it"),
        (Path("/proc/x.html"), "cannot be written"),  # not even by root
    )
    for path, says in refused:
        done = CliRunner().invoke(app, ["compare-timing", "1", "--yes", "--html", str(path)])
        assert says in str(done.exception)
    done = CliRunner().invoke(app, ["compare-timing", "1", "--yes", "-f", "--html", str(tmp_path)])
    assert "is a folder" in str(done.exception)
    assert [file.name for file in tmp_path.iterdir()] == ["there.html"]


def test_a_page_that_has_no_room_does_not_cost_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What took minutes to measure is shown, and then what became of the page; no half is left."""
    monkeypatch.setattr("spectrace.cli.compare_timing.find", lambda *_: None)
    monkeypatch.setattr("spectrace.cli.compare_timing.measure", lambda *_: (result(), 0))
    path = tmp_path / "timing.html"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # it stands for the disk
    try:
        command = ["compare-timing", "1", "--yes", "--json", "--html", str(path)]
        done = CliRunner().invoke(app, command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert isinstance(done.exception, SpectraceError)
    assert str(done.exception).startswith(f"{path} cannot be written: File too large.")
    assert json.loads(done.stdout)["comparison"]["rounds"] == 2
    assert list(tmp_path.iterdir()) == []


def test_the_announcement_says_what_sync_costs_at_most() -> None:
    """2.24 ms of the host's work in a cycle of 29.9 ms are 7.5 %, in one of four blocks."""
    said = announcement(Glance(mode=TimingMode.HOST, cycle_ms=29.9, works_ms=2.24, mixed_ms=0.0), 4)
    assert said.startswith("One of 4 blocks")
    assert "A cycle of 29.9 ms becomes longer by 2.24 ms at most, 7.5 %." in said


def test_what_cannot_be_known_is_announced_as_that() -> None:
    """A host that may work where it waits, 27.7 ms: 7.5 % are likely, 100 % are the most."""
    said = announcement(
        Glance(mode=TimingMode.DEVICE, cycle_ms=29.9, works_ms=2.24, mixed_ms=27.66), 4
    )
    assert "by up to 2.24 ms, 7.5 %, if the host only waits" in said
    assert "(27.7 ms). How much it works there too is not known: 100 % is the most." in said


def test_a_server_timed_off_before_has_no_phases_to_tell_from() -> None:
    """Why that is not known is said, and that a cycle can take twice as long."""
    said = announcement(Glance(mode=TimingMode.OFF, cycle_ms=29.9, works_ms=0.0, mixed_ms=29.9), 4)
    assert "is not known, since the server was timed without phases" in said
    assert "100 % at most" in said


def test_a_server_timed_by_sync_already_is_not_slowed_further() -> None:
    """Its cycles are what they will be."""
    said = announcement(
        Glance(mode=TimingMode.SYNC, cycle_ms=30.95, works_ms=3.0, mixed_ms=27.0), 4
    )
    assert "timed so already" in said
    assert "slower" not in said


def test_a_question_is_answered_while_the_session_is_read() -> None:
    """The probe would leave a server whose reader waits for a person."""
    reads, writes = os.pipe()
    polls = []

    def meanwhile() -> None:
        polls.append(1)
        if len(polls) == 3:
            os.write(writes, b" yes\n")

    with os.fdopen(reads) as stream:
        assert answer(stream, meanwhile, lambda: False) == "yes"
    os.close(writes)
    assert len(polls) == 3


def test_a_question_ends_with_the_comparison() -> None:
    """Ctrl-C, a server that has ended, control that is lost: nobody has agreed then."""
    reads, writes = os.pipe()
    polls: list[int] = []
    with os.fdopen(reads) as stream:
        assert answer(stream, lambda: polls.append(1), lambda: len(polls) > 1) == ""
    os.close(writes)


def shown(width: int) -> str:
    """The report on a terminal of this width."""
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(render(found()))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_the_report_fits_a_terminal(width: int) -> None:
    """No line is longer than the terminal and none is cut; every mode has its column."""
    text = shown(width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for part in ("off", "host", "device", "sync", "draft", "verify", "throughput off / on"):
        assert part in text
    assert re.search(r"break-even length +2\.\d\d", text)


@pytest.mark.parametrize(
    ("estimate", "decimals", "text"),
    [
        (Estimate(value=1.234, low=1.2, high=1.25), 2, "1.23 ±0.04"),
        (Estimate(value=-1.3, low=-1.3, high=-1.3), 2, "\u22121.30 ±0.00"),
        (Estimate(value=-0.001, low=-0.002, high=0.0), 2, "0.00 ±0.01"),
        (Estimate(value=1234.5, low=None, high=None), 1, "1,234.5 ±?"),
    ],
)
def test_an_interval_is_never_shown_narrower_than_it_is(
    estimate: Estimate, decimals: int, text: str
) -> None:
    """Its wider side, rounded up; a question mark where there is none."""
    assert with_reach(estimate, decimals) == text


def test_the_page_carries_its_data_and_nothing_from_elsewhere() -> None:
    """No script runs, nothing is fetched, names cannot become markup, the result can be read."""
    text = page_of(result())
    assert "&lt;EAGLEWorker&gt;" in text
    assert "http" not in text
    assert text.count("<script") == 1
    data = text.partition('<script type="application/json" id="result">')[2]
    whole = json.loads(data.partition("</script>")[0])
    assert msgspec.convert(whole, TimingResult) == result()
    for sentence in found().sentences:
        assert sentence.split("'")[-1] in text


def test_the_page_of_nothing_says_so() -> None:
    """Without a cycle there are words and no charts."""
    bare = compare([])
    text = page_of(result(msgspec.structs.replace(bare, sentences=sentences(bare))))
    assert "no cycle came" in text
    assert "<figure>" not in text
