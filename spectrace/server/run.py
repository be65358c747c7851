"""Runs the server in a thread of its own, from its socket to its end."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Iterable
from types import TracebackType

import uvicorn

from spectrace.errors import SpectraceError
from spectrace.server.app import create_app
from spectrace.server.hub import Hub

DEFAULT_PORT = 7711
HOST = "127.0.0.1"
_PORTS_TRIED = 20
_START_S = 10.0
_PATIENT_STOP_S = 0.7
_STOP_S = 5.0
_MOST_CONNECTIONS = 500  # idle ones as well; browsers and senders have limits of their own


class PageServer:
    """The server of one hub; a context manager, at work between entering and leaving.

    Args:
        hub: What it serves.
        host: 127.0.0.1 or localhost.
        port: A port that has to be free, 0 for any; the first free one from `DEFAULT_PORT`
            on if not given.
        hosts: Host names that are allowed beside those of loopback.

    Attributes:
        port: The port that it listens on.
        url: The address of the page.

    Raises:
        SpectraceError: The address is not loopback, or the port is taken.
    """

    def __init__(
        self, hub: Hub, *, host: str = HOST, port: int | None = None, hosts: Iterable[str] = ()
    ) -> None:
        self._hub = hub
        self._socket = listen(host, port)
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://{HOST}:{self.port}"
        self._server = _Server(_config(hub, hosts), hub)
        self._thread = threading.Thread(target=self._run, name="spectrace-server", daemon=True)
        if hub.receives:
            hub.otlp_endpoint = f"{self.url}/v1/traces"

    def start(self) -> None:
        """Begins to serve; returns when the first request would be answered.

        Raises:
            SpectraceError: It does not come up.
        """
        self._thread.start()
        if not self._server.is_up.wait(_START_S) or not self._thread.is_alive():
            raise SpectraceError(
                f"The server of the page does not come up: {_ERRORS.last or 'it is too slow.'}"
            )

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve([self._socket]))
        finally:
            self._socket.close()
            self._server.is_up.set()

    def stop(self) -> None:
        """Ends all streams and answers what has begun; takes less than a second."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(_PATIENT_STOP_S)
            self._server.force_exit = True  # a browser that takes nothing off would hold us up
            self._thread.join(_STOP_S)
        self._socket.close()

    def __enter__(self) -> PageServer:  # noqa: PYI034 - Self came with Python 3.11
        """Begins to serve, as `start`."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends, as `stop`."""
        self.stop()


class _Server(uvicorn.Server):
    """Ends the live streams before it waits for its connections, which else never end."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self.is_up = threading.Event()
        self._hub = hub

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._hub.live.close()
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # in which the aborted ones close their sockets


class _KeptErrors(logging.Handler):
    """Keeps what uvicorn logs off the terminal: anybody may cause it, and nobody can mend it."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the last error, for the case that the server does not come up."""
        error = record.exc_info[1] if record.exc_info else None
        self.last = record.getMessage().splitlines()[0] + (f" ({error!r})" if error else "")


_ERRORS = _KeptErrors()


def _config(hub: Hub, hosts: Iterable[str]) -> uvicorn.Config:
    logger = logging.getLogger("uvicorn.error")
    logger.propagate = False
    logger.handlers = [_ERRORS]
    return uvicorn.Config(
        create_app(hub, hosts=hosts),
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )


def listen(host: str, port: int | None) -> socket.socket:
    """A socket on loopback.

    Args:
        host: 127.0.0.1 or localhost.
        port: As in `PageServer`.

    Raises:
        SpectraceError: The address is not loopback, or the port is taken.
    """
    if host not in (HOST, "localhost"):
        raise SpectraceError(
            f"The page cannot listen on {host}: it would be open to everybody there. Leave "
            f"--host away and reach {HOST} through a tunnel (ssh -L)."
        )
    if port is not None:
        return _bound(port) or _refuse(f"Port {port} is taken: choose another with --port.")
    tried = range(DEFAULT_PORT, DEFAULT_PORT + _PORTS_TRIED)
    free = next(filter(None, map(_bound, tried)), None)
    return free or _refuse(
        f"The ports from {tried[0]} to {tried[-1]} are taken: choose another with --port."
    )


def _refuse(message: str) -> socket.socket:
    raise SpectraceError(message)


def _bound(port: int) -> socket.socket | None:
    """A listening socket, None if the port is taken.

    Raises:
        SpectraceError: It cannot be used for another reason.
    """
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
        bound.listen()
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise SpectraceError(f"Port {port} cannot be used: {error.strerror}.") from error
    return bound
