"""What a run says of how its server was started, and in what two servers differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from spectrace.model import Run

_NO_SETTING = ("--port", "--nccl-port", "--dist-init-addr")  # where a server is, not how it works
_ABSENT = "not given"
_ALGORITHM = "--speculative-algorithm"
_LOOKED_UP = {"NGRAM"}
_MODEL = ("--model-path", "--model")


class SettingDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Something in which two servers differ.

    Attributes:
        what: An option, or `engine`, `host`, `ranks`, `model`.
        one: Its value in the first.
        other: In the second.
    """

    what: str
    one: str
    other: str


def setting_differences(one: Run, other: Run) -> tuple[SettingDifference, ...]:
    """What two servers differ in, as far as their runs say."""
    return tuple(_differences(one, other))


def _differences(one: Run, other: Run) -> Iterator[SettingDifference]:
    for what, first, second in _facts(one, other):
        if first != second:
            yield SettingDifference(
                what=what, one=first or "not known", other=second or "not known"
            )
    options = options_in(one.command), options_in(other.command)
    for option in dict.fromkeys((*options[0], *options[1])):
        values = [each.get(option, _ABSENT) for each in options]
        if values[0] != values[1] and option not in _NO_SETTING:
            yield SettingDifference(what=option, one=values[0], other=values[1])


def server_differences(one: Run, other: Run) -> tuple[SettingDifference, ...]:
    """In which of engine and release, machine, number of ranks and model two servers differ.

    What one of the runs does not say makes no difference.
    """
    facts = [
        *_facts(one, other),
        ("model", _model(one), _model(other)),
    ]
    return tuple(
        SettingDifference(what=what, one=first, other=second)
        for what, first, second in facts
        if first and second and first != second
    )


def looks_up(run: Run) -> bool:
    """Whether a server finds its drafts in earlier text, without a draft model and its steps."""
    return options_in(run.command).get(_ALGORITHM, "").upper() in _LOOKED_UP


def _facts(one: Run, other: Run) -> tuple[tuple[str, str, str], ...]:
    return (
        ("engine", one.engine, other.engine),
        ("host", one.host, other.host),
        ("ranks", _ranks(one), _ranks(other)),
    )


def _ranks(run: Run) -> str:
    return str(len(run.ranks)) if run.ranks else ""


def _model(run: Run) -> str:
    options = options_in(run.command)
    return next((options[name] for name in _MODEL if name in options), "")


def options_in(command: Sequence[str]) -> dict[str, str]:
    """The options of a command with their values; one without a value is `given`."""
    found: dict[str, list[str]] = {}
    values: list[str] = []
    for argument in command:
        if argument.startswith("--"):
            option, is_there, value = argument.partition("=")
            values = found[option] = [value] if is_there else []
        else:
            values.append(argument)
    return {option: " ".join(parts) or "given" for option, parts in found.items()}
