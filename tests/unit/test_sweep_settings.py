"""Settings of a sweep: what each changes in the command that starts the server."""

from __future__ import annotations

import pytest

from spectrace.cli.sweep_settings import (
    Setting,
    options_of,
    plain,
    replaced,
    settings_of,
    value_of,
)
from spectrace.errors import SpectraceError

COMMAND = (
    *("python", "-m", "sglang.launch_server", "--model-path", "target", "--tp", "8"),
    *("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "draft"),
    *("--speculative-num-steps", "5", "--speculative-eagle-topk", "1"),
    *("--speculative-num-draft-tokens", "6", "--port", "31000"),
)


def commands(**asked: object) -> dict[str, tuple[str, ...]]:
    """The command of each setting by its name."""
    asked = {"steps": (), **asked}
    return {s.name: s.command(COMMAND) for s in settings_of(COMMAND, **asked)}  # type: ignore[arg-type]  # as the command line gives them


def test_steps_take_the_place_of_those_in_the_command() -> None:
    """A draft of 2 steps is verified with 3 tokens; everything else stays."""
    changed = commands(steps=(2,))["2-steps"]
    expected = list(COMMAND)
    expected[expected.index("5")] = "2"
    expected[expected.index("6")] = "3"
    assert changed == tuple(expected)


def test_plain_decode_is_the_command_without_speculation() -> None:
    """It comes first, and all speculative options are gone with their values."""
    found = commands(steps=(2,))
    assert list(found) == ["plain", "2-steps"]
    assert found["plain"] == (*COMMAND[:7], "--port", "31000")


def test_plain_decode_can_be_left_out() -> None:
    """Then the steps are alone; 0 steps ask for it all the same."""
    assert list(commands(steps=(1, 2), with_plain=False)) == ["1-steps", "2-steps"]
    assert list(commands(steps=(0, 2), with_plain=False)) == ["plain", "2-steps"]


def test_without_settings_the_command_is_held_against_plain_decode() -> None:
    """As it stands."""
    assert commands()["given"] == COMMAND


def test_branches_and_tokens_are_combined_where_a_tree_has_as_many() -> None:
    """One step with 4 branches has 4 tokens and the root: 8 can be verified of 3 steps alone."""
    found = commands(steps=(1, 3), topks=(4,), draft_tokens=(4, 8), with_plain=False)
    assert list(found) == [
        "1-steps-topk4-4-tokens",
        "3-steps-topk4-4-tokens",
        "3-steps-topk4-8-tokens",
    ]
    assert value_of(found["3-steps-topk4-8-tokens"], "--speculative-eagle-topk") == "4"
    assert value_of(found["3-steps-topk4-8-tokens"], "--speculative-num-draft-tokens") == "8"


def test_adaptive_steps_are_taken_out_where_steps_are_asked_for() -> None:
    """Otherwise the server would not make as many as asked."""
    [setting] = settings_of(
        (*COMMAND, "--speculative-adaptive", "--speculative-adaptive-config", "tiers.json"),
        steps=(3,),
        with_plain=False,
    )
    assert "adaptive" not in " ".join(setting.command((*COMMAND, "--speculative-adaptive")))


def test_any_other_setting_puts_options_in_or_replaces_them() -> None:
    """One with a value, one without, one with `=`."""
    found = commands(
        others=("tuned=--tp 4 --disable-radix-cache --page-size=16",), with_plain=False
    )["tuned"]
    assert found[: len(COMMAND)] == (*COMMAND[:6], "4", *COMMAND[7:])
    assert found[len(COMMAND) :] == ("--disable-radix-cache", "--page-size", "16")


def test_an_option_is_replaced_however_its_value_is_written() -> None:
    """Behind it, or after `=`."""
    assert replaced(["run", "--tp=8", "--x"], "--tp", ["4"]) == ["run", "--tp", "4", "--x"]
    assert value_of(["run", "--tp=8"], "--tp") == "8"
    assert value_of(["run", "--tp", "8"], "--tp") == "8"
    assert value_of(["run"], "--tp") is None


def test_options_have_the_values_that_stand_behind_them() -> None:
    """None, one, or several."""
    assert list(options_of(["--a", "--b", "1", "--c", "2", "3"])) == [
        ("--a", ()),
        ("--b", ("1",)),
        ("--c", ("2", "3")),
    ]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"steps": (2,), "draft_tokens": (8,)}, "--topk"),
        ({"steps": (1,), "topks": (2,), "draft_tokens": (8,)}, "so many tokens"),
        ({"others": ("no name",)}, "NAME=ARGUMENTS"),
        ({"others": ("x=value",)}, "no option"),
        ({"others": ("x='--a",)}, "NAME=ARGUMENTS"),
        ({"steps": (2,), "others": ("2-steps=--tp 4",)}, "Two settings"),
        ({"others": ("plain=--tp 4",), "with_plain": False}, "another name"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(asked: dict[str, object], says: str) -> None:
    """Before any server is started."""
    with pytest.raises(SpectraceError, match=says) as error:
        commands(**asked)
    assert error.value.exit_code == 2


def test_steps_of_a_server_that_does_not_draft_are_refused() -> None:
    """And so is a sweep without a command."""
    for steps in ((2,), ()):
        with pytest.raises(SpectraceError, match="--speculative-algorithm"):
            settings_of(plain().command(COMMAND), steps=steps)
    with pytest.raises(SpectraceError, match="after `--`"):
        settings_of((), steps=(2,))


def test_a_setting_says_how_many_steps_the_server_must_then_make() -> None:
    """Which is held against what it did."""
    found = settings_of(COMMAND, steps=(2,), others=("x=--speculative-num-steps 4", "y=--tp 2"))
    assert {setting.name: setting.steps for setting in found} == {
        "plain": 0,
        "2-steps": 2,
        "x": 4,
        "y": None,
    }
    assert Setting(name="z").command(COMMAND) == COMMAND
