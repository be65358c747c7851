"""How the probe leaves a server: asked to, without readers, or after an error of its own.

Loaded when it is needed: a server that is being attached to does not wait for it.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns as now
from typing import TYPE_CHECKING

from .faults import is_foreign, pass_on
from .layout import QUIET_NS, RecordType, State, Word
from .layout_window import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Protocol

    from .hooks import Patches
    from .recorder import Recorder
    from .ring import RingWriter

    class Resident(Protocol):
        """What is to be taken out of a server.

        Attributes:
            active: Its hooks do something.
            ring: Where it writes.
            recorder: What it writes with.
            patches: The functions that it has wrapped.
            info: What it says of itself, by name.
            forget: Called last; removes its modules.
        """

        active: bool
        ring: RingWriter
        recorder: Recorder
        patches: Patches
        info: dict[str, Any]
        forget: Callable[[], None]

        def drain(self, time_ns: int) -> None:
            """Takes in device times that have come; `time_ns` is CLOCK_MONOTONIC."""

        def tell(self) -> None:
            """Writes what it says of itself into the ring."""


_FRAMES_TO_TEXT = 4  # of `leave_if_idle`, of `tracer.leave`, and two of the text that calls it


def leave_if_idle(resident: Resident) -> None:
    """Leaves where no cycle comes.

    Where the text that asks for it hits the probe's own code at work nothing is done: that will
    see the command.
    """
    with suppress(ValueError):  # the stack is no deeper
        frame = sys._getframe(_FRAMES_TO_TEXT)  # noqa: SLF001 - documented, if only for CPython
        if str(frame.f_globals.get("__name__")).startswith(f"{__package__}."):
            return
    leave_now(resident, now())


def leave_now(resident: Resident, time_ns: int) -> None:
    """Leaves if that was asked for, in the midst of whatever the server does; never raises."""
    try:
        if resident.active and not resident.ring.is_wanted(time_ns):
            resident.recorder.raised()  # a cycle that runs is cut off here, not ended
            finish(resident, time_ns)
    except Exception as error:  # noqa: BLE001 - nothing may reach the server
        fail(resident, error)


def finish(resident: Resident, time_ns: int) -> None:
    """Leaves at a cycle boundary; where no reader is left it also removes its files."""
    recorder = resident.recorder
    if recorder.open:
        recorder.end(time_ns)
    recorder.flush_skipped()
    resident.drain(time_ns)
    recorder.flush()
    abandoned = time_ns - resident.ring.words[Word.HEARTBEAT_NS] > QUIET_NS
    path = resident.ring.path() if abandoned else ""
    leave(resident, State.DETACHED)
    if path:
        Path(path).with_suffix(SUFFIX).unlink(missing_ok=True)  # hundreds of MB, of a window
        Path(path).unlink(missing_ok=True)


def fail(resident: Resident, error: BaseException) -> None:
    """Writes down an error of the probe's own and takes the probe out.

    Raises:
        BaseException: The error itself, where it is the server's.
    """
    pass_on(error)
    if not resident.active:
        return
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
    text = f"{type(error).__name__}: {error} at {place}"
    resident.info["error"] = text
    with suppress(Exception):
        resident.ring.text(RecordType.ERROR, 0, text)
    leave(resident, State.FAILED)


def leave(resident: Resident, state: int) -> None:
    """Restores the functions, says so, and lets go of everything; never raises by itself.

    Each step is taken even if one before it failed, also by what a signal handler of the
    server raises meanwhile: that goes on to the server at the end.
    """
    resident.active = False
    recorder = resident.recorder
    recorder.open = recorder.timing = False

    def restore() -> None:
        resident.info["foreign"] = resident.patches.restore()

    def say() -> None:
        resident.ring.words[Word.STATE] = state

    extras = (recorder.boundaries, recorder.ranges)
    closing = [extra.close for extra in extras if extra is not None]
    window = getattr(resident, "window", None)  # on kernels; only a scheduler has one
    if window is not None:
        closing.append(window.close)
    _take_all(
        (
            restore,
            recorder.flush,
            *closing,
            resident.tell,
            resident.forget,
            say,
            resident.ring.close,
        )
    )


def _take_all(steps: Iterable[Callable[[], object]]) -> None:
    """Takes every step whatever the others raise; what is the server's is raised at the end."""
    raised: BaseException | None = None
    for step in steps:
        try:
            step()
        except BaseException as error:  # noqa: BLE001, PERF203 - what is the server's is raised below
            if not isinstance(error, Exception) or is_foreign(error):
                raised = error
    if raised is not None:
        raise raised
