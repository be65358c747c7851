"""Finds the functions of the interpreter and of libc in a live process, by its ELF files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.hash import ELFHashSection, GNUHashSection
from elftools.elf.sections import Symbol as Entry
from elftools.elf.sections import SymbolTableSection

from spectrace.attach import procfs, ptrace
from spectrace.errors import SpectraceError

PYTHON_FUNCTIONS = (
    "Py_IsInitialized",
    "Py_AddPendingCall",
    "PyGILState_Check",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyRun_SimpleString",
)
LIBC_FUNCTIONS = ("mmap", "munmap")

_PAGE = 4096
_DELETED = " (deleted)"
_CODE_BYTES = 16
_LIBC = re.compile(r"libc\.so\.\d+|libc-\d[\d.]*\.so|ld-musl-.*\.so.*|libc\.musl-.*\.so.*")
_PYTHON = re.compile(r"(?:lib)?python(\d+)\.(\d+)")


@dataclass(frozen=True)
class Mapped:
    """The first mapping of a file in a process.

    Attributes:
        name: The path as the process names it.
        start: Address of the mapping.
        end: Address behind it.
        offset: Where in the file it begins, in bytes.
    """

    name: str
    start: int
    end: int
    offset: int


@dataclass(frozen=True)
class Symbol:
    """A symbol in an ELF file, before loading.

    Attributes:
        value: Its address as linked.
        content: The first bytes there, by which a replaced file shows.
    """

    value: int
    content: bytes


@dataclass(frozen=True)
class Interpreter:
    """The Python of a live process.

    Attributes:
        name: The file that holds it: the executable or a libpython.
        functions: Addresses of PYTHON_FUNCTIONS and LIBC_FUNCTIONS in the process.
        content: The first bytes of each function, as they must stand in its memory.
        version: Major and minor, None where neither the file nor its name tells.
        hexversion: As `sys.hexversion`, 0 where the file does not tell (before 3.11).
    """

    name: str
    functions: dict[str, int]
    content: dict[str, bytes] = field(repr=False)
    version: tuple[int, int] | None
    hexversion: int


def interpreter(pid: int) -> Interpreter:
    """Finds the interpreter of a process.

    Args:
        pid: The process.

    Returns:
        Where its functions are and which version it is.

    Raises:
        SpectraceError: No such process, no Python process, or we may not look into it.
    """
    mapped = _mapped(pid)
    executable = _executable(pid)
    for module in mapped:
        base = module.name.rpartition("/")[2]
        if module.name != executable and not base.startswith("libpython"):
            continue
        python = _symbols(pid, module, executable, PYTHON_FUNCTIONS)
        if python is not None:
            return _described(pid, module, executable, python, _libc(pid, mapped, executable))
    if _looks_like_python(executable, mapped):
        raise SpectraceError(
            f"Process {pid} runs Python ({executable}), but neither that file nor a libpython "
            "names the interpreter's functions (a static build that was stripped): it cannot be "
            "attached to. Run the server with a Python that exports them, as those of python.org, "
            "Debian, conda and uv do."
        )
    raise SpectraceError(
        f"Process {pid} is no Python process (its files export no interpreter): give the process "
        "id of the SGLang server, or --url; `spectrace status` lists the servers."
    )


def _looks_like_python(executable: str, mapped: list[Mapped]) -> bool:
    """Whether it is one by the name of its executable, or by the modules that it has loaded."""
    return _PYTHON.match(executable.rpartition("/")[2]) is not None or any(
        "/lib-dynload/" in module.name for module in mapped
    )


def is_python(pid: int) -> bool:
    """Whether the process has a Python interpreter in it, as far as we may see.

    Raises:
        SpectraceError: No such process, or we may not look into it.
    """
    mapped = _mapped(pid)
    executable = _executable(pid)
    return any(
        _symbols(pid, module, executable, PYTHON_FUNCTIONS[:1]) is not None
        for module in mapped
        if module.name == executable or module.name.rpartition("/")[2].startswith("libpython")
    )


def changed(pid: int, interpreter: Interpreter) -> str:
    """The function of which a process has something else in its memory than its file says.

    Args:
        pid: The process.
        interpreter: Its Python.

    Returns:
        The function's name, empty where all are as they should be.

    Raises:
        SpectraceError: No such process, or we may not look into it.
    """
    return next((name for name in interpreter.functions if _differs(pid, interpreter, name)), "")


def _differs(pid: int, interpreter: Interpreter, name: str) -> bool:
    content = interpreter.content[name]
    try:
        return ptrace.read_memory(pid, interpreter.functions[name], len(content)) != content
    except OSError:  # nothing stands there
        return True


def _described(
    pid: int,
    module: Mapped,
    executable: str,
    python: dict[str, tuple[int, bytes]],
    libc: dict[str, tuple[int, bytes]],
) -> Interpreter:
    both = {**python, **libc}
    version = _symbols(pid, module, executable, ("Py_Version",))
    hexversion = int.from_bytes(version["Py_Version"][1][:8], "little") if version else 0
    named = _PYTHON.match(module.name.rpartition("/")[2])
    return Interpreter(
        name=module.name,
        functions={name: address for name, (address, _) in both.items()},
        content={name: content for name, (_, content) in both.items()},
        version=(hexversion >> 24, hexversion >> 16 & 0xFF)
        if hexversion
        else (int(named[1]), int(named[2]))
        if named
        else None,
        hexversion=hexversion,
    )


def _libc(pid: int, mapped: list[Mapped], executable: str) -> dict[str, tuple[int, bytes]]:
    """The functions of the C library: of a shared one, else those linked into the executable."""
    shared = [module for module in mapped if _LIBC.fullmatch(module.name.rpartition("/")[2])]
    for module in shared or [module for module in mapped if module.name == executable]:
        found = _symbols(pid, module, executable, LIBC_FUNCTIONS)
        if found is not None:
            return found
    raise SpectraceError(
        f"Process {pid} has no C library in which spectrace finds mmap (glibc or musl, shared, or "
        "linked in with its symbols): it cannot be attached to; run the server with a Python that "
        "is linked with a shared C library as usual."
    )


def _mapped(pid: int) -> list[Mapped]:
    """The first mapping of every file that the process has mapped, in order of addresses."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        raise procfs.no_such_process(pid) from None
    except PermissionError:
        raise procfs.may_not_look_into(pid) from None
    first: dict[str, Mapped] = {}
    for line in text.splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5].startswith("/"):  # noqa: PLR2004 - the columns of maps
            start, _, end = fields[0].partition("-")
            module = Mapped(fields[5], int(start, 16), int(end, 16), int(fields[2], 16))
            first.setdefault(module.name, module)
    return list(first.values())


