"""What a sweep says: of each setting, of the best one, and where it must leave that open."""

from __future__ import annotations

import io

import numpy as np
import pytest
import typer
from rich.console import Console

from spectrace.analysis.intervals import Estimate
from spectrace.analysis.sweep_report import (
    Columns,
    Measured,
    SettingFigures,
    SweepReport,
    figures,
    report,
)
from spectrace.cli.sweep import key_of, list_option, turns_of, url_of
from spectrace.cli.sweep_settings import Setting
from spectrace.cli.sweep_words import render, sentences
from tests.unit.test_throughput import T0, between

MS = 1_000_000


def cycles(count: int, every_ms: float, took_ms: float, *, correct: int | None) -> Columns:
    """Decode cycles of one request, one after another, that end every so many ms."""
    ends = T0 + np.round((np.arange(count) + 1) * every_ms * MS).astype(np.int64)
    drafts = correct is not None
    return {
        "group_name": np.full(count, "", dtype=object),
        "kind": np.full(count, "speculative" if drafts else "decode", dtype=object),
        "batch_size": np.ones(count, dtype=np.int64),
        "start_ns": ends - round(took_ms * MS),
        "end_ns": ends,
        "probe_ns": np.full(count, 20_000),
        "ended_idle": np.zeros(count, dtype=bool),
        "incomplete": np.zeros(count, dtype=bool),
        "tokens": np.full(count, 1 + (correct or 0)),
        "verifies": np.full(count, int(drafts)),
        "correct_drafts": np.full(count, correct or 0),
    }


def test_the_figures_of_a_setting_are_those_of_its_cycles() -> None:
    """1000 cycles of 8 ms in 10 s, each with 2 correct drafts: 3 tokens in 10 ms are 300 a second.

    They are under way for 8 of 10 ms, and the probe takes 0.02 of them.
    """
    start = Measured(cycles(1000, 10.0, 8.0, correct=2), T0, T0 + 10_000 * MS + 1, 290.0)
    found = figures("5-steps", (), [start])
    assert found.tokens_per_s is not None
    assert found.tokens_per_s.value == pytest.approx(300)
    assert found.accept_length is not None
    assert found.accept_length.value == 3
    assert found.cycle_p50_ms is not None
    assert found.cycle_p50_ms.value == pytest.approx(8)
    assert found.tokens_per_cycle == 3
    assert found.busy_share == pytest.approx(0.8)
    assert found.probe_share == pytest.approx(0.002)
    assert found.sent_tokens_per_s == 290
    assert found.cycles == 1000


def test_plain_decode_has_no_accept_length() -> None:
    """Nothing was verified."""
    start = Measured(cycles(1000, 3.0, 3.0, correct=None), T0, T0 + 3000 * MS, None)
    found = figures("plain", (), [start])
    assert found.accept_length is None
    assert found.sent_tokens_per_s is None


def test_a_setting_without_cycles_failed() -> None:
    """No cycle ended while the load counted."""
    start = Measured(cycles(10, 3.0, 3.0, correct=1), T0 - 100 * MS, T0, None)
    assert "No cycle came" in figures("x", (), [start]).failure


def one(name: str, low: float, high: float, busy: float = 1.0) -> SettingFigures:
    """A setting with this interval."""
    return SettingFigures(
        name=name, arguments=(), tokens_per_s=between(low, high), busy_share=busy, starts=1
    )


def said(*settings: SettingFigures, left: int = 0) -> tuple[SweepReport, str]:
    """A report and its paragraph."""
    found = report(settings, "plain", left)
    return found, " ".join(sentences(found))


def test_the_fastest_is_named_where_it_is_clearly_faster() -> None:
    """Plain decode with 290 to 310 against 200 to 210: speculation makes a third fewer."""
    found, words = said(one("5-steps", 200, 210), one("plain", 290, 310))
    assert found.best == "plain"
    assert [each.name for each in found.settings] == ["plain", "5-steps"]
    assert "Plain decode is the fastest" in words
    assert (
        "Speculation does not pay under this load: at best, with 5-steps, it makes 31.7 % fewer"
        in words
    )


