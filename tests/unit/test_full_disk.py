"""A disk that is full: what a command that writes a file says then, and what it leaves there.

The disk is a real one of 64 KiB, in the memory of a namespace that only the command sees.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.kineto_trace import newest, turns
from tests.helpers.recorded import cycle_of, record, run_of

TIMEOUT_S = 60.0
SPECTRACE = "from spectrace.cli.entry import main; main()"
NAMESPACE = ("unshare", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",)))
# Mounts the disk, leaves so many KiB of it free, runs the command, and lists what it left.
SCRIPT = """
mount -t tmpfs -o size=64k tmpfs "$1" || exit 99
cd "$1" && head -c $((65536 - $2 * 1024)) /dev/zero > filler && shift 2
"$@"
code=$?
ls -A
exit $code
"""
DISK_KIB = 64


def namespaces() -> bool:
    """Whether a namespace with a disk of its own can be had here."""
    try:
        command = [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/tmp"]  # noqa: S108 - its own
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not namespaces(), reason="no disk can be mounted here")


@dataclass(frozen=True)
class Ended:
    """How a command ended on that disk.

    Attributes:
        status: Its exit status.
        said: What it said last on stderr.
        left: The names in the folder it was to write into.
    """

    status: int
    said: str
    left: list[str]


def on_the_disk(folder: Path, free_kib: int, *arguments: str | Path) -> Ended:
    """Runs a command in the folder, where the disk is mounted."""
    done = subprocess.run(
        [
            *(*NAMESPACE, "sh", "-c", SCRIPT, "sh", str(folder), str(free_kib)),
            *(sys.executable, "-c", SPECTRACE, *map(str, arguments)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode != 99, done.stderr
    left = done.stdout.splitlines()[done.stdout.splitlines().index("filler") :]
    return Ended(done.returncode, done.stderr.splitlines()[-1], left)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording, on a disk with room."""
    path = tmp_path_factory.mktemp("recording") / "run.spectrace"
    return record(path, (cycle_of(number) for number in range(300)), run_of())


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Where the disk is mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


COMMANDS = [
    ("report", "RECORDING", "--html", "out"),
    *(
        ("export", "RECORDING", "--to", name, "-o", "out")
        for name in ("chrome", "csv", "jaeger", "otlp", "parquet", "perfetto")
    ),
]
SMALL = ("predict", "RECORDING", "--steps", "2", "-o", "out")  # it would fit into the least


@pytest.mark.parametrize(
    ("command", "free_kib"),
    [*((command, kib) for command in COMMANDS for kib in (0, 4)), (SMALL, 0)],
    ids=str,
)
def test_a_file_that_has_no_room_is_named_with_what_to_do(
    recording: Path, disk: Path, command: tuple[str, ...], free_kib: int
) -> None:
    """And there is no half of it, not even a hidden one."""
    words = [recording if word == "RECORDING" else word for word in command]
    ended = on_the_disk(disk, free_kib, *words)
    assert ended == Ended(
        1,
        f"spectrace: out cannot be written: No space left on device. Make room in {disk}, or name "
        "a file on another disk.",
        ["filler"],
    )


@pytest.mark.parametrize("free_kib", [0, 16, DISK_KIB])
def test_an_import_that_has_no_room_leaves_nothing(
    tmp_path: Path, disk: Path, free_kib: int
) -> None:
    """It can be done again; a recording that lacks cycles would look like a whole one."""
    trace = turns(newest, 300).write(tmp_path / "trace.json")
    ended = on_the_disk(disk, free_kib, "import", trace, "-o", "out.spectrace")
    assert ended.status == 1
    assert "(No space left on device): make room where" in ended.said
    assert ended.left == ["filler"]
