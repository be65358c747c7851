"""Putting code into running Python processes and taking it out: the process must not notice."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from examples.sglang_cpu.server import processes
from spectrace.attach import handle, inject, leave, loader, ring_file
from spectrace.attach.ways import Way
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Rank
from spectrace.probe import layout
from spectrace.probe.layout import Mode, Seat, State, Word
from tests.integration.attach_targets import (
    BUSY,
    FLEETING,
    NEWEST_PYTHON,
    NOBODY,
    PROBE,
    SYSTEM_PYTHON,
    interpreters,
    rank_of,
    running,
    sleeps_in,
    sources,
    state_of,
    wait_until,
)

OPTIONS = handle.Options(units=64)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


@contextlib.contextmanager
def busy(
    finish: Path, threads: int = 1, python: Path | str = sys.executable
) -> Iterator[subprocess.Popen[str]]:
    """A process that works until `finish` exists, and calls the stand-in probe."""
    with running(BUSY, str(finish), str(threads), python=python) as process:
        yield process


def attach(process: subprocess.Popen[str], bootstrap: str = PROBE) -> handle.Attached:
    """Puts the stand-in into a process."""
    return inject.put_in(rank_of(process), options=OPTIONS, sources=sources(bootstrap))


def ended_well(process: subprocess.Popen[str], finish: Path) -> dict[str, object]:
    """Lets a busy process end and returns what it says about itself."""
    finish.touch()
    out, complaint = process.communicate(timeout=60)
    assert process.returncode == 0
    assert not complaint
    result: dict[str, object] = json.loads(out.splitlines()[-1])
    return result


@pytest.mark.parametrize("python", interpreters(), ids=str)
def test_every_supported_interpreter_takes_it_in_and_lets_it_go(
    python: Path, tmp_path: Path
) -> None:
    """The probe goes in and out, and nothing is left in __main__ and no exception raised."""
    finish = tmp_path / "finish"
    with busy(finish, python=python) as process:
        attached = attach(process)
        newest = python == NEWEST_PYTHON
        assert attached.way is (Way.REMOTE_EXEC if newest else Way.PTRACE)
        assert not attached.closed
        assert not attached.joined
        assert leave.take_out(attached) == handle.TakenOut(
            removed=True, foreign=(), reason="The probe is out."
        )
        assert not attached.path.exists()
        assert ended_well(process, finish) == {"new": [], "error": None}


def test_ring_says_who_controls_it_and_how(tmp_path: Path) -> None:
    """A new ring carries the controller, the mode, a heartbeat and no loader text."""
    with busy(tmp_path / "finish") as process:
        before_ns = time.monotonic_ns()
        attached = inject.put_in(
            rank_of(process), options=handle.Options(units=64, mode=Mode.SYNC), sources=sources()
        )
        ring = RingView(attached.path)
        assert ring.word(Word.CONTROLLER_PID) == os.getpid()
        assert ring.word(Word.MODE) == Mode.SYNC
        assert before_ns <= ring.word(Word.HEARTBEAT_NS) <= time.monotonic_ns()
        assert ring.word(Word.LOADER_TEXT_ADDRESS) == 0
        assert ring.word(Word.STATE) == State.ARMED
        ring.close()
        assert leave.take_out(attached).removed


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """After 50 attaches a process has the descriptors, threads, mappings and memory of before."""

    def belongings(pid: int) -> tuple[int, int, int, int]:
        process = Path(f"/proc/{pid}")
        status = (process / "status").read_text().split()
        return (
            len(list((process / "fd").iterdir())),
            len(list((process / "task").iterdir())),
            (process / "maps").read_text().count("\n"),
            int(status[status.index("VmData:") + 1]),
        )

    finish = tmp_path / "finish"
    with busy(finish) as process:
        for _ in range(3):  # imports mmap, marshal and ctypes, and warms the allocator
            assert leave.take_out(attach(process)).removed
        before = belongings(process.pid)
        for _ in range(50):
            assert leave.take_out(attach(process)).removed
        after = belongings(process.pid)
        assert after[:2] == before[:2]
        assert after[2] <= before[2] + 2  # an arena of the allocator may come; 50 texts not
        assert after[3] <= before[3] + 1024  # kB
        assert ended_well(process, finish) == {"new": [], "error": None}


def test_text_is_freed_where_the_probe_leaves_it(tmp_path: Path) -> None:
    """A loader text that the probe has not freed is freed from outside."""
    finish = tmp_path / "finish"
    with busy(finish) as process:
        for _ in range(2):
            attached = attach(process, FLEETING)
            ring = RingView(attached.path)
            assert ring.word(Word.LOADER_TEXT_ADDRESS) == 0
            ring.set_word(Word.STATE, State.DETACHED)
            ring.close()
            assert leave.take_out(attached).removed
        assert ended_well(process, finish) == {"new": [], "error": None}


BLOCKED = """
import select, sys, threading, time, os, socket
lock = threading.Lock(); lock.acquire()
reader, writer = os.pipe()
server = socket.create_server(("127.0.0.1", 0)); server.settimeout(3)
ways = {
    "sleep": lambda: time.sleep(3),
    "select": lambda: select.select([], [], [], 3),
    "poll": lambda: select.poll().poll(3000),
    "epoll": lambda: select.epoll().poll(3),
    "lock": lambda: lock.acquire(timeout=3),
    "read": lambda: (threading.Timer(3, os.write, (writer, b"x")).start(), os.read(reader, 1)),
}
print("ready", flush=True)
start = time.monotonic()
ways[sys.argv[1]]()
print(time.monotonic() - start, flush=True)
"""


@pytest.mark.parametrize(
    ("way", "system_calls", "in_place"),
    [
        ("sleep", ("clock_nanosleep", "nanosleep"), True),
        ("select", ("select", "pselect6"), True),
        ("poll", ("poll",), True),
        ("epoll", ("epoll_wait", "epoll_pwait"), True),
        ("read", ("read",), True),
        ("lock", ("futex",), False),
    ],
)
def test_blocked_main_thread_takes_it_in_and_sleeps_on(
    way: str, system_calls: tuple[str, ...], in_place: bool
) -> None:
    """The probe gets in while the main thread is blocked, and the call lasts as long as asked."""
    with running(BLOCKED, way) as process:
        wait_until(lambda: sleeps_in(process.pid, *system_calls))
        attached = attach(process, FLEETING)
        assert attached.in_place == in_place
        ring_file.remove(attached.path)
        out, complaint = process.communicate(timeout=60)
        assert not complaint
        assert 2.99 < float(out) < 4


# Native code that holds the GIL until it is given a byte; then Python runs, and waits for a line.
HOLDS_THE_GIL = """
import ctypes, select, struct, sys
native = ctypes.PyDLL(None)
asked = ctypes.c_char_p(struct.pack("ihh", 0, select.POLLIN, 0))
native.poll(asked, 1, 0)
print("ready", flush=True)
native.poll(asked, 1, -1)
for _ in range(1000): pass
sys.stdin.readline()
print("on", flush=True)
sys.stdin.readline()
print("alive", flush=True)
"""


def let_python_run(process: subprocess.Popen[str]) -> None:
    """Has the native code end, and waits until Python has run behind it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go on\n")
    process.stdin.flush()
    assert process.stdout.readline() == "on\n"


