"""Keeps what gRPC's core writes off the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_VERBOSITY = "GRPC_VERBOSITY"


@contextmanager
def silent() -> Iterator[None]:
    """Lets gRPC be imported, and its first channel be made, within the block.

    With these the core reads a variable. It does not stay, since a server that is started from
    here would inherit it; who has set it hears what they asked for.
    """
    if _VERBOSITY in os.environ:
        yield
        return
    os.environ[_VERBOSITY] = "NONE"
    try:
        yield
    finally:
        del os.environ[_VERBOSITY]
