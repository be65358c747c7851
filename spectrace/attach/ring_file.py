"""Makes, finds and removes the ring files, in the shared memory of the traced process."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from spectrace.attach import procfs
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Rank
from spectrace.probe import layout
from spectrace.probe.layout import State, Word
from spectrace.probe.layout_window import SUFFIX

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - files there are made exclusively, never followed
_PATTERN = "spectrace-*.ring"
_UNFINISHED = ".spectrace-*.new"
_WINDOWS = f"spectrace-*{SUFFIX}"
_UNFINISHED_FOR_S = 60.0  # making a ring takes milliseconds
_WORD = struct.Struct("<Q")
_libc = ctypes.CDLL(None)


class AlreadyThereError(SpectraceError):
    """The ring that was to be made is there: another spectrace has just made it."""


def name_in_target(pid: int) -> str:
    """The ring file as the traced process itself names it.

    The name carries the process's own id of itself: whoever attaches from whichever container
    comes to the same name, so that nobody puts a second probe in beside the first.

    Raises:
        SpectraceError: There is no such process.
    """
    return f"{SHARED_MEMORY}/spectrace-{procfs.inner_pid(pid)}-{procfs.start_ticks(pid)}.ring"


def ring_path(pid: int) -> Path:
    """Where the ring of a process is, or would be, as this process sees it.

    Raises:
        SpectraceError: There is no such process, or we may not look into it.
    """
    name = name_in_target(pid)
    return Path(name) if procfs.shares_files(pid) else Path(f"/proc/{pid}/root{name}")


def create(rank: Rank, payload: bytes, units: int, words: dict[int, int] | None = None) -> Path:
    """Makes the ring file of a process.

    It appears under its name only when it is whole, and all its memory is taken here: a page
    that could not be had later would kill the server with SIGBUS.

    Args:
        rank: The process; the file will belong to its user.
        payload: The code area, as `payload.build` makes it.
        units: Size of the ring in units of `layout.UNIT_BYTES`.
        words: Further header words.

    Returns:
        The file, as this process sees it.

    Raises:
        AlreadyThereError: Another spectrace has just made the file.
        SpectraceError: Shared memory is too small or not writable.
    """
    with as_owner(rank.pid):
        return _create(rank, payload, units, words or {})


def _create(rank: Rank, payload: bytes, units: int, words: dict[int, int]) -> Path:
    path = ring_path(rank.pid)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        descriptor = _open_new(temporary)
        try:
            reserve(descriptor, layout.units_offset(len(payload)) + units * layout.UNIT_BYTES)
            _write(descriptor, layout.CODE_OFFSET, payload)
            _write_header(descriptor, {**_header(rank.pid, len(payload), units), **words})
            _write(descriptor, layout.PATH_OFFSET, name_in_target(rank.pid).encode() + b"\0")
            give_to_owner(descriptor, rank.pid)
        finally:
            os.close(descriptor)
        os.link(temporary, path, follow_symlinks=False)
    except FileExistsError:
        raise AlreadyThereError(
            f"Another spectrace is attaching to process {rank.pid} at this moment: "
            "use that one, or try again when it has left."
        ) from None
    except OSError as error:
        raise SpectraceError(
            f"The ring file {path} cannot be made ({error.strerror}): "
            f"{SHARED_MEMORY} of the server must be there and writable for you; "
            f"`spectrace doctor {rank.pid}` says what mends it."
        ) from None
    finally:
        temporary.unlink(missing_ok=True)
    return path


def reserve(descriptor: int, size: int) -> None:
    """Takes the memory of an open ring file, which grows to `size` bytes where it is shorter.

    Raises:
        SpectraceError: There is not so much.
    """
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        raise SpectraceError(
            f"The server's {SHARED_MEMORY} has no room for a ring of {size / 1e6:.1f} MB "
            f"({error.strerror}): free some, or start its container with a larger --shm-size."
        ) from None


def give_to_owner(descriptor: int, pid: int) -> None:
    """Makes an open file of ours one that the owner of a process alone may use."""
    os.fchmod(descriptor, 0o600)
    uid, gid = procfs.owner(pid)
    if os.fstat(descriptor).st_uid != uid:
        os.fchown(descriptor, uid, gid)


def find_rings() -> list[Path]:
    """All ring files that can be seen from here, those of containers included.

    Whose they are stands in their header (TARGET_PID), not in their name.
    """
    found: dict[tuple[int, int], Path] = {}
    for folder in _shared_memories():
        for path, status in _files_in(folder, _PATTERN):
            found.setdefault((status.st_dev, status.st_ino), path)
    return list(found.values())


def _files_in(folder: Path, pattern: str) -> list[tuple[Path, os.stat_result]]:
    try:
        files = [(path, path.lstat()) for path in sorted(folder.glob(pattern))]
    except OSError:  # of a process that ended, or that we may not look into
        return []
    return [(path, status) for path, status in files if stat.S_ISREG(status.st_mode)]


def remove(path: Path, inode: int | None = None) -> None:
    """Removes a ring file; one that is gone already is no error.

    Args:
        path: The file.
        inode: Only if it is still this one; None for whatever is there.

    Raises:
        SpectraceError: It may not be removed.
    """
    try:
        if inode is None or path.lstat().st_ino == inode:
            path.unlink()
    except FileNotFoundError:
        if path.parts[1:2] == ("proc",):  # the way to it went with its process
            sweep()
    except OSError as error:
        raise SpectraceError(
            f"The ring file {path} cannot be removed ({error.strerror}): remove it as its owner."
        ) from None


def sweep() -> list[Path]:
    """Removes the rings of processes that have ended, and those in which nothing runs any more.

    They are left where first spectrace was killed and then the server, and where spectrace was
    killed on its way in or out.

    Returns:
        Those that were removed.
    """
    rings = [path for path in find_rings() if _is_orphan(path) or _is_abandoned(path)]
    return [path for path in rings + _unfinished() + _left_windows() if _removed(path)]


def _unfinished() -> list[Path]:
    return _older_ones(_UNFINISHED)


def _left_windows() -> list[Path]:
    """Files of kernel windows whose ring has gone."""
    return [path for path in _older_ones(_WINDOWS) if not path.with_suffix(".ring").exists()]


def _older_ones(pattern: str) -> list[Path]:
    """Files in shared memory that nobody is just making."""
    oldest_s = time.time() - _UNFINISHED_FOR_S
    return [
        path
        for folder in _shared_memories()
        for path, status in _files_in(folder, pattern)
        if status.st_mtime < oldest_s
    ]


def _is_orphan(path: Path) -> bool:
    try:
        view = RingView(path)
    except (OSError, SpectraceError):  # not ours to judge
        return False
    try:
        if view.word(Word.ORIGIN) != layout.Origin.INJECTED:
            return not _is_locked(path)  # its process numbers itself as it sees itself
        # Of a process that another PID namespace has numbered we cannot know whether it lives.
        ours = view.word(Word.PID_NAMESPACE) == procfs.pid_namespace()
        pid, ticks = view.word(Word.TARGET_PID), view.word(Word.TARGET_START_TICKS)
    finally:
        view.close()
    return ours and not procfs.is_alive(pid, ticks)


def _is_locked(path: Path) -> bool:
    """Whether the process that made a ring for itself is still there to hold its lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_abandoned(path: Path) -> bool:
    """Whether no probe runs with the ring, and for long nobody has been on the way in or out.

    A loader that has not run yet finds no file then, and does nothing.
    """
    try:
        view = RingView(path)
    except (OSError, SpectraceError):  # not ours to judge
        return False
    try:
        runs = view.word(Word.STATE) not in {State.EMPTY, State.DETACHED, State.FAILED}
        quiet_ns = time.monotonic_ns() - view.word(Word.HEARTBEAT_NS)
        brought_by_us = view.word(Word.CODE_BYTES) > 0
    finally:
        view.close()
    return brought_by_us and not runs and quiet_ns > layout.ABANDONED_NS