def test_without_a_clear_winner_that_is_said() -> None:
    """The rivals are named, and the value alone decides nothing."""
    found, words = said(one("2-steps", 100, 120), one("3-steps", 95, 105), one("5-steps", 50, 60))
    assert (found.best, found.fastest) == (None, "2-steps")
    assert "There is no clear winner" in words
    assert "does not clear that of 3-steps." in words


def test_speculation_pays_where_its_interval_lies_above_plain_decode() -> None:
    """Twice as many; ± 10 % of both are 0.142 on a logarithmic scale: 73.5 % to 130.5 % more."""
    _, words = said(one("2-steps", 180, 220), one("plain", 90, 110))
    assert "Speculation pays: 2-steps makes 100.0 % more tokens (73.5 % to 130.5 %)" in words


def test_a_gain_over_what_may_be_nothing_has_no_upper_limit() -> None:
    """Plain decode of 100 with 0 to 200, twice as much at most: 1000 is at least 5 times that."""
    _, words = said(one("2-steps", 1000, 1000), one("plain", 0, 200))
    assert "2-steps makes 900.0 % more tokens (at least 400.0 %)" in words


def test_whether_speculation_pays_is_left_open_where_the_intervals_meet() -> None:
    """Neither above nor below."""
    _, words = said(one("2-steps", 90, 115), one("plain", 90, 110))
    assert "Whether speculation pays cannot be said" in words


def test_a_load_that_leaves_the_server_idle_is_told() -> None:
    """Its throughput is the load's."""
    _, words = said(one("2-steps", 90, 110, busy=0.4), one("plain", 90, 110))
    assert "40 % with 2-steps" in words


def test_failures_and_what_is_left_are_told() -> None:
    """With the reason, and how to go on."""
    failed = SettingFigures(
        name="7-steps", arguments=(), failure="The server ended.", last_lines=("out of memory",)
    )
    found, words = said(one("plain", 90, 110), failed, left=2)
    assert found.settings[-1].name == "7-steps"
    assert "7-steps was not measured: the server ended." in words
    assert "2 of the turns are still to be measured" in words
    console = Console(file=io.StringIO(), width=120)
    console.print(render(found))
    assert isinstance(console.file, io.StringIO)
    assert "out of memory" in console.file.getvalue()


def test_every_second_round_goes_backwards() -> None:
    """So that a drift of the machine meets all settings alike."""
    a, b = Setting(name="a"), Setting(name="b")
    assert [turn.name for turn in turns_of([a, b], 3)] == ["a.1", "b.1", "b.2", "a.2", "a.3", "b.3"]


def test_the_address_is_that_of_the_command() -> None:
    """Its host and port, the usual ones, or what is given instead."""
    assert url_of(("run", "--host", "10.0.0.1", "--port", "8000"), None) == "http://10.0.0.1:8000"
    assert url_of(("run", "--host=0.0.0.0"), None) == "http://127.0.0.1:30000"
    assert url_of(("run",), "localhost:9000/") == "http://localhost:9000"
    for given in ("http://", "http://here:99999", "here:port", "here:0", "http://[::1"):
        with pytest.raises(typer.BadParameter, match="is no address"):
            url_of(("run",), given)


def test_the_key_of_a_server_is_given_or_that_of_its_command() -> None:
    """One that no header can carry is refused and not shown."""
    assert key_of(("run", "--api-key", "a"), None) == "a"
    assert key_of(("run", "--api-key=a"), "b") == "b"
    assert key_of(("run",), None) == ""
    for key in ("s3 cr3t", "s3cr3t\n", "s\u00e9cr3t"):
        with pytest.raises(typer.BadParameter) as refused:
            key_of(("run",), key)
        assert "cr3t" not in str(refused.value)


def test_lists_of_numbers_are_read() -> None:
    """With blanks or without."""
    assert list_option("1, 2,5") == (1, 2, 5)
    for text in ("", "1,,2", "-1", "a"):
        with pytest.raises(typer.BadParameter):
            list_option(text)


def test_an_interval_that_is_not_known_clears_nothing() -> None:
    """A value alone is no winner."""
    unknown = SettingFigures(
        name="2-steps", arguments=(), tokens_per_s=Estimate(value=500, low=None, high=None)
    )
    found, words = said(unknown, one("plain", 90, 110))
    assert found.best is None
    assert "no clear winner" in words
