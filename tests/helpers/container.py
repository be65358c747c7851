"""A server in a container that the test makes: namespaces and shared memory of its own.

Its scheduler is a real Python process with SGLang's title and the scheduler of
`simulated_scheduler`, which decodes until it is killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

import pytest

SYSTEM_PYTHON = "/usr/bin/python3"
ROOT = Path(__file__).parents[2]
OUTER_ID = 100000  # who root of a container with users of its own is outside

# Enters new namespaces, says so, waits until its users are mapped, and becomes process 1.
_ENTER = """
import ctypes, os, signal, sys
flags, users, script, *command = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(int(flags)):
    sys.exit("namespaces cannot be made here: " + os.strerror(ctypes.get_errno()))
print("apart", flush=True)
sys.stdin.readline()
child = os.fork()
if child:
    os.waitpid(child, 0)
    os._exit(0)
if int(users):
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
libc.prctl(1, signal.SIGKILL)
os.execv("/bin/sh", ["sh", "-c", script, "sh", *command])
"""
_MOUNT = """
set -e
mount --make-rprivate /
mount -t tmpfs -o size={size} tmpfs /dev/shm
mount -t proc proc /proc
{enter} "$@"
"""
# The same files under another root, so that from outside all its paths are longer.
CHROOT = "mkdir $FOLDER/root && mount --rbind / $FOLDER/root && exec chroot $FOLDER/root"

# Starts a scheduler for each title. By that name Python does not find its library.
SERVER = """
import os, subprocess, sys
program = sys.argv[1]
children = [
    subprocess.Popen([title, "-c", program], executable=sys.executable, stdout=subprocess.PIPE,
                     env={**os.environ, "PYTHONHOME": sys.base_prefix})
    for title in sys.argv[2:]
]
if not all(child.stdout.readline() for child in children): sys.exit("a scheduler has ended")
print("ready", flush=True)
while children:
    sys.stdin.readline()
    children = [child for child in children if child.poll() is None]
sys.stdin.readline()
"""

SCHEDULER = """
import sys, time
sys.path.insert(0, {folder!r})
from tests.helpers.simulated_scheduler import Batch, Request, installed
keep = installed()
scheduler = next(keep)()
print("ready", flush=True)
while True:
    scheduler.step(Batch([Request("r0"), Request("r1")]))
    scheduler.on_idle()
    time.sleep(0.005)
"""

# What the scheduler imports, where users of the container's own may read it.
_IMPORTED = (
    "spectrace/__init__.py",
    "spectrace/probe",
    "tests/helpers/simulated_scheduler.py",
)

_NEW_USERS = 0x10000000
_NEW_MOUNTS_AND_PROCESSES = 0x00020000 | 0x20000000


class Container:
    """A server with process ids, mounts and shared memory of its own.

    Skips the test where namespaces cannot be made.

    Args:
        titles: Of its schedulers.
        own_users: Give it users of its own as well: its root is `OUTER_ID` outside, and the
            machine's Python runs it, since that is open to all.
        shared_memory: Size of its /dev/shm, as mount takes it.
        python: What runs it.
        enter: How its process 1 begins, instead of `exec`.
    """

    def __init__(
        self,
        *titles: str,
        own_users: bool = False,
        shared_memory: str = "64m",
        python: str = sys.executable,
        enter: str = "exec",
    ) -> None:
        flags = _NEW_MOUNTS_AND_PROCESSES | (_NEW_USERS if own_users else 0)
        self._own_users = own_users
        self._folder = tempfile.TemporaryDirectory(prefix="spectrace-test-")
        self._command = [
            sys.executable,
            "-c",
            _ENTER,
            str(flags),
            str(int(own_users)),
            _MOUNT.format(size=shared_memory, enter=enter),
            *(SYSTEM_PYTHON if own_users else python, "-c", SERVER),
            SCHEDULER.format(folder=self._folder.name),
            *(titles or ("sglang::scheduler",)),
        ]

    def __enter__(self) -> Container:  # noqa: PYI034 - Self came with Python 3.11
        """Starts it and waits until its schedulers decode."""
        if os.geteuid():
            pytest.skip("only root may make a container without its tools")
        self._bring_what_is_imported()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "FOLDER": self._folder.name},
        )
        try:
            if self._line() != "apart":
                pytest.skip(self._complaint())
            if self._own_users:
                for kind in ("uid", "gid"):
                    path = Path(f"/proc/{self._process.pid}/{kind}_map")
                    path.write_text(f"0 {OUTER_ID} 65536", "ascii")
            self.tell()
            assert self._line() == "ready", self._complaint()
        except BaseException:
            self.stop()
            raise
        (self.server_pid,) = children(self._process.pid)
        self.rank_pids = children(self.server_pid)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends all its processes."""
        self.stop()

    def stop(self) -> None:
        """Ends it; what it had in its shared memory is gone with it."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def tell(self) -> None:
        """Sends a line: to process 1, to look which of its schedulers have ended."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def _bring_what_is_imported(self) -> None:
        folder = Path(self._folder.name)
        folder.chmod(0o755)
        for name in _IMPORTED:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
            copy(ROOT / name, folder / name)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def _complaint(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read().strip()

    @property
    def shared_memory(self) -> Path:
        """Its /dev/shm, as we see it."""
        return Path(f"/proc/{self.rank_pids[0]}/root/dev/shm")


def children(pid: int) -> list[int]:
    """The processes that a process has started, as we number them."""
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    return [int(word) for word in words]


def inside(pid: int, *command: str) -> list[str]:
    """A command that runs among the processes and mounts of another process."""
    nsenter = shutil.which("nsenter") or pytest.skip("there is no nsenter")
    return [nsenter, "--target", str(pid), "--mount", "--pid", *command]
