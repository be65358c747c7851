"""Ports on which nobody listens, for what has to know its port before it listens itself."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket

_FIRST, _EACH = 20_000, 1_000  # below those from which the kernel takes ports for connections
_WORKERS = 8


def _own() -> range:
    """Those of this process: tests run in several at a time, `gw0`, `gw1` and so on."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    return range(_FIRST + worker * _EACH, _FIRST + (worker + 1) * _EACH)


_candidates = itertools.cycle(random.SystemRandom().sample(_own(), _EACH))


def free_port() -> int:
    """A port of loopback on which nobody listens, each time another one.

    Not one that the kernel picks: it gives the same one to whoever connects next, and who connects
    to it while nobody listens may be connected to itself.
    """
    for port in itertools.islice(_candidates, _EACH):
        with socket.socket() as trial, contextlib.suppress(OSError):
            trial.bind(("127.0.0.1", port))
            return port
    raise AssertionError("all ports of this process are taken")
