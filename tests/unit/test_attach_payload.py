"""The code area of the ring: the probe's modules, compiled where that is safe."""

from __future__ import annotations

import marshal
import os
import sys
from types import CodeType

import pytest

from spectrace.attach import elf, loader, payload
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
    made = payload.build(os.getpid(), elf.interpreter(os.getpid()), SOURCES)
    parts = marshal.loads(made.code)  # noqa: S302 - our own
    assert [name for name, _ in parts] == ["bootstrap", "layout"]
    code = parts[0][1]
    assert isinstance(code, CodeType)
    assert code.co_filename == "<spectrace probe bootstrap>"
    namespace: dict[str, object] = {}
    exec(code, namespace)  # noqa: S102 - what the server will do
    assert namespace["answer"] == 42
    assert namespace.get("__doc__") is None


ANNOTATED = """\
from __future__ import annotations
class Sum:
    start: int = 1
    other: int
    def of(self, *numbers: int, more: int = 2) -> int:
        total: int = self.start + more
        return total + sum(numbers)
answer = Sum().of(3, 4)
name = Sum.of.__qualname__
notes = Sum.__dict__.get("__annotations__"), Sum.of.__annotations__
"""


def test_compiled_code_carries_nothing_for_readers() -> None:
    """No annotations and no qualified names; it does what the text does."""
    sources = (("bootstrap", ANNOTATED),)
    made = payload.build(os.getpid(), elf.interpreter(os.getpid()), sources)
    ((_, code),) = marshal.loads(made.code)  # noqa: S302 - our own
    namespace: dict[str, object] = {}
    exec(code, namespace)  # noqa: S102 - what the server will do
    assert namespace["answer"] == 1 + 2 + 3 + 4
    assert namespace["name"] == ("of" if sys.version_info >= (3, 11) else "Sum.of")
    assert namespace["notes"] in ((None, {}), ({}, {}))


def test_what_is_needed_late_lies_behind_the_rest() -> None:
    """Each such module by how far before the end it begins, and how long it is."""
    made = payload.build(os.getpid(), elf.interpreter(os.getpid()))
    places = {name: code for name, code in marshal.loads(made.code) if isinstance(code, tuple)}  # noqa: S302 - our own
    assert set(places) == set(payload.LATE_MODULES)
    for name, (back, size) in places.items():
        begin = len(made.code) - back
        code = marshal.loads(made.code[begin : begin + size])  # noqa: S302 - our own
        assert code.co_filename == f"<spectrace probe {name}>"


def test_the_loader_comes_compiled() -> None:
    """By the interpreter of the process, and fits into its text."""
    made = payload.build(os.getpid(), elf.interpreter(os.getpid()))
    code = marshal.loads(made.loader)  # noqa: S302 - our own
    assert code.co_filename == "<spectrace loader>"
    loader.Text("/dev/shm/spectrace-4194304-123456789012.ring", made.loader)  # noqa: S108 - a name


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
    made = payload.build(os.getpid(), other, SOURCES)
    assert marshal.loads(made.code) == list(SOURCES)  # noqa: S302 - our own
    assert not made.loader


def test_syntax_error_falls_back_to_the_sources() -> None:
    """What its interpreter cannot compile is left to the server, which will report it."""
    broken = (("bootstrap", "def"),)
    made = payload.build(os.getpid(), elf.interpreter(os.getpid()), broken)
    assert marshal.loads(made.code) == list(broken)  # noqa: S302 - our own
    assert not made.loader
