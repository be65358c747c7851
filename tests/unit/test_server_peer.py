"""Whose process is at the other end of a connection."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from spectrace.server.peer import owner_of

NOBODY = 65534


@contextmanager
def connected(family: int, host: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection within this machine: who connected, and who accepted."""
    with (
        socket.socket(family) as listening,
        socket.socket(family) as calling,
    ):
        listening.bind((host, 0))
        listening.listen(1)
        calling.connect(listening.getsockname()[:2])
        accepted, _ = listening.accept()
        with accepted:
            yield calling, accepted


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_it_is_the_user_of_the_process_that_connected(family: int, host: str) -> None:
    """By either protocol, as the kernel keeps it."""
    if family == socket.AF_INET6 and not socket.has_ipv6:
        pytest.skip("there is no IPv6 here")
    try:
        with connected(family, host) as (calling, accepted):
            peer, here = calling.getsockname()[:2], accepted.getsockname()[:2]
            assert owner_of(peer, here) == os.getuid()
            assert owner_of(here, (peer[0], 1)) is None
    except OSError as error:
        pytest.skip(f"there is no {host} here: {error}")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process of somebody else")
def test_a_process_of_somebody_else_is_told_apart() -> None:
    """The user is that of the other end, not ours."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        port = listening.getsockname()[1]
        code = (  # from within: that user may have no access to this interpreter
            f"import os, socket; os.setuid({NOBODY}); s = socket.socket(); "
            f"s.connect(('127.0.0.1', {port})); s.recv(1)"
        )
        with subprocess.Popen([sys.executable, "-c", code]) as other:
            accepted, peer = listening.accept()
            assert owner_of(peer, accepted.getsockname()) == NOBODY
            accepted.close()
            assert other.wait(60) == 0


def test_who_has_gone_is_nobody() -> None:
    """A connection that both ends have closed has no owner, for as long as the kernel keeps it."""
    with connected(socket.AF_INET, "127.0.0.1") as (calling, accepted):
        peer, here = calling.getsockname(), accepted.getsockname()
    assert owner_of(peer, here) is None


def test_who_asks_and_goes_at_once_is_not_taken_for_root() -> None:
    """The kernel writes user 0 beside a socket that its process has closed."""
    with connected(socket.AF_INET, "127.0.0.1") as (calling, accepted):
        peer, here = calling.getsockname(), accepted.getsockname()
        calling.sendall(b"a wish")
        calling.close()
        assert accepted.recv(6) == b"a wish"
        assert accepted.recv(1) == b""  # the end has come: its socket is an orphan now
        assert owner_of(peer, here) is None