def test_late_loader_finds_no_ring_and_frees_itself() -> None:
    """Where no safe point comes in time the error says so, and what was queued does nothing."""
    with running(HOLDS_THE_GIL) as process:
        wait_until(lambda: sleeps_in(process.pid, "poll"))
        before = Path(f"/proc/{process.pid}/maps").read_text()
        with pytest.raises(SpectraceError, match=r"did not come to a safe point within 0\.3 s"):
            inject.put_in(rank_of(process), options=OPTIONS, timeout_s=0.3, sources=sources())
        assert not ring_file.ring_path(process.pid).exists()
        let_python_run(process)
        after = Path(f"/proc/{process.pid}/maps").read_text()
        new = set(_anonymous(after)) - set(_anonymous(before))
        assert not [size for _, size in new if size == loader.TEXT_BYTES]
        out, complaint = process.communicate("go on\n", timeout=60)
        assert out.endswith("alive\n")
        assert not complaint


def _anonymous(maps: str) -> list[tuple[int, int]]:
    fields = [line.split() for line in maps.splitlines()]
    ranges = [line[0].split("-") for line in fields if len(line) == 5]
    return [(int(start, 16), int(end, 16) - int(start, 16)) for start, end in ranges]


def is_queued(pid: int) -> bool:
    """Whether a loader waits for the interpreter of a process, or is just being queued."""
    try:
        ring = RingView(ring_file.ring_path(pid))
    except FileNotFoundError:
        return False
    address = ring.word(Word.LOADER_TEXT_ADDRESS)
    ring.close()
    return address != 0


