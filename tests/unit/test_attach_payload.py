"""The code area of the ring: the probe's modules, compiled where that is safe."""

from __future__ import annotations

import marshal
import os
from types import CodeType

import pytest

from spectrace.attach import elf, payload
from spectrace.attach.elf import Interpreter

SOURCES = (("bootstrap", '"""Text."""\nassert False\nanswer = 42\n'), ("layout", "pass\n"))


@pytest.mark.parametrize("name", payload.PROBE_MODULES)
def test_every_module_of_the_probe_is_there(name: str) -> None:
    """The order of loading names files that exist."""
    assert payload.module_path(name).is_file()


def test_bootstrap_is_the_first_module() -> None:
    """The loader runs the first module, so that must be the one that loads the others."""
    assert payload.probe_sources()[0][0] == "bootstrap"


def test_own_interpreter_compiles_without_docstrings_and_asserts() -> None:
    """For a process with our files the code comes compiled, and runs without its asserts."""
    parts = marshal.loads(payload.build(os.getpid(), elf.interpreter(os.getpid()), SOURCES))  # noqa: S302 - our own
    assert [name for name, _ in parts] == ["bootstrap", "layout"]
    code = parts[0][1]
    assert isinstance(code, CodeType)
    assert code.co_filename == "<spectrace probe bootstrap>"
    namespace: dict[str, object] = {}
    exec(code, namespace)  # noqa: S102 - what the server will do
    assert namespace["answer"] == 42
    assert namespace.get("__doc__") is None


@pytest.mark.parametrize(
    "other",
    [
        Interpreter("libpython", {}, {}, (3, 9), 0x030900F0),
        Interpreter("libpython", {}, {}, (3, 9), 0),
        Interpreter("libpython", {}, {}, None, 0),
    ],
)
def test_other_version_gets_the_sources(other: Interpreter) -> None:
    """Where the executable is not of the process's version the sources go in as text."""
    parts = marshal.loads(payload.build(os.getpid(), other, SOURCES))  # noqa: S302 - our own
    assert parts == list(SOURCES)


def test_syntax_error_falls_back_to_the_sources() -> None:
    """What its interpreter cannot compile is left to the server, which will report it."""
    broken = (("bootstrap", "def"),)
    parts = marshal.loads(payload.build(os.getpid(), elf.interpreter(os.getpid()), broken))  # noqa: S302 - our own
    assert parts == list(broken)
