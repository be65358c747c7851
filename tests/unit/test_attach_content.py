"""What is said of a process whose memory is not what its files say."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from spectrace.attach import elf, inject
from spectrace.attach.elf import Interpreter
from spectrace.attach.ptrace import TargetGone
from spectrace.errors import SpectraceError

PYTHON = Interpreter("libpython", {}, {}, (3, 11), 0x030B00F0)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process in whose memory something else stands, as it seems."""
    monkeypatch.setattr(elf, "changed", lambda _pid, _interpreter: "Py_IsInitialized")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_process_that_is_just_ending_has_ended(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loses its memory before it is gone: its Python was not replaced."""
    monkeypatch.setattr(inject, "_DYING_S", 60.0)
    killer = threading.Timer(0.05, process.kill)
    killer.start()
    with pytest.raises(TargetGone):
        inject._check_content(process.pid, PYTHON)
    killer.join()


def test_a_process_that_goes_on_was_changed(process: subprocess.Popen[bytes]) -> None:
    """The function is named, and what to do."""
    with pytest.raises(SpectraceError, match=r"differ at Py_IsInitialized.*restart the server"):
        inject._check_content(process.pid, PYTHON)