def test_old_loader_leaves_a_newer_ring_alone() -> None:
    """Of two loaders queued in a blocked server only the one that the ring names runs."""
    count = FLEETING + "import sys; sys.spectrace_count = getattr(sys, 'spectrace_count', 0) + 1\n"
    code = HOLDS_THE_GIL.replace('print("alive"', 'print(sys.spectrace_count, "alive"')
    with running(code) as process:
        wait_until(lambda: sleeps_in(process.pid, "poll"))
        with pytest.raises(SpectraceError):
            inject.put_in(rank_of(process), options=OPTIONS, timeout_s=0.1, sources=sources(count))
        with ThreadPoolExecutor(1) as beside:
            second = beside.submit(attach, process, count)
            wait_until(lambda: is_queued(process.pid))
            let_python_run(process)
            attached = second.result()
        ring_file.remove(attached.path)
        out, complaint = process.communicate("go on\n", timeout=60)
        assert out.endswith("1 alive\n")
        assert not complaint


@pytest.mark.parametrize("python", interpreters(), ids=str)
def test_interrupt_that_hits_the_loader_reaches_the_server(python: Path, tmp_path: Path) -> None:
    """What a signal handler of the server raises while the loader runs is not swallowed."""
    finish = tmp_path / "finish"
    with busy(finish, python=python) as process:
        attached = attach(process, PROBE + "raise KeyboardInterrupt\n")
        assert leave.take_out(attached).removed
        assert ended_well(process, finish) == {"new": [], "error": "KeyboardInterrupt()"}


def test_error_in_the_probe_stays_there(tmp_path: Path) -> None:
    """An exception of the probe's first code does not reach the server, and is reported."""
    failing = f"""
import struct
info = b'{{"error": "ValueError: of the probe"}}'
ring[{layout.INFO_OFFSET}:{layout.INFO_OFFSET} + len(info)] = info
struct.pack_into("<Q", ring, {Word.INFO_LENGTH * 8}, len(info))
struct.pack_into("<Q", ring, {Word.STATE * 8}, {State.FAILED})
raise ValueError("of the probe")
"""
    finish = tmp_path / "finish"
    with busy(finish) as process:
        with pytest.raises(SpectraceError, match="ValueError: of the probe"):
            attach(process, failing)
        assert not ring_file.ring_path(process.pid).exists()
        assert ended_well(process, finish) == {"new": [], "error": None}


def test_paused_process_is_left_paused(tmp_path: Path) -> None:
    """A process stopped by a signal is not touched, and goes on when it is told to."""
    finish = tmp_path / "finish"
    with busy(finish) as process:
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: state_of(process.pid) == "T")
        with pytest.raises(SpectraceError, match=f"kill -CONT {process.pid}"):
            attach(process)
        assert state_of(process.pid) == "T"
        assert not ring_file.ring_path(process.pid).exists()
        process.send_signal(signal.SIGCONT)
        assert ended_well(process, finish) == {"new": [], "error": None}


TRACER = """
import ctypes, sys
assert ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), None, None) == 0
print("ready", flush=True)
sys.stdin.readline()
"""


def test_process_in_a_debugger_is_refused_with_its_name(tmp_path: Path) -> None:
    """Where a debugger has the process the error names the debugger."""
    with busy(tmp_path / "finish") as process, running(TRACER, str(process.pid)) as tracer:
        with pytest.raises(SpectraceError, match=rf"traced by python.* \(process {tracer.pid}\)"):
            attach(process)
        assert not ring_file.ring_path(process.pid).exists()


