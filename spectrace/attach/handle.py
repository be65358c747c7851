"""What is handed around of a rank: how to trace it, that the probe is in, and that it is out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spectrace.attach.ways import Method, Way
from spectrace.model import Rank
from spectrace.probe import layout
from spectrace.probe.layout import State, Word

OVER = {State.DETACHED, State.FAILED}  # of the probe: it is out, or has never been in


@dataclass(frozen=True)
class Options:
    """How a rank is to be traced.

    Attributes:
        units: Size of a new ring, in units of `layout.UNIT_BYTES`.
        mode: Timing mode, one of `layout.Mode`. None for what the reader that controls the
            rank has chosen, where there is one, and else for DEVICE.
        every: Record in full only cycles whose number this divides, 0 for all; at most
            `layout.MAX_EVERY`. None as for `mode`, and else for all.
        take_control: Control the rank also where another reader does.
        method: Which way in; the first that is open by default.
    """

    units: int = layout.DEFAULT_UNITS
    mode: int | None = None
    every: int | None = None
    take_control: bool = False
    method: Method = Method.AUTO

    def words(self) -> dict[int, int]:
        """The control words of a probe that nobody controls yet."""
        return {
            Word.MODE: layout.mode_word(layout.Mode.DEVICE),
            Word.SAMPLING: layout.sampling_word(0),
            **self.asked_words(),
        }

    def asked_words(self) -> dict[int, int]:
        """Those that were asked for."""
        asked = {}
        if self.mode is not None:
            asked[Word.MODE] = layout.mode_word(self.mode)
        if self.every is not None:
            asked[Word.SAMPLING] = layout.sampling_word(self.every)
        return asked


@dataclass(frozen=True)
class Attached:
    """A rank with the probe in it, which we control or read along.

    Attributes:
        rank: The process.
        path: Its ring file, as this process sees it.
        way: How the probe came in.
        stop_ns: For how long the main thread was kept from its own work by stops, in ns,
            measured from outside; what the loader does at a safe point is not in it, the
            header words LOAD_NS and ARM_NS say that.
        joined: The probe was there already: it slept, or another spectrace had put it in.
        key: Of our seat among the readers, see `readers`.
        closed: Why ways that were tried first were closed, a sentence each.
        in_place: The main thread slept in the kernel, and the loader ran meanwhile; else the
            interpreter ran it at its next safe point.
    """

    rank: Rank
    path: Path
    way: Way
    stop_ns: int
    joined: bool
    key: int
    closed: tuple[str, ...] = ()
    in_place: bool = False


@dataclass(frozen=True)
class TakenOut:
    """What came of leaving a rank.

    Attributes:
        removed: The probe is out, and so is its file.
        foreign: Functions that somebody wrapped after us: there ours stays, doing nothing.
        reason: One sentence.
        left_to: Others read on, so that the probe was left to them on purpose.
    """

    removed: bool
    foreign: tuple[str, ...]
    reason: str
    left_to: bool = False
