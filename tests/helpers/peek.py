"""Looks into a running Python process by running a few lines in it, for tests only."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from spectrace.attach import elf, ptrace

_PAGE = 4096
_READ_WRITE, _PRIVATE_ANONYMOUS = 3, 0x22
_TIMEOUT_S = 60.0


def peek(pid: int, lines: str) -> Any:
    """Runs `lines` in the main thread of a process and returns what they put into `answer`.

    Args:
        pid: A Python process.
        lines: Python; what it stores in `answer` must be JSON.

    Raises:
        AssertionError: The lines raised, or did not run in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        script, reply = Path(folder) / "lines.py", Path(folder) / "reply"
        script.write_text(_wrapped(lines, reply))
        _run_in(pid, f"exec(open({str(script)!r}).read(), {{}})\n".encode() + b"\0")
        return _wait_for(reply)


def _wrapped(lines: str, reply: Path) -> str:
    body = "\n".join("    " + line for line in lines.splitlines())
    return (
        "import json, os\n"
        "answer = None\n"
        f"try:\n{body}\n    said = [True, answer]\n"
        "except Exception as error:\n    said = [False, repr(error)]\n"
        f"with open({str(reply) + '.new'!r}, 'w') as file:\n    json.dump(said, file)\n"
        f"os.rename({str(reply) + '.new'!r}, {str(reply)!r})\n"
    )


def _run_in(pid: int, text: bytes) -> None:
    functions = elf.interpreter(pid).functions

    def hand_over(thread: ptrace.StoppedThread) -> None:
        # The page stays with the process: a test may leave 4 KB behind.
        page = thread.call(
            functions["mmap"], 0, _PAGE, _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0, timeout_s=1.0
        )
        thread.write(page, text)
        add, run = functions["Py_AddPendingCall"], functions["PyRun_SimpleString"]
        assert thread.call(add, run, page, timeout_s=1.0) & 0xFFFFFFFF == 0

    ptrace.operate(pid, hand_over)


def _wait_for(reply: Path) -> Any:
    deadline = time.monotonic() + _TIMEOUT_S
    while not reply.exists():
        assert time.monotonic() < deadline, "the process did not run the lines"
        time.sleep(0.01)
    worked, answer = json.loads(reply.read_text())
    assert worked, answer
    return answer
