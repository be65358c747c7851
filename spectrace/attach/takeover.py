"""Joins a rank in which the probe is already, or finds that only its remains are."""

from __future__ import annotations

import time
from pathlib import Path

from spectrace.attach import readers, ring_file, sleepers
from spectrace.attach.handle import OVER, Attached, Options
from spectrace.attach.ways import Method, Way
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Rank
from spectrace.probe.layout import Command, State, Word

_RUNNING = {State.LOADED, State.ARMED, State.TRACING}
_POLL_S = 0.005


def existing(rank: Rank, options: Options, timeout_s: float = 5.0) -> Attached | None:
    """Joins what is there; None where nothing is, or only remains.

    Whoever is on the way in or out is waited for.

    Args:
        rank: The process.
        options: How to trace it. Who finds another reader in control reads along.
        timeout_s: How long to wait.

    Raises:
        SpectraceError: The ring cannot be opened, another spectrace does not come to the end
            of putting the probe in, or another one controls the rank and `options` asks for
            something that it alone decides.
    """
    path = ring_file.ring_path(rank.pid)
    deadline = time.monotonic() + timeout_s
    while True:
        ring = _opened(path)
        if ring is None or _are_remains(ring):
            return None
        try:
            late = time.monotonic() > deadline
            if late and ring.word(Word.STATE) == State.EMPTY:
                raise _being_attached_to(rank, ring)
            joined = _joined(rank, ring, options, anyway=late)
        finally:
            ring.close()
        if joined is not None:
            return joined
        time.sleep(_POLL_S)


def _opened(path: Path) -> RingView | None:
    try:
        return RingView(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpectraceError(
            f"The ring file {path} cannot be opened ({error.strerror}): "
            "remove it, then attach again."
        ) from None


def _is_on_the_way(ring: RingView) -> bool:
    """Whether another spectrace is just putting the probe in, or taking it out."""
    state = ring.word(Word.STATE)
    if sleepers.name_of(ring):
        return sleepers.is_awake(ring) and ring.word(Word.COMMAND) == Command.DETACH
    if state == State.EMPTY:
        return bool(readers.present(ring))
    return state in _RUNNING and ring.word(Word.COMMAND) == Command.DETACH


def _are_remains(ring: RingView) -> bool:
    """Whether nothing runs there and nobody is at work; the file is removed then."""
    alive = sleepers.name_of(ring) or ring.word(Word.STATE) in _RUNNING
    if alive or _is_on_the_way(ring):
        return False
    readers.command_detach(ring)  # a loader that comes late leaves again
    ring_file.remove(ring.path, ring.inode)
    ring.close()
    return True


def _joined(rank: Rank, ring: RingView, options: Options, *, anyway: bool) -> Attached | None:
    """Joins; None where somebody is on the way in or out, unless it is to be done `anyway`."""
    if _is_on_the_way(ring) and not anyway:
        return None
    _refuse_what_another_decides(rank, ring, options)
    sleeper = sleepers.name_of(ring)
    if sleeper:
        _refuse_other_way(rank, sleeper, options.method)
    key = readers.sit_down(ring)
    if _is_on_the_way(ring) and not anyway:  # told to leave just before we sat there
        readers.get_up(ring, key)
        return None
    awake = sleepers.is_awake(ring)
    if sleeper:
        try:
            sleepers.wake(rank.pid, ring, options.units)
        except BaseException:
            readers.get_up(ring, key)
            raise
    controls = ring.word(Word.CONTROLLER) == key
    if not controls and options.take_control:
        readers.take_control(ring, key)
    for place, value in (options.words() if controls else options.asked_words()).items():
        ring.set_word(place, value)
    ring.set_word(Word.COMMAND, Command.NONE)
    readers.ask_for_ids(ring)
    way = Way(sleeper) if sleeper and not awake else Way.JOINED
    return Attached(rank, ring.path, way, 0, joined=True, key=key)


def _refuse_other_way(rank: Rank, sleeper: str, method: Method) -> None:
    if method not in {Method.AUTO, Method.PLUGIN}:
        raise SpectraceError(
            f"Rank {rank.name} (process {rank.pid}) has spectrace in it already, by its {sleeper}, "
            f"and a second one must not go in beside it: leave --method {method.value} away."
        )


def _being_attached_to(rank: Rank, ring: RingView) -> SpectraceError:
    (other, *_) = [*map(str, readers.present(ring)), "another spectrace"]
    return SpectraceError(
        f"Rank {rank.name} (process {rank.pid}) is just being attached to by {other}: "
        "try again in a moment."
    )


def _refuse_what_another_decides(rank: Rank, ring: RingView, options: Options) -> None:
    other = readers.controller(ring)
    over = ring.word(Word.STATE) in OVER  # of a loop: it sleeps, and nobody reads any more
    if other is None or over or options.take_control or not options.asked_words():
        return
    raise SpectraceError(
        f"Rank {rank.name} (process {rank.pid}) is traced already, and {other} decides how it is "
        "timed and sampled: leave --timing and --sample-every away to read along, or add "
        "--take-control."
    )
