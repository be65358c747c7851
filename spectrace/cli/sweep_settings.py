"""The settings that a sweep tries: what each changes in the command that starts the server."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Iterator, Sequence

import msgspec

from spectrace.errors import SpectraceError

PLAIN = "plain"
GIVEN = "given"
STEPS = "--speculative-num-steps"
TOPK = "--speculative-eagle-topk"
DRAFT_TOKENS = "--speculative-num-draft-tokens"
_ALGORITHM = "--speculative-algorithm"
_ADAPTIVE = "--speculative-adaptive"  # and its --speculative-adaptive-config
_SPECULATIVE = ("--speculative-", "--no-speculative-", "--enable-multi-layer-eagle")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}")
_NO_COMMAND = "Give the command that starts the server after `--`, as you would in a shell."


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One way to start the server.

    Attributes:
        name: Short, and fit for the name of a file.
        removes: Options of the command that begin like this are taken out, with their values.
        arguments: Options that are put in, or take the place of those in the command.
        steps: Draft steps that the server must then make, 0 where it must not draft; None
            where that is not known.
    """

    name: str
    removes: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    steps: int | None = None

    def command(self, command: Sequence[str]) -> tuple[str, ...]:
        """The command that starts the server in this way."""
        found = _without(command, lambda option: option.startswith(self.removes))
        for option, values in options_of(self.arguments):
            found = replaced(found, option, values)
        return tuple(found)


def plain() -> Setting:
    """No speculation: all its options are taken out."""
    return Setting(name=PLAIN, removes=_SPECULATIVE, steps=0)


