"""Makes the probe's code as it goes into the ring: compiled by the server's own interpreter."""

from __future__ import annotations

import json
import marshal
import struct
import subprocess
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from spectrace.attach import fold, loader, own_python, procfs
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
    "skipped",
    "recorder",
    "hooks",
    "engines.sglang",
    "engines.sglang_rows",
    "older",
    "layout_window",
    "leaving",
    "cupti_edge",
    "kernels",
    "tracer",
)

# Of no use to a server on a CPU without a tool, to one of a new release or that traces no requests,
# to one that keeps every cycle, whose kernels nobody asks for, before the probe is armed, or before
# it leaves.
LATE_MODULES = (
    "faults",
    "clock",
    "timers",
    "ranges",
    "request_spans",
    "skipped",
    "engines.sglang_rows",
    "older",
    "layout_window",
    "leaving",
    "cupti_edge",
    "kernels",
)

ROWS_MODULE = "engines.sglang_rows"  # gets the rows behind its text

_PROBE = Path(__file__).parent.parent / "probe"
_NUMBERS = struct.Struct("<II")  # in front of what `_COMPILE` writes: version, loader's length
_MARSHAL_VERSION = 2  # plain values only: every Python reads it

# What a server has not touched before costs it more than anything else of loading, and of that
# strings most: each is looked up among all that it knows. So a module that is needed late stays
# where it is, annotations stay out, and functions in classes go by their plain names.
_COMPILE = """\
import sys, ast, json, marshal
sources, late, loader = json.load(sys.stdin)
class Bare(ast.NodeTransformer):
    def visit_arg(self, node):
        node.annotation = None
        return node
    def visit_FunctionDef(self, node):
        node.returns = None
        return self.generic_visit(node)
    def visit_AnnAssign(self, node):
        bare = ast.Assign([node.target], node.value) if node.value else ast.Pass()
        return ast.copy_location(bare, node)
def plainly_named(code):
    inner = (plainly_named(c) if isinstance(c, type(code)) else c for c in code.co_consts)
    named = {"co_qualname": code.co_name} if hasattr(code, "co_qualname") else {}
    return code.replace(co_consts=tuple(inner), **named)
def compiled(source, name):
    tree = ast.fix_missing_locations(Bare().visit(ast.parse(source)))
    return plainly_named(compile(tree, name, "exec", dont_inherit=True, optimize=2))
parts, behind = [], b""
for name, source in reversed(sources):
    code = compiled(source, f"<spectrace probe {name}>")
    if name in late:
        data = marshal.dumps(code)
        behind = data + behind
        code = (len(behind), len(data))
    parts.insert(0, (name, code))
loader = marshal.dumps(compiled(loader, "<spectrace loader>"))
for number in sys.hexversion, len(loader):
    sys.stdout.buffer.write(number.to_bytes(4, "little"))
sys.stdout.buffer.write(loader + marshal.dumps(parts) + behind)
"""

Sources = tuple[tuple[str, str], ...]


@cache
def probe_sources() -> Sources:
    """Names and texts of the probe's modules, in the order of loading."""
    numbers = fold.Numbers.of(_text("layout"))
    return tuple((name, fold.folded(_text(name), numbers)) for name in PROBE_MODULES)


def _text(name: str) -> str:
    text = module_path(name).read_text("utf-8")
    return f"{text}DIGEST = {digest()!r}\n" if name == ROWS_MODULE else text


def module_path(name: str) -> Path:
    """The file of a module of the probe, by its dotted name below `spectrace.probe`."""
    return _PROBE.joinpath(*name.split(".")).with_suffix(".py")


@dataclass(frozen=True)
class Payload:
    """What goes into a process.

    Attributes:
        code: The code area of its ring: `marshal.dumps` of a list of (name, code object or
            source); of a module that is needed late (name, (how far before the end of the area
            its `marshal.dumps` begins, and its length)). Then those.
        loader: `loader.source` compiled, as `marshal.dumps` gives it; empty where the server
            has to compile it.
    """

    code: bytes
    loader: bytes = b""


def build(pid: int, interpreter: Interpreter, sources: Sources | None = None) -> Payload:
    """Makes the probe's code for one process.

    Code compiled by another Python can crash the server, so anything but the server's own
    executable is out of the question; where that cannot be run from here (another container,
    a file replaced since) the server gets the sources and compiles them itself.

    Args:
        pid: The process that the code is for.
        interpreter: Its Python.
        sources: What to compile; the probe by default.
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
    return Payload(marshal.dumps(list(sources), _MARSHAL_VERSION))


# Ranks of a server run the same executable: it compiles once for all of them.
@lru_cache(maxsize=16)
def _compiled(
    executable: str,
    changed_ns: int,  # noqa: ARG001 - an upgraded executable is another one
    owner: tuple[int, int],
    interpreter: tuple[tuple[int, int], int],
    sources: Sources,
) -> Payload | None:
    """The sources compiled by `executable`, None if it cannot be run or is another version."""
    given = json.dumps((sources, LATE_MODULES, loader.source())).encode()
    try:
        done = own_python.run(executable, owner, _COMPILE, given=given)
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode or len(done.stdout) < _NUMBERS.size:
        return None
    version, hexversion = interpreter
    # Not looked into any further: it may come from another user.
    ran, length = _NUMBERS.unpack_from(done.stdout)
    same = ran == hexversion if hexversion else (ran >> 24, ran >> 16 & 0xFF) == version
    begin = _NUMBERS.size + length
    made = Payload(done.stdout[begin:], done.stdout[_NUMBERS.size : begin])
    return made if same else None
