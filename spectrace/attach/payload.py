"""Makes the probe's code as it goes into the ring: compiled by the server's own interpreter."""

from __future__ import annotations

import json
import marshal
import subprocess
from functools import lru_cache
from pathlib import Path

from spectrace.attach import own_python, procfs
from spectrace.attach.elf import Interpreter
from spectrace.probe.engines.sglang_releases import digest

# In the order in which the server loads them; the first one is run by the loader.
PROBE_MODULES = (
    "bootstrap",
    "layout",
    "ring",
    "faults",
    "clock",
    "timers",
    "ranges",
    "request_spans",
    "recorder",
    "hooks",
    "engines.sglang",
    "engines.sglang_rows",
    "older",
    "tracer",
)

# Of no use to a server on a CPU without a tool, to one of a new release or that traces no requests,
# while nothing goes wrong, or before the probe is armed.
LATE_MODULES = (
    "faults",
    "clock",
    "timers",
    "ranges",
    "request_spans",
    "engines.sglang_rows",
    "older",
)

ROWS_MODULE = "engines.sglang_rows"  # gets the rows behind its text

_PROBE = Path(__file__).parent.parent / "probe"
_MARSHAL_VERSION = 2  # plain values only: every Python reads it

# A module that is needed late travels as bytes: they cost the server nothing until then.
_COMPILE = """\
import sys, json, marshal
sources, late = json.load(sys.stdin)
parts = [
    (name, compile(source, f"<spectrace probe {name}>", "exec", dont_inherit=True, optimize=2))
    for name, source in sources
]
parts = [(name, marshal.dumps(code) if name in late else code) for name, code in parts]
sys.stdout.buffer.write(sys.hexversion.to_bytes(4, "little") + marshal.dumps(parts))
"""

Sources = tuple[tuple[str, str], ...]


def probe_sources() -> Sources:
    """Names and texts of the probe's modules, in the order of loading."""
    return tuple((name, _source(name)) for name in PROBE_MODULES)


def _source(name: str) -> str:
    text = module_path(name).read_text("utf-8")
    return f"{text}DIGEST = {digest()!r}\n" if name == ROWS_MODULE else text


def module_path(name: str) -> Path:
    """The file of a module of the probe, by its dotted name below `spectrace.probe`."""
    return _PROBE.joinpath(*name.split(".")).with_suffix(".py")


def build(pid: int, interpreter: Interpreter, sources: Sources | None = None) -> bytes:
    """Makes the code area of the ring for one process.

    Code compiled by another Python can crash the server, so anything but the server's own
    executable is out of the question; where that cannot be run from here (another container,
    a file replaced since) the server gets the sources and compiles them itself.

    Args:
        pid: The process that the code is for.
        interpreter: Its Python.
        sources: What to compile; the probe by default.

    Returns:
        `marshal.dumps` of a list of (name, code object, its bytes where it is needed late, or
        source).
    """
    sources = probe_sources() if sources is None else sources
    executable = own_python.executable(pid)
    if executable and interpreter.version:
        owner = procfs.owner(pid)
        changed_ns = Path(executable).stat().st_mtime_ns
        version = (interpreter.version, interpreter.hexversion)
        compiled = _compiled(executable, changed_ns, owner, version, sources)
        if compiled is not None:
            return compiled
    return marshal.dumps(list(sources), _MARSHAL_VERSION)


# Ranks of a server run the same executable: it compiles once for all of them.
@lru_cache(maxsize=16)
def _compiled(
    executable: str,
    changed_ns: int,  # noqa: ARG001 - an upgraded executable is another one
    owner: tuple[int, int],
    interpreter: tuple[tuple[int, int], int],
    sources: Sources,
) -> bytes | None:
    """The sources compiled by `executable`, None if it cannot be run or is another version."""
    given = json.dumps((sources, LATE_MODULES)).encode()
    try:
        done = own_python.run(executable, owner, _COMPILE, given=given)
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode:
        return None
    version, hexversion = interpreter
    ran = int.from_bytes(done.stdout[:4], "little")
    same = ran == hexversion if hexversion else (ran >> 24, ran >> 16 & 0xFF) == version
    return done.stdout[4:] if same else None
