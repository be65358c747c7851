"""What can be said of one rank from outside: whether it is traced, by whom, and what is missing."""

from __future__ import annotations

import msgspec

from spectrace.attach import readers, ring_file
from spectrace.attach.modes import MODES
from spectrace.attach.ring_state import sample_every, state_of, way_of
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Rank
from spectrace.probe.layout import Word

_MODES = {number: mode.value for mode, number in MODES.items()}


class Losses(msgspec.Struct, frozen=True, kw_only=True):
    """What is missing of a rank's cycles.

    Attributes:
        records: Overwritten before the reader came to them.
        no_event: Device boundaries for which no event was free.
        late_events: Those whose event never came.
        capturing: Those met while a graph was being captured.
        other_stream: Those met on another than the forward stream.
    """

    records: int
    no_event: int
    late_events: int
    capturing: int
    other_stream: int

    @property
    def boundaries(self) -> int:
        """Device boundaries that are missing."""
        return self.no_event + self.late_events + self.capturing + self.other_stream


class RankStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One rank and the probe in it.

    Attributes:
        name: Name of the rank.
        pid: Its process.
        state: `not traced`, `not started`, `loaded`, `armed`, `traced`, `left`, `failed`,
            `asleep` (a loop that traces itself while somebody reads), or why it cannot be told.
        reader: Who decides how it is timed, such as `process 41`; empty where nobody reads.
        controller_pid: The same as a process id, None where it has none here.
        way: How the probe came in: `injected`, `plugin`, `loop`; empty where nothing is there.
        cycles: Cycles recorded so far, None where nothing is there.
        losses: What is missing of them, None where nothing is there.
        mode: How cycles are timed, None where nothing is there.
        sample_every: One of so many cycles is recorded in full, None where nothing is there.
        engine: Such as `sglang 0.5.23`; empty before the probe has said it.
        row: The rows of the table of releases that are used; empty until the worker is known.
        untried: Why the engine table may not fit this release, a sentence; empty where it does.
        missing: Functions that this release lacks, so that their phases are not seen.
        error: What went wrong in the probe; empty if nothing did.
        no_device_timing: Why the device is not timed, a sentence; empty where it can be.
        nvtx: Whether ranges are made for other tools, and which way.
    """

    name: str
    pid: int
    state: str
    reader: str = ""
    controller_pid: int | None = None
    way: str = ""
    cycles: int | None = None
    losses: Losses | None = None
    mode: str | None = None
    sample_every: int | None = None
    engine: str = ""
    row: str = ""
    untried: str = ""
    missing: tuple[str, ...] = ()
    error: str = ""
    no_device_timing: str = ""
    nvtx: str = ""


def look_at(rank: Rank) -> RankStatus:
    """What the ring of a rank says."""
    try:
        path = ring_file.ring_path(rank.pid)
        view = RingView(path)
    except FileNotFoundError:
        return RankStatus(name=rank.name, pid=rank.pid, state="not traced")
    except (SpectraceError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return RankStatus(name=rank.name, pid=rank.pid, state=f"unknown: {reason}")
    try:
        return describe(rank, view)
    except SpectraceError as error:  # ended meanwhile
        return RankStatus(name=rank.name, pid=rank.pid, state=f"unknown: {error}")
    finally:
        view.close()


def describe(rank: Rank, view: RingView) -> RankStatus:
    """The status in a mapped ring.

    Raises:
        SpectraceError: The rank has ended.
    """
    info = view.info()
    reader = readers.controller(view)

    def said(key: str) -> str:
        return str(info.get(key) or "")

    return RankStatus(
        name=rank.name,
        pid=rank.pid,
        state=state_of(view),
        reader=str(reader or ""),
        controller_pid=reader.pid or None if reader else None,
        way=way_of(view),
        cycles=view.word(Word.CYCLES),
        losses=_losses(view),
        mode=_MODES.get(view.word(Word.MODE_ACTIVE)),
        sample_every=sample_every(view),
        engine=said("engine"),
        row=said("row"),
        untried=said("untried"),
        missing=tuple(map(str, info.get("missing") or ())),
        error=said("error"),
        no_device_timing=said("no_device_timing"),
        nvtx=said("ranges"),
    )


def _losses(view: RingView) -> Losses:
    return Losses(
        records=view.word(Word.LOST_RECORDS),
        no_event=view.word(Word.NO_EVENT),
        late_events=view.word(Word.EVENT_LOST),
        capturing=view.word(Word.EVENT_CAPTURING),
        other_stream=view.word(Word.EVENT_OTHER_STREAM),
    )