def _executable(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except FileNotFoundError:  # a kernel thread, or gone
        return ""
    except PermissionError:
        raise procfs.may_not_look_into(pid) from None


def _paths(pid: int, module: Mapped, executable: str) -> Iterator[Path]:
    """Where the file can be opened from here, the surest way first."""
    if module.name == executable:
        yield Path(f"/proc/{pid}/exe")
    if not module.name.endswith(_DELETED):
        yield Path(f"/proc/{pid}/root{module.name}")
    # Only root may open these. They lead also to a file that has been replaced since, and to
    # those of a process with another root, which we see under longer names than it does.
    yield Path(f"/proc/{pid}/map_files/{module.start:x}-{module.end:x}")
    if not module.name.endswith(_DELETED):
        yield Path(module.name)


def _symbols(
    pid: int, module: Mapped, executable: str, names: tuple[str, ...]
) -> dict[str, tuple[int, bytes]] | None:
    """Address in the process and first bytes of each symbol; None unless all are there."""
    looked_into = set()
    for path in _paths(pid, module, executable):
        try:
            status = path.stat()
            key = (status.st_dev, status.st_ino, status.st_mtime_ns)
            if key in looked_into:
                continue
            looked_into.add(key)
            found, bias = _lookup(path, key, module.offset, names)
        except (OSError, ELFError, ValueError):
            continue
        if len(found) < len(names):
            continue
        start = 0 if bias is None else module.start - bias
        return {name: (start + symbol.value, symbol.content) for name, symbol in found.items()}
    return None


# Ranks of a server share their files: each is looked into once. The key tells versions apart.
@lru_cache(maxsize=64)
def _lookup(
    path: Path,
    key: tuple[int, int, int],  # noqa: ARG001 - part of what the cache goes by
    offset: int,
    names: tuple[str, ...],
) -> tuple[dict[str, Symbol], int | None]:
    """Symbols of a file, and the linked address of what it has at `offset`.

    The latter is None for a file that always stands where it was linked.
    """
    with path.open("rb") as file:
        elf = ELFFile(file)
        found: dict[str, Symbol] = {}
        for name in names:
            symbol = _entry(elf, name)
            if symbol is None:
                break  # all or none
            value = int(symbol["st_value"])
            found[name] = Symbol(value, _content(elf, file, value))
        return found, None if elf["e_type"] == "ET_EXEC" else _linked_at(elf, offset)


def _entry(elf: ELFFile, name: str) -> Entry | None:
    """What a file says of a function that is in it: to the linker, else only to debuggers."""
    exported = _hash_table(elf)
    symbol = exported.get_symbol(name) if exported else None
    if symbol is not None and symbol["st_shndx"] != "SHN_UNDEF":
        return symbol
    table = elf.get_section_by_name(".symtab")
    named = table.get_symbol_by_name(name) if isinstance(table, SymbolTableSection) else None
    return next((one for one in named or () if one["st_shndx"] != "SHN_UNDEF"), None)


def _hash_table(elf: ELFFile) -> ELFHashSection | GNUHashSection | None:
    for name in (".gnu.hash", ".hash"):
        section = elf.get_section_by_name(name)
        if isinstance(section, ELFHashSection | GNUHashSection):
            return section
    return None


def _linked_at(elf: ELFFile, offset: int) -> int:
    for segment in elf.iter_segments("PT_LOAD"):
        if segment["p_offset"] // _PAGE * _PAGE == offset:
            return int(segment["p_vaddr"]) // _PAGE * _PAGE
    raise ValueError(f"no segment at {offset:#x}")


def _content(elf: ELFFile, file: BinaryIO, address: int) -> bytes:
    for segment in elf.iter_segments("PT_LOAD"):
        inside = address - segment["p_vaddr"]
        if 0 <= inside < segment["p_filesz"]:
            file.seek(segment["p_offset"] + inside)
            return file.read(_CODE_BYTES)
    raise ValueError(f"no segment holds {address:#x}")
