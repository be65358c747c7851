"""Addresses at which nobody answers, each in its own way."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.helpers.ports import free_port

BEHAVIOURS = ("dead", "mute", "half-closed")
"""Nobody listens; connections are taken and never answered; and closed in the one direction."""


@contextmanager
def listening(behave: str) -> Iterator[str]:
    """An address of one of `BEHAVIOURS`."""
    if behave == "dead":
        yield f"http://127.0.0.1:{free_port()}"
        return
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        kept: list[socket.socket] = []

        def accept() -> None:
            while not stop.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                kept.append(connection)
                if behave == "half-closed":
                    connection.shutdown(socket.SHUT_WR)  # it reads on and never says anything

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        stop.set()
        thread.join()
        for connection in kept:
            connection.close()
