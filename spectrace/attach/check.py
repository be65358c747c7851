"""One thing that `spectrace doctor` looked at, and what came of it."""

from __future__ import annotations

from enum import Enum

import msgspec


class State(str, Enum):
    """What came of a check."""

    OK = "ok"
    WARN = "warn"  # attaching works, something of what it shows will be missing
    FAIL = "fail"  # attaching does not work


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at.

    Attributes:
        name: What, in a word or two.
        state: What came of it.
        found: What is there, a phrase.
        mend: The command or setting that mends it; empty where nothing is to be mended.
        ranks: The ranks that it is about; empty where it is about all, or none.
    """

    name: str
    state: State
    found: str
    mend: str = ""
    ranks: tuple[str, ...] = ()


def merged(by_rank: dict[str, list[Check]]) -> list[Check]:
    """The checks of all ranks of a server, what is the same for several of them once."""
    ranks: dict[Check, list[str]] = {}
    for rank, checks in by_rank.items():
        for check in checks:
            ranks.setdefault(check, []).append(rank)
    names = list(dict.fromkeys(check.name for checks in by_rank.values() for check in checks))
    return [
        check if len(ranks[check]) == len(by_rank) else _of(check, ranks[check])
        for check in sorted(ranks, key=lambda check: names.index(check.name))
    ]


def _of(check: Check, ranks: list[str]) -> Check:
    return msgspec.structs.replace(check, ranks=tuple(ranks))


def ok(name: str, found: str) -> Check:
    """A check that found what it should."""
    return Check(name=name, state=State.OK, found=found)


def warn(name: str, found: str, mend: str = "") -> Check:
    """One that found what attaching can do without."""
    return Check(name=name, state=State.WARN, found=found, mend=mend)


def fail(name: str, found: str, mend: str = "") -> Check:
    """One that found what keeps attach out."""
    return Check(name=name, state=State.FAIL, found=found, mend=mend)
