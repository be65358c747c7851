"""Runs the server in a thread of its own, from its socket to its end."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

import uvicorn
from fastapi import FastAPI

from spectrace.errors import SpectraceError
from spectrace.otlp.silent_grpc import silent
from spectrace.server.address import (
    HOST,
    Address,
    listen,
    listen_for_spans,
    resolve,
)
from spectrace.server.app import create_app
from spectrace.server.attacher import Attacher
from spectrace.server.hub import Hub
from spectrace.server.intake import Intake
from spectrace.server.receiver import PATH
from spectrace.server.security import QUERY
from spectrace.server.tls import Certificate
from spectrace.server.token import Token

if TYPE_CHECKING:  # gRPC takes long to import, and only who receives over it needs it
    from spectrace.server.grpc_receiver import GrpcReceiver

_START_S = 10.0
_PATIENT_STOP_S = 0.7
_STOP_S = 5.0
_MOST_CONNECTIONS = 500  # idle ones as well; browsers and senders have limits of their own


class OtlpPorts(NamedTuple):
    """Ports for spans beside that of the page, which takes them too.

    Attributes:
        http: A port that has to be free; if not given 4318, or any where that is taken.
        grpc: Likewise 4317.
    """

    http: int | None = None
    grpc: int | None = None


class PageServer:
    """The server of one hub; a context manager, at work between entering and leaving.

    Args:
        hub: What it serves.
        host: Name or address of this machine; 0.0.0.0 for all of them.
        port: A port that has to be free, 0 for any; the first free one from `DEFAULT_PORT`
            on if not given.
        hosts: Host names that are allowed beside those of loopback.
        otlp: Ports for spans; None for none but the page's own.
        token: What senders and browsers have to show; None for nothing, on loopback only.
        certificate: What it shows to them, on all ports; None for no TLS.
        attacher: Attaches to servers of this machine; None where nothing new can come.

    Attributes:
        port: The port of the page.
        url: The address of the page; with a token that of its API, and `entrance` is for people.

    Raises:
        SpectraceError: There is no such address, the port is taken, or a token is missing.
    """

    def __init__(  # noqa: PLR0913 - each is an option of the command
        self,
        hub: Hub,
        *,
        host: str = HOST,
        port: int | None = None,
        hosts: Iterable[str] = (),
        otlp: OtlpPorts | None = None,
        token: Token | None = None,
        certificate: Certificate | None = None,
        attacher: Attacher | None = None,
    ) -> None:
        address = _guarded(resolve(host), token)
        self._token = token
        self._attacher = attacher
        self._sockets = _listening(address, port, otlp if hub.receives else None)
        self.port, spans_port = (_port_of(self._sockets[place]) for place in (0, -1))
        scheme = "http" if certificate is None else "https"
        self.url = f"{scheme}://{address.name()}:{self.port}"
        intake = grpc = None
        if hub.receives:
            intake = Intake(hub)
            hub.otlp_endpoint = f"{scheme}://{address.name()}:{spans_port}{PATH}"
            if otlp is not None:
                grpc = _grpc_receiver(hub, intake, address, otlp.grpc, token, certificate)
        app = create_app(hub, intake, hosts=hosts, token=token, attacher=attacher)
        config = _config(app, certificate)
        self._server = _Server(config, hub, grpc)
        self._thread = threading.Thread(target=self._run, name="spectrace-server", daemon=True)

    @property
    def entrance(self) -> str:
        """The address by which a browser gets in; it may hold the token."""
        return self.url if self._token is None else f"{self.url}/?{QUERY}={self._token.text}"

    def start(self) -> None:
        """Begins to serve; returns when the first request would be answered.

        Raises:
            SpectraceError: It does not come up.
        """
        self._thread.start()
        came_up = self._server.is_up.wait(_START_S) and self._thread.is_alive()
        if self._server.problem is not None:
            raise self._server.problem
        if not came_up:
            raise SpectraceError(
                f"The server of the page does not come up: {_ERRORS.last or 'it is too slow.'}"
            )

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve(self._sockets))
        except SpectraceError as error:
            self._server.problem = error
        finally:
            self._close()
            self._server.is_up.set()

    def _close(self) -> None:
        for one in self._sockets:
            one.close()

    def leave_servers(self) -> None:
        """Leaves the servers that the page attached to; returns when the probe is out of them."""
        if self._attacher is not None:
            self._attacher.close()

    def stop(self) -> None:
        """Ends all streams and answers what has begun; takes less than a second."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(_PATIENT_STOP_S)
            self._server.force_exit = True  # a browser that takes nothing off would hold us up
            self._thread.join(_STOP_S)
        self._close()

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
    """Ends the live streams before it waits for its connections, which else never end.

    Attributes:
        is_up: Set when the first request would be answered, or none ever will.
        problem: Why it did not come up, where that is known.
    """

    def __init__(self, config: uvicorn.Config, hub: Hub, grpc: GrpcReceiver | None) -> None:
        super().__init__(config)
        self.is_up = threading.Event()
        self.problem: SpectraceError | None = None
        self._hub = hub
        self._grpc = grpc

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._grpc is not None:
            await self._grpc.start()
        await super().startup(sockets)
        self.is_up.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._hub.live.close()
        if self._grpc is not None:
            await self._grpc.stop()
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


def _config(app: FastAPI, certificate: Certificate | None) -> uvicorn.Config:
    logger = logging.getLogger("uvicorn.error")
    logger.propagate = False
    logger.handlers = [_ERRORS]
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=1,
        ssl_certfile=None if certificate is None else certificate.chain,
        ssl_keyfile=None if certificate is None else certificate.key,
    )


def _listening(address: Address, port: int | None, otlp: OtlpPorts | None) -> list[socket.socket]:
    """The sockets for HTTP: that of the page, then that of spans where it is another one.

    Raises:
        SpectraceError: As `listen`.
    """
    page = listen(address, port)
    if otlp is None:
        return [page]
    try:
        return [page, listen_for_spans(address, otlp.http)]
    except SpectraceError:
        page.close()
        raise


def _grpc_receiver(  # noqa: PLR0913, PLR0917 - as the receiver itself
    hub: Hub,
    intake: Intake,
    address: Address,
    port: int | None,
    token: Token | None,
    certificate: Certificate | None,
) -> GrpcReceiver:
    with silent():
        from spectrace.server.grpc_receiver import GrpcReceiver  # noqa: PLC0415 - as above

    return GrpcReceiver(hub, intake, address, port, token, certificate)


def _guarded(address: Address, token: Token | None) -> Address:
    """The address, which others reach only with a token.

    Raises:
        SpectraceError: Others could reach it without one.
    """
    if token is None and not address.is_loopback:
        raise SpectraceError(
            f"Without a token the page cannot listen on {address.ip}: it would be open to "
            f"everybody there. Give one, or reach {HOST} through a tunnel (ssh -L)."
        )
    return address


def _port_of(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])
