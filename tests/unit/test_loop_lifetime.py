"""A tracer of one's own: how it starts, that one process has one, and that it leaves no file."""

from __future__ import annotations

import gc
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spectrace.attach import ring_file
from spectrace.attach.session import End
from spectrace.loop import Tracer
from spectrace.probe.ring import RingWriter
from tests.helpers.own_loop import all_of, attached, turn

TIMEOUT_S = 60.0


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel refuses to let a file of this process grow bigger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def no_collection() -> Iterator[None]:
    """Only what nobody refers to goes."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def files_of_this_process() -> list[Path]:
    """Its ring, and whatever else is named after it."""
    path = ring_file.ring_path(os.getpid())
    return list(path.parent.glob(f"*{path.name}*"))


def run(script: str) -> list[str]:
    """Runs a program of its own; gives the lines of its output."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_the_ring_is_private_and_goes_with_the_tracer(tracer: Tracer) -> None:
    """Its file is the one that attach looks for, 0600 with all its memory, until `close`."""
    path = tracer.path
    assert path == ring_file.ring_path(os.getpid())
    status = path.stat()
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_blocks * 512 >= status.st_size
    tracer.close()
    assert not path.exists()
    turn(tracer, "draft")


def test_a_second_tracer_does_nothing_and_says_why(tracer: Tracer) -> None:
    """One process has one ring; the second loop goes on untraced."""
    second = Tracer("another loop")
    assert "traced already" in second.problem
    turn(second, "draft")
    second.idle()
    second.close()
    assert tracer.path is not None
    assert tracer.path.exists()


def test_without_memory_the_loop_goes_on() -> None:
    """A ring that cannot be had is a sentence, not an exception, and leaves no file."""
    with files_of_at_most(1 << 20):
        tracer = Tracer("a loop", ring_bytes=1 << 21)
    assert "/dev/shm" in tracer.problem  # noqa: S108 - the name
    assert tracer.path is None
    turn(tracer, "draft")
    assert not files_of_this_process()


def test_a_start_that_fails_halfway_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tracer says why, has no ring any more, and does nothing from then on."""

    def broken(*_: Any) -> None:
        raise RuntimeError("of the ring")

    with monkeypatch.context() as patch:
        patch.setattr(RingWriter, "info", broken)
        tracer = Tracer("a loop")
    assert "of the ring" in tracer.problem
    assert tracer.path is None
    assert not files_of_this_process()
    turn(tracer, "draft")
    tracer.idle()
    tracer.close()
    second = Tracer("another loop")
    assert second.problem == ""
    second.close()


def test_a_closed_tracer_does_not_take_the_file_of_the_next_one(tracer: Tracer) -> None:
    """When the first one is collected, the second one's ring is still there to attach to."""
    tracer.close()
    second = Tracer("second")
    try:
        gc.collect()
        assert second.path is not None
        assert second.path.exists()
        assert not second.problem
    finally:
        second.close()


def test_a_tracer_that_is_dropped_takes_its_file_with_it() -> None:
    """Without `close`, and without a run of the garbage collector."""
    with no_collection():
        tracer = Tracer("a loop")
        turn(tracer, "draft")
        del tracer
        assert not files_of_this_process()


def test_a_tracer_that_is_dropped_while_somebody_reads_says_that_it_has_gone() -> None:
    """The reader gets the cycles that were written, and sees that no more will come."""
    with no_collection():
        tracer = Tracer("a loop")
        with attached() as session:
            turn(tracer, "draft", "verify")
            del tracer
            assert not files_of_this_process()
            assert session.end is End.TAKEN_OUT
            assert [cycle.number for cycle in all_of(session)] == [1]


@pytest.mark.parametrize(
    "ending", ["", "raise SystemExit(0)", "import os; os.kill(os.getpid(), 2)"]
)
def test_the_end_of_the_program_removes_the_file(ending: str) -> None:
    """However Python ends, as long as it can still do anything."""
    script = (
        "from spectrace.loop import Tracer\n"
        "tracer = Tracer('a loop')\n"
        "print(tracer.path, tracer.path.exists(), flush=True)\n"
        "try:\n"
        "    with tracer.cycle('decode', ['a']):\n"
        f"        {ending or 'pass'}\n"
        "except KeyboardInterrupt:\n"
        "    pass\n"
    )
    ((path, was_there),) = (line.split() for line in run(script))
    assert was_there == "True"
    assert not Path(path).exists()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_not_traced(tracer: Tracer) -> None:
    """Its cycles do not come between the parent's, and the ring stays the parent's."""
    with attached() as session:
        turn(tracer, "draft")
        child = os.fork()
        if not child:
            turn(tracer, "draft")
            tracer.close()
            os._exit(0 if "forked child" in tracer.problem else 1)
        assert os.waitpid(child, 0)[1] == 0
        turn(tracer, "draft")
        assert [cycle.number for cycle in all_of(session)] == [1, 2]
    assert tracer.path is not None
    assert tracer.path.exists()


def test_a_forked_child_that_ends_leaves_the_ring_to_its_parent() -> None:
    """Neither dropping its copy nor the end of the child's Python removes the file."""
    script = """
import os, sys
from spectrace.loop import Tracer
tracer = Tracer("a loop")
path = tracer.path
with tracer.cycle("decode", ["a"]):
    with tracer.phase("forward"):
        child = os.fork()
if not child:
    del tracer
    sys.exit(0)
print(os.waitpid(child, 0)[1], path.exists())
"""
    assert run(script) == ["0 True"]
