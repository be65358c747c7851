"""Python processes to attach to, and a stand-in for the probe that goes into them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from spectrace.model import Rank
from spectrace.probe.layout import Command, State, Word

NOBODY = 65534
SYSTEM_PYTHON = Path("/usr/bin/python3")
NEWEST_PYTHON = Path(__file__).parents[2] / ".python3.14/usr/bin/python3.14"  # see newest_python

# Does what the probe does to the ring, without hooks: the target calls `tick` by itself.
PROBE = f"""
import sys, struct, ctypes
def put(word, value): struct.pack_into("<Q", ring, word * 8, value)
def get(word): return struct.unpack_from("<Q", ring, word * 8)[0]
def tick():
    if get({Word.COMMAND}) == {Command.DETACH}:
        del sys.spectrace_tick
        put({Word.STATE}, {State.DETACHED})
        ring.close()
if get({Word.LOADER_TEXT_ADDRESS}):
    munmap = ctypes.CDLL(None).munmap
    munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    munmap(get({Word.LOADER_TEXT_ADDRESS}), get({Word.LOADER_TEXT_BYTES}))
    put({Word.LOADER_TEXT_ADDRESS}, 0)
sys.spectrace_tick = tick
put({Word.STATE}, {State.ARMED})
"""

# Arms and forgets the ring at once: for targets that are blocked and cannot call `tick`.
FLEETING = f"""
import struct
struct.pack_into("<Q", ring, {Word.STATE * 8}, {State.ARMED})
ring.close()
"""


def sources(bootstrap: str = PROBE) -> tuple[tuple[str, str], ...]:
    """What `put_in` takes: the stand-in as the only module."""
    return (("bootstrap", bootstrap),)


# Works in `threads` threads beside the main one, and tells at the end what is in __main__.
BUSY = """
import gc, json, hashlib, os, sys, threading
finish = sys.argv[1]
def work():
    blocks = [bytearray(700 + i * 37 % 5000) for i in range(60)]
    hashlib.sha256(b"x" * 70000).digest()
def work_on():
    while not os.path.exists(finish): work()
for _ in range(int(sys.argv[2])): threading.Thread(target=work_on, daemon=True).start()
def steps():
    while not os.path.exists(finish):
        work()
        gc.collect(0)
        tick = getattr(sys, "spectrace_tick", None)
        if tick: tick()
error = None
names = sorted([*globals(), "names"])
print("ready", flush=True)
while not os.path.exists(finish):
    try: steps()
    except BaseException as caught: error = repr(caught)
print(json.dumps({"new": sorted(set(globals()) - set(names)), "error": error}), flush=True)
"""


def interpreters() -> list[Path]:
    """The Python interpreters of this machine that spectrace supports, this one first."""
    versions = sorted((Path.home() / ".pyenv/versions").glob("3.1[0-9].*/bin/python3"))
    found = [Path(sys.executable).resolve(), *versions]
    if SYSTEM_PYTHON.exists():
        found.append(SYSTEM_PYTHON)
    if NEWEST_PYTHON.exists():
        found.append(NEWEST_PYTHON)
    return list({path.resolve(): path for path in found}.values())


@contextlib.contextmanager
def running(
    code: str, *arguments: str, python: Path | str = sys.executable, user: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A Python process that runs `code` and has printed its first line; killed at the end."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        [str(python), "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        user=user,
        env=environment,
        cwd="/",
    ) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            if not first:
                _, complaint = process.communicate()
                raise AssertionError(complaint)
            yield process
        finally:
            process.kill()


def rank_of(process: subprocess.Popen[str]) -> Rank:
    """The process as a rank."""
    return Rank(name="TP0", pid=process.pid)


def wait_until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Waits until the condition holds.

    Raises:
        AssertionError: It does not within the time.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def state_of(pid: int) -> str:
    """The letter that the kernel gives for the state of a process."""
    return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]


def sleeps_in(pid: int, *system_calls: str) -> bool:
    """Whether the main thread of a process is asleep in one of the given system calls."""
    numbers = {"clock_nanosleep": 230, "nanosleep": 35, "futex": 202, "read": 0, "poll": 7}
    numbers |= {"select": 23, "pselect6": 270, "epoll_wait": 232, "epoll_pwait": 281}
    numbers |= {"accept4": 288}
    text = Path(f"/proc/{pid}/syscall").read_text("ascii").split()  # `running` where it is
    return text[0] in {str(numbers[name]) for name in system_calls}