def settings_of(  # noqa: PLR0913 - what a command line can ask for
    command: Sequence[str],
    *,
    steps: Sequence[int],
    topks: Sequence[int] = (),
    draft_tokens: Sequence[int] = (),
    others: Sequence[str] = (),
    with_plain: bool = True,
) -> list[Setting]:
    """What a command line asks for: plain decode first, then the steps, then the others.

    Without any the command is held against plain decode as it stands.

    Args:
        command: What starts the server.
        steps: Numbers of draft steps; 0 is plain decode.
        topks: Branches of a step; what the command says if none are given, else 1.
        draft_tokens: Tokens to verify, where a step has branches; without branches they are
            the steps and one more. What no tree of so many steps has is left out.
        others: `NAME=ARGUMENTS` of further settings.
        with_plain: Plain decode is among them.

    Raises:
        SpectraceError: The command cannot be varied like this.
    """
    if not command:
        raise SpectraceError(_NO_COMMAND, exit_code=2)
    found = [plain()] if with_plain or 0 in steps else []
    drafting = [number for number in dict.fromkeys(steps) if number]
    if (drafting or not others) and value_of(command, _ALGORITHM) is None:
        raise SpectraceError(
            f"The command has no {_ALGORITHM}, so that it drafts nothing and has no steps to vary: "
            "add its speculative options, or name other settings with --setting.",
            exit_code=2,
        )
    branches = topks or [number_of(command, TOPK) or 1]
    tokens = draft_tokens or [number_of(command, DRAFT_TOKENS) or 0]
    drawn = [
        one
        for number, topk in itertools.product(drafting, dict.fromkeys(branches))
        for one in _drafting(number, topk, tokens, asked=bool(draft_tokens))
    ]
    if drafting and not drawn:
        raise SpectraceError(
            "No tree of so few steps and branches has so many tokens: ask for fewer "
            "--draft-tokens.",
            exit_code=2,
        )
    found += [*drawn, *map(_other, others)]
    if not drafting and not others:
        found.append(Setting(name=GIVEN))
    names = [setting.name for setting in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SpectraceError(
            f"Two settings are called {twice}: give each another name.", exit_code=2
        )
    return found


def _drafting(steps: int, topk: int, tokens: Sequence[int], *, asked: bool) -> Iterator[Setting]:
    """Settings with so many steps and branches, one for each number of tokens."""
    if topk == 1:
        if asked:
            raise SpectraceError(
                "A draft without branches is verified with one token more than it has steps: leave "
                "--draft-tokens out, or ask for branches with --topk too.",
                exit_code=2,
            )
        yield _eagle(f"{steps}-steps", steps, topk, steps + 1)
        return
    for count in dict.fromkeys(tokens):
        if not count:
            raise SpectraceError(
                f"How many tokens of a tree with {topk} branches to verify is not said: add "
                "--draft-tokens.",
                exit_code=2,
            )
        if count - 1 <= topk + (steps - 1) * topk * topk:
            yield _eagle(f"{steps}-steps-topk{topk}-{count}-tokens", steps, topk, count)


def _eagle(name: str, steps: int, topk: int, tokens: int) -> Setting:
    return Setting(
        name=name,
        removes=(_ADAPTIVE,),
        arguments=(STEPS, str(steps), TOPK, str(topk), DRAFT_TOKENS, str(tokens)),
        steps=steps,
    )


def _other(text: str) -> Setting:
    """A setting that is written as `NAME=ARGUMENTS`."""
    name, _, rest = text.partition("=")
    try:
        arguments = tuple(shlex.split(rest))
    except ValueError:  # a quote without its twin
        arguments = ()
    if not _NAME.fullmatch(name) or not arguments:
        raise SpectraceError(
            f"{text!r} is no setting: write NAME=ARGUMENTS, such as "
            f"'tree={STEPS} 3 {TOPK} 4 {DRAFT_TOKENS} 8'; a name is made of letters, digits, - "
            "and _.",
            exit_code=2,
        )
    if name in {PLAIN, GIVEN}:
        raise SpectraceError(
            f"{name} is what the sweep itself calls a setting: give yours another name.",
            exit_code=2,
        )
    list(options_of(arguments))  # which raises where they are none
    return Setting(name=name, arguments=arguments, steps=number_of(arguments, STEPS))


def options_of(arguments: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each option with its values: what stands behind it up to the next one, or after its `=`.

    Raises:
        SpectraceError: A value stands before the first option.
    """
    option: str | None = None
    values: list[str] = []
    for argument in arguments:
        if argument.startswith("--"):
            if option is not None:
                yield option, tuple(values)
            option, is_there, value = argument.partition("=")
            values = [value] if is_there else []
        elif option is None:
            raise SpectraceError(
                f"{argument!r} is no option of a server: a setting is made of options and their "
                f"values, such as {STEPS} 3.",
                exit_code=2,
            )
        else:
            values.append(argument)
    if option is not None:
        yield option, tuple(values)


def replaced(command: Sequence[str], option: str, values: Sequence[str]) -> list[str]:
    """The command with one option set: where it stands already, else at the end."""
    rest = _without(command, lambda name: name == option)
    names = [argument.partition("=")[0] for argument in command]
    place = names.index(option) if option in names else len(rest)
    return [*rest[:place], option, *values, *rest[place:]]


def value_of(command: Sequence[str], option: str) -> str | None:
    """The value of an option in a command, of several the last; None where it is not there."""
    found = None
    for place, argument in enumerate(command):
        name, is_there, value = argument.partition("=")
        if name == option:
            found = value if is_there else next(iter(command[place + 1 : place + 2]), None)
    return found


def number_of(command: Sequence[str], option: str) -> int | None:
    """The same as a whole number; None where it is none."""
    value = value_of(command, option) or ""
    return int(value) if value.isascii() and value.isdigit() else None


def _without(command: Sequence[str], goes: Callable[[str], bool]) -> list[str]:
    """The command without some options and what stands behind them up to the next one."""
    kept: list[str] = []
    going = False
    for argument in command:
        if argument.startswith("-"):
            going = goes(argument.partition("=")[0])
        if not going:
            kept.append(argument)
    return kept
