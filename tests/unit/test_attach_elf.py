"""Finding functions in a live process: the addresses are those that the process itself has."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import pytest

from spectrace.attach import elf
from spectrace.errors import SpectraceError


def address_of(library: ctypes.CDLL, name: str) -> int | None:
    """Where the dynamic linker says the function is."""
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value


@pytest.mark.parametrize("name", elf.PYTHON_FUNCTIONS)
def test_python_functions_stand_where_the_linker_put_them(name: str) -> None:
    """Found through the files, the interpreter's functions have the addresses of ctypes."""
    found = elf.interpreter(os.getpid())
    assert found.functions[name] == address_of(ctypes.pythonapi, name)


@pytest.mark.parametrize("name", elf.LIBC_FUNCTIONS)
def test_libc_functions_stand_where_the_linker_put_them(name: str) -> None:
    """Found through the files, libc's functions have the addresses of ctypes."""
    found = elf.interpreter(os.getpid())
    assert found.functions[name] == address_of(ctypes.CDLL(None), name)


def test_content_is_what_stands_in_memory() -> None:
    """The first bytes of a function are the same in the file and in the process."""
    found = elf.interpreter(os.getpid())
    for name, address in found.functions.items():
        assert ctypes.string_at(address, len(found.content[name])) == found.content[name]


def test_version_is_ours() -> None:
    """The version read from the file is that of the running interpreter."""
    found = elf.interpreter(os.getpid())
    assert found.version == sys.version_info[:2]
    if sys.version_info >= (3, 11):
        assert found.hexversion == sys.hexversion


def test_process_without_python_is_told_apart() -> None:
    """A program that exports no interpreter is no Python process."""
    reader, writer = os.pipe()
    pid = os.posix_spawn("/bin/cat", ["cat"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0)])
    try:
        while Path(f"/proc/{pid}/exe").readlink() == Path(sys.executable).resolve():
            pass  # not yet become cat
        assert not elf.is_python(pid)
        with pytest.raises(SpectraceError, match="is no Python process"):
            elf.interpreter(pid)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(reader)
        os.close(writer)


def test_missing_process_is_an_error() -> None:
    """A number that no process has gives a sentence, not a traceback."""
    with pytest.raises(SpectraceError, match="There is no process"):
        elf.interpreter(4194305)
