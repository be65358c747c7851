"""How far a look at a server's kernels is, and whether there can be one, as people are told."""

from __future__ import annotations

from enum import Enum

import msgspec


class LookStage(str, Enum):
    """How far a look is."""

    ASKED = "asked"  # its cycles are still to come
    OPEN = "open"  # the window is open: kernels are recorded
    READING = "reading"  # it is over: what was recorded is read and added up
    DONE = "done"
    REFUSED = "refused"  # there was none, or it ended before its time


class Looking(msgspec.Struct, frozen=True, kw_only=True):
    """The look that goes on, or the last one.

    Attributes:
        stage: How far it is.
        cycles: How many cycles were asked for.
        why: Why there is none, a sentence; empty but where it was refused.
        mend: What to do about it, a sentence or nothing.
    """

    stage: LookStage
    cycles: int
    why: str = ""
    mend: str = ""


class KernelProspect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether there can be a window, as far as that is seen from outside.

    Attributes:
        open: Nothing stands in the way.
        why: What does, a sentence; empty where it is open.
        mend: What to do about it, a sentence.
    """

    open: bool
    why: str = ""
    mend: str = ""
