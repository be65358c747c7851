"""Makes names of kernels readable as they stand in their source: CUPTI has them as compiled."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache

_LIBRARY = "libstdc++.so.6"
# The runtime's demangler is made for names that a compiler wrote: nothing else comes near it.
_MANGLED = re.compile(r"_Z[A-Za-z0-9_.$]+")
_LONGEST = 4000  # letters; a template within templates deeper than that may exhaust its stack


def demangled(name: str) -> str:
    """The name as in the source; as it is, where it was not compiled or nobody can tell.

    Args:
        name: Of a kernel, such as `_Z6kernelIfEvPT_`.
    """
    if len(name) > _LONGEST or not _MANGLED.fullmatch(name):
        return name
    demangle = _demangler()
    return name if demangle is None else demangle(name)


@cache
def _demangler() -> Callable[[str], str] | None:
    """The demangler of the C++ runtime, None where this machine has none.

    It is `__cxa_demangle` of the Itanium C++ ABI, which gives memory that is to be freed.
    """
    try:
        runtime = ctypes.CDLL(_LIBRARY)
        demangle, free = runtime["__cxa_demangle"], ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return None
    demangle.restype = ctypes.c_void_p
    demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    free.argtypes = [ctypes.c_void_p]

    def text_of(name: str) -> str:
        found = demangle(name.encode(), None, None, None)
        if not found:
            return name
        try:
            return ctypes.string_at(found).decode("utf-8", "replace")
        finally:
            free(found)

    return text_of