def _removed(path: Path) -> bool:
    try:
        remove(path)
    except SpectraceError:
        return False
    return True


def _open_new(path: Path) -> int:
    path.unlink(missing_ok=True)  # of an earlier spectrace with our process id that was killed
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def _header(pid: int, code_bytes: int, units: int) -> dict[int, int]:
    return {
        Word.LAYOUT_VERSION: layout.LAYOUT_VERSION,
        Word.UNITS: units,
        Word.UNITS_OFFSET: layout.units_offset(code_bytes),
        Word.CODE_BYTES: code_bytes,
        Word.TARGET_PID: pid,
        Word.TARGET_START_TICKS: procfs.start_ticks(pid),
        Word.PID_NAMESPACE: procfs.pid_namespace(),
    }


def _write_header(descriptor: int, words: dict[int, int]) -> None:
    for place, value in words.items():
        _write(descriptor, place * _WORD.size, _WORD.pack(value))
    _write(descriptor, Word.MAGIC * _WORD.size, _WORD.pack(layout.MAGIC))


@contextlib.contextmanager
def as_owner(pid: int) -> Iterator[None]:
    """In a container with users of its own, root makes files as the owner of the process.

    Root itself is nobody there, for whom the kernel makes no file.
    """
    if os.geteuid() or procfs.shares_users(pid):
        yield
        return
    uid, gid = procfs.owner(pid)
    own_gid, own_uid = _libc.setfsgid(gid), _libc.setfsuid(uid)
    try:
        yield
    finally:
        _libc.setfsuid(own_uid)
        _libc.setfsgid(own_gid)


def _write(descriptor: int, offset: int, data: bytes) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


def _shared_memories() -> list[Path]:
    """The shared memory of every mount namespace, and of every root, in which a process is."""
    folders = {_root_of("self"): Path(SHARED_MEMORY)}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            folders.setdefault(_root_of(entry.name), entry / f"root{SHARED_MEMORY}")
    folders.pop(None, None)
    return list(folders.values())


def _root_of(pid: str) -> tuple[int, int, int] | None:
    """What tells the files that a process sees from others'; None where we may not know."""
    process = Path(f"/proc/{pid}")
    try:
        root = (process / "root").stat()
        return (process / "ns/mnt").stat().st_ino, root.st_dev, root.st_ino
    except OSError:
        return None
