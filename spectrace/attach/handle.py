"""What is handed around of a rank: how to trace it, that the probe is in, and that it is out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spectrace.attach.ways import Method, Way
from spectrace.model import Rank
from spectrace.probe import layout
from spectrace.probe.layout import State

OVER = {State.DETACHED, State.FAILED}  # of the probe: it is out, or has never been in


@dataclass(frozen=True)
class Options:
    """How a rank is to be traced.

    Attributes:
        units: Size of a new ring, in units of `layout.UNIT_BYTES`.
        mode: Timing mode, one of `layout.Mode`.
        every: Record in full only cycles whose number this divides; 0 for all.
        method: Which way in; the first that is open by default.
    """

    units: int = layout.DEFAULT_UNITS
    mode: int = layout.Mode.DEVICE
    every: int = 0
    method: Method = Method.AUTO


@dataclass(frozen=True)
class Attached:
    """A rank with the probe in it, under our control.

    Attributes:
        rank: The process.
        path: Its ring file, as this process sees it.
        way: How the probe came in.
        stop_ns: For how long the main thread was kept from its own work by stops, in ns,
            measured from outside; what the loader does at a safe point is not in it, the
            header words LOAD_NS and ARM_NS say that.
        joined: The probe was there already: it slept, or its reader had gone.
        closed: Why ways that were tried first were closed, a sentence each.
        in_place: The main thread slept in the kernel, and the loader ran meanwhile; else the
            interpreter ran it at its next safe point.
    """

    rank: Rank
    path: Path
    way: Way
    stop_ns: int
    joined: bool
    closed: tuple[str, ...] = ()
    in_place: bool = False


@dataclass(frozen=True)
class TakenOut:
    """What came of taking the probe out.

    Attributes:
        removed: The probe is out, and so is its file.
        foreign: Functions that somebody wrapped after us: there ours stays, doing nothing.
        reason: One sentence.
    """

    removed: bool
    foreign: tuple[str, ...]
    reason: str
