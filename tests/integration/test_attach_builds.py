"""Finding the interpreter in every way to build one: exported, hidden, static, with musl.

The programs are small stand-ins of C with the names of Python's functions; where these
stand in memory each says itself.
"""

from __future__ import annotations

import contextlib
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectrace.attach import elf
from spectrace.errors import SpectraceError

pytestmark = pytest.mark.beside_others

NAMES = (*elf.PYTHON_FUNCTIONS, *elf.LIBC_FUNCTIONS)

PYTHON = "\n".join(
    f"int {name}(void) {{ return {place}; }}" for place, name in enumerate(elf.PYTHON_FUNCTIONS)
)
VERSION = "const unsigned long Py_Version = 0x030d02f0;\n"

# Writes the addresses of all functions and waits.
MAIN = f"""
long write(int, const void *, unsigned long);
int pause(void);
{"".join(f"extern int {name}();" for name in NAMES)}
int main(void) {{
  void *addresses[] = {{ {", ".join(NAMES)} }};
  write(1, addresses, sizeof addresses);
  for (;;) pause();
}}
"""
OWN_START = """
__asm__(".globl _start\\n_start: xor %ebp, %ebp\\n and $-16, %rsp\\n call main\\n");
"""


def system_call(name: str, number: int) -> str:
    """A function of a C library as its system call, for up to three arguments."""
    return f'__asm__(".globl {name}\\n{name}: mov ${number}, %eax\\n syscall\\n ret\\n");\n'


MUSL = "".join(
    system_call(name, number)
    for name, number in (("write", 1), ("pause", 34), ("mmap", 9), ("munmap", 11))
)


def build(path: Path, text: str, *options: str) -> Path:
    """Compiles a program or library."""
    source = ("-xc", "-", "-xnone")
    command = ["gcc", "-w", "-O1", "-fno-builtin", *source, "-o", str(path), *options]
    subprocess.run(command, input=text, text=True, check=True)
    return path


@contextlib.contextmanager
def running(program: Path) -> Iterator[tuple[int, dict[str, int]]]:
    """A process of the program, and the addresses that it says its functions have."""
    with subprocess.Popen([str(program)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            form = struct.Struct(f"<{len(NAMES)}Q")
            addresses = form.unpack(process.stdout.read(form.size))
            yield process.pid, dict(zip(NAMES, addresses, strict=True))
        finally:
            process.kill()


@pytest.mark.parametrize(
    "options",
    [
        ("-rdynamic",),
        ("-rdynamic", "-no-pie"),
        ("-rdynamic", "-Wl,--hash-style=sysv", "-s"),
        (),
        ("-static",),
        ("-static-pie",),
    ],
    ids=["exported", "fixed address", "stripped, exported", "hidden", "static", "static-pie"],
)
def test_functions_are_found_in_every_build(options: tuple[str, ...], tmp_path: Path) -> None:
    """In the executable, whether the linker or only a debugger knows them; libc likewise."""
    program = build(tmp_path / "python3.13", PYTHON + VERSION + MAIN, *options)
    with running(program) as (pid, addresses):
        found = elf.interpreter(pid)
        assert found.functions == addresses
        assert found.name == str(program)
        assert (found.version, found.hexversion) == ((3, 13), 0x030D02F0)
        assert elf.is_python(pid)


def test_functions_are_found_in_a_library(tmp_path: Path) -> None:
    """A libpython beside the executable holds them; before 3.11 its name tells the version."""
    library = build(tmp_path / "libpython3.10.so.1.0", PYTHON, "-shared", "-fPIC")
    program = build(tmp_path / "server", MAIN, str(library), f"-Wl,-rpath,{tmp_path}")
    with running(program) as (pid, addresses):
        found = elf.interpreter(pid)
        assert found.functions == addresses
        assert found.name == str(library)
        assert (found.version, found.hexversion) == ((3, 10), 0)


@pytest.mark.parametrize("name", ["ld-musl-x86_64.so.1", "libc.musl-x86_64.so.1"])
def test_musl_is_a_c_library_too(name: str, tmp_path: Path) -> None:
    """There mmap stands in the dynamic linker, or in a library by its name."""
    library = build(tmp_path / name, MUSL, "-shared", "-nostdlib", f"-Wl,-soname,{name}")
    options = ("-nostdlib", "-rdynamic", str(library), f"-Wl,-rpath,{tmp_path}")
    program = build(tmp_path / "python3.12", PYTHON + MAIN + OWN_START, *options)
    with running(program) as (pid, addresses):
        assert "libc.so" not in Path(f"/proc/{pid}/maps").read_text("utf-8")
        found = elf.interpreter(pid)
        assert found.functions == addresses
        assert found.version == (3, 12)


def test_stripped_static_python_is_refused_as_what_it_is(tmp_path: Path) -> None:
    """It has the name of a Python and none of its functions; another program is no Python."""
    text = PYTHON + MAIN
    with running(build(tmp_path / "python3.11", text, "-static", "-s")) as (pid, _):
        assert not elf.is_python(pid)
        with pytest.raises(SpectraceError, match=r"runs Python \(.*static build that was stripped"):
            elf.interpreter(pid)
    with (
        running(build(tmp_path / "database", text, "-static", "-s")) as (pid, _),
        pytest.raises(SpectraceError, match="is no Python process"),
    ):
        elf.interpreter(pid)


def test_python_without_a_c_library_is_refused(tmp_path: Path) -> None:
    """Where mmap cannot be found nothing can be put in, and the error says what would help."""
    program = build(tmp_path / "python3.11", PYTHON + MAIN, "-static")
    subprocess.run(
        [shutil.which("strip") or "strip", "-N", "mmap", "-N", "munmap", str(program)], check=True
    )
    with (
        running(program) as (pid, _),
        pytest.raises(SpectraceError, match=r"no C library .* shared C library as usual"),
    ):
        elf.interpreter(pid)