def test_process_that_is_no_python_is_refused() -> None:
    """A program without an interpreter is refused with what to give instead."""
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        try:
            with pytest.raises(SpectraceError, match="is no Python process"):
                inject.put_in(Rank(name="TP0", pid=process.pid))
        finally:
            process.kill()


def test_process_that_is_not_there_is_refused() -> None:
    """A number that no process has is refused."""
    with pytest.raises(SpectraceError, match="There is no process 4194305"):
        inject.put_in(Rank(name="TP0", pid=4194305))


@needs_root
def test_process_of_another_user_is_refused(tmp_path: Path) -> None:
    """Without rights over the process the error names its user and the way out."""
    with busy(tmp_path / "finish") as process:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            try:
                attach(process)
            except SpectraceError as error:
                os.write(writer, str(error).encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        message = os.read(reader, 4096).decode()
        os.close(reader)
        assert f"Process {process.pid} belongs to user root, and you are nobody" in message
        assert "run spectrace as root or with sudo" in message


@needs_root
@pytest.mark.skipif(not SYSTEM_PYTHON.exists(), reason="needs an interpreter open to all users")
def test_root_attaches_to_a_process_of_another_user() -> None:
    """The ring belongs to the user of the process, and nobody else may read it."""
    code = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.01)"
    with running(code, python=SYSTEM_PYTHON, user=NOBODY) as process:
        attached = attach(process, FLEETING)
        status = attached.path.stat()
        assert status.st_uid == NOBODY
        assert status.st_mode & 0o777 == 0o600
        ring_file.remove(attached.path)


IN_A_CONTAINER = """
mount -t tmpfs tmpfs /dev/shm && mount -t proc proc /proc && exec "$@"
"""


