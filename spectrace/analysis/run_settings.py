"""What differs in how two servers were started: engine, machine, ranks, and every option."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from spectrace.model import Run

_NO_SETTING = ("--port", "--nccl-port", "--dist-init-addr")  # where a server is, not how it works
_ABSENT = "not given"


class SettingDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Something in which two servers differ.

    Attributes:
        what: An option, or `engine`, `host`, `ranks`.
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
    facts = (
        ("engine", one.engine, other.engine),
        ("host", one.host, other.host),
        ("ranks", str(len(one.ranks)), str(len(other.ranks))),
    )
    for what, first, second in facts:
        if first != second:
            yield SettingDifference(
                what=what, one=first or "not known", other=second or "not known"
            )
    options = options_in(one.command), options_in(other.command)
    for option in dict.fromkeys((*options[0], *options[1])):
        values = [each.get(option, _ABSENT) for each in options]
        if values[0] != values[1] and option not in _NO_SETTING:
            yield SettingDifference(what=option, one=values[0], other=values[1])


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
