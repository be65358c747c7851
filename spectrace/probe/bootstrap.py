"""First code of the probe in the server: makes its modules and arms the tracer.

The loader runs it once with the arguments of `start` as globals. Nothing of it stays but
the modules, which the tracer forgets when it leaves.
"""

from __future__ import annotations

import ctypes
import marshal
import sys
from time import monotonic_ns
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .layout import State, Word  # in a server their numbers stand here: see attach/fold.py

if TYPE_CHECKING:
    from mmap import mmap

    Place = tuple[mmap, int, int]  # a ring, and where bytes begin and end in it

PACKAGE = "_spectrace_probe"


def forget() -> None:
    """Takes the probe's modules out of the interpreter's table."""
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


class LateModule(ModuleType):
    """A module that runs when something of it is first used, so as not to hold up attaching."""

    _place: Place | None = None

    def __getattr__(self, name: str) -> Any:
        """Runs the module, for what it then has."""
        place = self._place
        if place is None or name.startswith("__"):
            raise AttributeError(f"{self.__name__} has no {name}")
        ring, begin, end = place
        self._place = None
        try:
            code = marshal.loads(ring[begin:end])  # noqa: S302 - the probe's own
            exec(code, self.__dict__)  # noqa: S102 - the same
        except BaseException:  # a signal handler's: half a module is none
            self._place = place
            raise
        return getattr(self, name)


def make_module(name: str, code: Any) -> ModuleType:
    """Makes one module of the probe and runs it, at once or when it is first used.

    Args:
        name: Below the package, such as `engines.sglang`; empty for the package itself.
        code: A code object; the place of its bytes for one that is needed late; its source
            where it could not be compiled beforehand.
    """
    full_name = f"{PACKAGE}.{name}" if name else PACKAGE
    module = (LateModule if isinstance(code, tuple) else ModuleType)(full_name)
    is_package = name in {"", "engines"}
    module.__package__ = full_name if is_package else full_name.rpartition(".")[0]
    if is_package:
        module.__path__ = []
    sys.modules[full_name] = module
    parent, _, child = full_name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    if isinstance(module, LateModule):
        module._place = code  # noqa: SLF001 - as its maker
    elif code:
        if isinstance(code, str):
            code = compile(code, f"<spectrace probe {name}>", "exec", optimize=2)
        exec(code, module.__dict__)  # noqa: S102 - how the probe gets in
    return module


def load(ring: mmap, parts: list[tuple[str, Any]], end: int) -> dict[str, ModuleType]:
    """Makes all modules of the probe, in the given order.

    Args:
        ring: Where the modules lie that are needed late.
        parts: Names and code, as `attach/payload.py` makes them.
        end: Where the area of the code ends in the ring.
    """
    loaded = {"": make_module("", None), "engines": make_module("engines", None)}
    for name, code in parts:
        if isinstance(code, tuple):
            back, size = code
            place = (ring, end - back, end - back + size)
            loaded[name] = make_module(name, place)
        else:
            loaded[name] = make_module(name, code)
    return loaded


def free_loader_text(words: memoryview) -> None:
    """Gives back the memory in which the loader's text stood; it has been compiled long ago."""
    address, size = words[Word.LOADER_TEXT_ADDRESS], words[Word.LOADER_TEXT_BYTES]
    if address:
        munmap = ctypes.pythonapi["munmap"]  # a name looked up so leaves nothing there
        munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        munmap(address, size)
        words[Word.LOADER_TEXT_ADDRESS] = 0


def start(ring: mmap, modules: list[tuple[str, Any]], end: int, entered_ns: int) -> None:
    """Loads the probe and arms it; what goes wrong is written into the ring.

    Args:
        ring: The mapped ring file.
        modules: Names and code of the probe's modules, this one first; emptied.
        end: Where the area of the code ends in the ring.
        entered_ns: CLOCK_MONOTONIC at the loader's first line.
    """
    writer: Any = None
    try:
        loaded = load(ring, modules[1:], end)
        modules.clear()
        writer = loaded["ring"].RingWriter(ring)
        words = writer.words
        free_loader_text(words)
        words[Word.LOADER_ENTERED_NS] = entered_ns
        loaded_ns = monotonic_ns()
        words[Word.LOAD_NS] = loaded_ns - entered_ns
        words[Word.STATE] = State.LOADED
        tracer: Any = loaded["tracer"]
        tracer.armed = tracer.Tracer(writer, forget)
        tracer.armed.arm()
        words[Word.ARM_NS] = monotonic_ns() - loaded_ns
        words[Word.STATE] = State.ARMED
    except Exception as error:  # noqa: BLE001 - nothing may reach the server
        if writer is not None:
            writer.info({"error": f"{type(error).__name__}: {error}"})
            writer.words[Word.STATE] = State.FAILED
            writer.close()
        else:
            ring.close()
        forget()


if "entered_ns" in globals():  # as the loader runs it; imported by a test it only defines
    start(*(globals().pop(name) for name in ("ring", "modules", "end", "entered_ns")))
