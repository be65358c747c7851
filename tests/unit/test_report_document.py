"""docs/report.md names what the report and its predictions say."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from spectrace.analysis.prediction import Quantity
from spectrace.analysis.verdict import Answer
from spectrace.cli.main import app

TEXT = (Path(__file__).parents[2] / "docs" / "report.md").read_text("utf-8")


@pytest.mark.parametrize("word", [*Answer, *Quantity], ids=str)
def test_every_answer_and_assumption_is_named(word: Enum) -> None:
    """As it stands in the JSON."""
    assert f"`{word.value}`" in TEXT or f"`{word.value}=" in TEXT


@pytest.mark.parametrize("command", ["report", "predict"])
def test_options_that_the_document_names_are_there(command: str) -> None:
    """Every option in an example of this command is one that it has."""
    known = get_command(app).commands[command].params  # type: ignore[attr-defined]  # a group
    options = {option for param in known for option in param.opts}
    for line in TEXT.replace("\n", " ").split("`"):
        words = line.split()
        if words[:2] == ["spectrace", command]:
            assert {word for word in words if word.startswith("-")} <= options


def test_the_commands_explain_themselves() -> None:
    """`--help` of both ends well."""
    for command in ("report", "predict"):
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0
