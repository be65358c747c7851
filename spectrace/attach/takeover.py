"""Takes over a rank in which the probe is already, or finds that only its remains are."""

from __future__ import annotations

import os
import time

from spectrace.attach import procfs, ring_file, sleepers
from spectrace.attach.handle import OVER, Attached, Options
from spectrace.attach.ways import Method, Way
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Rank
from spectrace.probe import layout
from spectrace.probe.layout import Command, State, Word

_RUNNING = {State.LOADED, State.ARMED, State.TRACING}


def existing(rank: Rank, options: Options) -> Attached | None:
    """Takes over what is there; None where nothing is, or only remains."""
    path = ring_file.ring_path(rank.pid)
    try:
        ring = RingView(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpectraceError(
            f"The ring file {path} cannot be opened ({error.strerror}): "
            "remove it, then attach again."
        ) from None
    try:
        _refuse_if_controlled(rank, ring)
        sleeper = sleepers.name_of(ring)
        if sleeper:
            _refuse_other_way(rank, sleeper, options.method)
            sleepers.wake(rank.pid, ring, options.units)
        elif ring.word(Word.STATE) not in _RUNNING:
            ring.set_word(Word.COMMAND, Command.DETACH)
            ring_file.remove(path)
            return None
        ring.set_word(Word.CONTROLLER_PID, os.getpid())
        ring.set_word(Word.HEARTBEAT_NS, time.monotonic_ns())
        ring.set_word(Word.COMMAND, Command.NONE)
        ring.set_word(Word.MODE, layout.mode_word(options.mode))
        ring.set_word(Word.SAMPLE_EVERY, options.every)
        ring.set_word(Word.JOINS, ring.word(Word.JOINS) + 1)
        way = Way(sleeper) if sleeper else Way.JOINED
        return Attached(rank, path, way, 0, joined=True)
    finally:
        ring.close()


def _refuse_other_way(rank: Rank, sleeper: str, method: Method) -> None:
    if method not in {Method.AUTO, Method.PLUGIN}:
        raise SpectraceError(
            f"Rank {rank.name} (process {rank.pid}) has spectrace in it already, by its {sleeper}, "
            f"and a second one must not go in beside it: leave --method {method.value} away."
        )


def _refuse_if_controlled(rank: Rank, ring: RingView) -> None:
    controller = ring.word(Word.CONTROLLER_PID)
    fresh = time.monotonic_ns() - ring.word(Word.HEARTBEAT_NS) < layout.QUIET_NS
    over = ring.word(Word.STATE) in OVER
    # In another container the number means another process: there the heartbeat alone counts.
    there = not procfs.shares_processes(rank.pid) or procfs.is_alive(controller)
    if fresh and there and not over and controller != os.getpid():
        raise SpectraceError(
            f"Rank {rank.name} (process {rank.pid}) is already traced by spectrace, process "
            f"{controller}: use that one, or `spectrace detach {rank.pid}` first."
        )