@contextlib.contextmanager
def busy_in_a_container(finish: Path) -> Iterator[tuple[subprocess.Popen[str], Rank]]:
    """A busy process with shared memory and process ids of its own, and its rank from here."""
    unshare = [shutil.which("unshare") or "unshare", "--mount", "--pid", "--fork", "--kill-child"]
    try:
        subprocess.run([*unshare, "/bin/true"], check=True, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("namespaces cannot be made here")
    shell = ["/bin/sh", "-c", IN_A_CONTAINER, "sh"]
    with subprocess.Popen(
        [*unshare, *shell, sys.executable, "-c", BUSY, str(finish), "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
            yield process, Rank(name="TP0", pid=int(children.split()[0]))
        finally:
            process.kill()


@needs_root
def test_server_in_a_container_takes_it_in(tmp_path: Path) -> None:
    """With other files and process ids the ring lies in the server's own shared memory."""
    finish = tmp_path / "finish"
    with busy_in_a_container(finish) as (process, rank):
        attached = inject.put_in(rank, options=OPTIONS, sources=sources())
        assert attached.path.parent == Path(f"/proc/{rank.pid}/root/dev/shm")
        assert attached.path.name.startswith("spectrace-1-")
        assert any(attached.path.samefile(path) for path in ring_file.find_rings())
        assert leave.take_out(attached).removed
        assert not attached.path.exists()
        assert ended_well(process, finish) == {"new": [], "error": None}


def test_a_second_reader_joins_and_the_probe_stays_until_the_last_leaves(tmp_path: Path) -> None:
    """The first one controls; when it leaves, the second one does, and takes the probe out."""
    finish = tmp_path / "finish"
    with busy(finish) as process:
        first, second = attach(process), attach(process)
        assert (first.joined, second.joined) == (False, True)
        assert (second.path, second.stop_ns) == (first.path, 0)
        ring = RingView(first.path)
        assert ring.word(Word.CONTROLLER) == first.key
        assert ring.word(Word.JOINS) == 1
        left = leave.take_out(first)
        assert (left.removed, left.left_to) == (False, True)
        assert f"process {os.getpid()}, which reads on" in left.reason
        assert ring.word(Word.CONTROLLER) == second.key
        ring.close()
        assert leave.take_out(second).removed
        assert not second.path.exists()
        assert ended_well(process, finish) == {"new": [], "error": None}


def test_a_reader_cannot_choose_the_timing_unless_it_takes_control(tmp_path: Path) -> None:
    """It is told who decides, and how it can; nothing has changed then."""
    sync = handle.Options(units=64, mode=Mode.SYNC)
    take = handle.Options(units=64, mode=Mode.SYNC, take_control=True)
    with busy(tmp_path / "finish") as process:
        first = attach(process)
        ring = RingView(first.path)
        with pytest.raises(SpectraceError, match=f"process {os.getpid()} decides .*--take-control"):
            inject.put_in(rank_of(process), options=sync, sources=sources())
        assert ring.word(Word.MODE) == Mode.DEVICE
        second = inject.put_in(rank_of(process), options=take, sources=sources())
        assert ring.word(Word.MODE) == Mode.SYNC
        assert ring.word(Word.CONTROLLER) == second.key
        ring.close()
        assert leave.take_out(second).left_to
        assert leave.take_out(first).removed


def test_probe_without_a_reader_is_taken_over(tmp_path: Path) -> None:
    """Who joins where the only reader gave no sign of life for 30 s controls, and as it asks."""
    with busy(tmp_path / "finish") as process:
        first = attach(process)
        ring = RingView(first.path)
        ring.set_word(Word.SEATS + Seat.HEARTBEAT_NS, time.monotonic_ns() - 31_000_000_000)
        second = inject.put_in(
            rank_of(process), options=handle.Options(mode=Mode.HOST), sources=sources()
        )
        assert second.joined
        assert second.path == first.path
        assert second.stop_ns == 0
        assert ring.word(Word.JOINS) == 1
        assert ring.word(Word.CONTROLLER) == second.key
        assert ring.word(Word.MODE) == Mode.HOST
        ring.close()
        assert leave.take_out(second).removed


@pytest.mark.parametrize("state", [State.EMPTY, State.DETACHED, State.FAILED])
def test_remains_of_an_earlier_attach_are_replaced(state: int, tmp_path: Path) -> None:
    """A ring in which nothing runs any more gives way to a new one."""
    with busy(tmp_path / "finish") as process:
        path = ring_file.create(rank_of(process), b"code", OPTIONS.units, {Word.STATE: state})
        inode = path.stat().st_ino
        attached = attach(process)
        assert not attached.joined
        assert attached.path == path
        assert path.stat().st_ino != inode
        assert leave.take_out(attached).removed


def test_ring_of_another_layout_is_refused(tmp_path: Path) -> None:
    """A ring that another release of spectrace made is refused with both layout versions."""
    with busy(tmp_path / "finish") as process:
        path = ring_file.create(rank_of(process), b"", OPTIONS.units, {Word.LAYOUT_VERSION: 99})
        with pytest.raises(SpectraceError, match=f"layout 99.* layout {layout.LAYOUT_VERSION}"):
            attach(process)
        ring_file.remove(path)


def test_detach_in_vain_leaves_the_ring_for_later() -> None:
    """A server that is blocked keeps its ring, told to leave, and the answer says so."""
    code = "import time\nprint('ready', flush=True)\ntime.sleep(60)"
    with running(code) as process:
        attached = attach(process, FLEETING)
        result = leave.take_out(attached, timeout_s=0.1)
        assert not result.removed
        assert f"spectrace detach {process.pid}" in result.reason
        assert attached.path.exists()
        process.kill()
        process.wait()
        result = leave.take_out(attached)
        assert result == handle.TakenOut(removed=True, foreign=(), reason="The server has ended.")
        assert not attached.path.exists()


def test_detach_where_nothing_is_says_so(tmp_path: Path) -> None:
    """It is an error that says where to look, unless the probe was just told to leave."""
    with busy(tmp_path / "finish") as process:
        with pytest.raises(SpectraceError, match="There is no spectrace in process"):
            leave.take_out_pid(process.pid)
        out = leave.take_out_pid(process.pid, was_there=True)
        assert out == handle.TakenOut(True, (), "The probe had already left.")


PUT_IN = """
import sys
from spectrace.attach import handle, inject
from spectrace.model import Rank
from tests.integration.attach_targets import sources
print("ready", flush=True)
rank = Rank(name="TP0", pid=int(sys.argv[1]))
inject.put_in(rank, options=handle.Options(units=64), sources=sources())
print("in", flush=True)
sys.stdin.read()
"""


def at_work_on(pid: int) -> bool:
    """Whether a child that attaches for somebody who was killed has not ended."""
    return any("spectrace.attach.handover" in process.title for process in processes()) or (
        "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()
    )


def test_spectrace_may_be_killed_at_any_moment_of_attaching(tmp_path: Path) -> None:
    """SIGKILL before, within and after the stop: the target goes on, and the next attach works."""
    finish = tmp_path / "finish"
    with busy(finish) as process:
        for moment in range(24):
            with subprocess.Popen(
                [sys.executable, "-c", PUT_IN, str(process.pid)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[2],
            ) as attaching:
                assert attaching.stdout
                assert attaching.stdout.readline() == "ready\n"
                time.sleep(moment * 0.01)
                attaching.kill()
            assert process.poll() is None
        wait_until(lambda: not at_work_on(process.pid))
        attached = attach(process)
        assert leave.take_out(attached).removed
        assert ended_well(process, finish) == {"new": [], "error": None}


def test_a_ring_of_somebody_else_is_not_believed(tmp_path: Path) -> None:
    """A file that others may write to is refused, however well it is made."""
    with busy(tmp_path / "finish") as process:
        attached = attach(process)
        attached.path.chmod(0o666)
        with pytest.raises(SpectraceError, match="belongs to somebody else"):
            RingView(attached.path)
        attached.path.chmod(0o600)
        assert leave.take_out(attached).removed


def test_a_ring_that_was_made_meanwhile_is_not_removed(tmp_path: Path) -> None:
    """Removing means the file that was looked at, not what has come in its place."""
    path = tmp_path / "test.ring"
    path.touch()
    inode = path.stat().st_ino
    ring_file.remove(path, inode + 1)
    assert path.exists()
    ring_file.remove(path, inode)
    assert not path.exists()


def test_rings_of_ended_processes_are_swept(tmp_path: Path) -> None:
    """What a killed spectrace and then a killed server leave behind goes; the living stay."""
    with busy(tmp_path / "one") as ended, busy(tmp_path / "two") as living:
        orphan, kept = attach(ended), attach(living)
        ended.kill()
        ended.wait()
        assert orphan.path in ring_file.sweep()
        assert not orphan.path.exists()
        assert kept.path.exists()
        assert leave.take_out(kept).removed


def test_rings_that_were_never_finished_are_swept(tmp_path: Path) -> None:
    """What a spectrace leaves that is killed while it makes one; not what is just being made."""
    with busy(tmp_path / "finish") as process:
        ring = ring_file.ring_path(process.pid)
        old, new = (ring.with_name(f".{ring.name}.{number}.new") for number in (4194301, 4194302))
        for path in (old, new):
            path.touch()
        os.utime(old, (time.time() - 90, time.time() - 90))
        try:
            assert old in ring_file.sweep()
            assert not old.exists()
            assert new.exists()
        finally:
            new.unlink()


@pytest.mark.parametrize(
    ("state", "quiet_s", "goes"),
    [
        (State.EMPTY, 31, True),
        (State.DETACHED, 31, True),
        (State.FAILED, 31, True),
        (State.EMPTY, 29, False),
        (State.DETACHED, 29, False),
        (State.TRACING, 31, False),
    ],
)
def test_rings_in_which_nothing_runs_are_swept(
    state: int, quiet_s: int, goes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a spectrace killed on its way in or out, 30 s later; the server may live on."""
    with busy(tmp_path / "finish") as process:
        now_ns = time.monotonic_ns()
        heartbeat_ns = now_ns - quiet_s * 1_000_000_000
        words = {Word.STATE: state, Word.HEARTBEAT_NS: heartbeat_ns}
        path = ring_file.create(rank_of(process), b"code", OPTIONS.units, words)
        monkeypatch.setattr("spectrace.attach.ring_file.time.monotonic_ns", lambda: now_ns)
        assert (path in ring_file.sweep()) is goes
        assert path.exists() is not goes
        ring_file.remove(path)
