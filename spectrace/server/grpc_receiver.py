"""Receives OTLP over gRPC, in the event loop of the page's server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Any, NoReturn, TypeAlias

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # ships no types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no types
from grpc import aio

from spectrace.errors import SpectraceError
from spectrace.otlp.body import MAX_BODY_BYTES, PROTOBUF, BodyError, read_body
from spectrace.otlp.decode import read_spans
from spectrace.otlp.receive import response
from spectrace.server.address import OTLP_GRPC_PORT, Address
from spectrace.server.hub import Hub
from spectrace.server.intake import RETRY_S, TOO_MUCH, Intake
from spectrace.server.tls import Certificate
from spectrace.server.token import ASKED_FOR, Token

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

_AT_ONCE = 32  # requests whose message is received; each may be of MAX_BODY_BYTES
_WAITING = 1000  # calls; gRPC refuses more by itself, without a word of when to come again
_PATIENCE_S = 30.0  # for a whole message
_STOP_S = 0.2
_OPTIONS = [
    # gRPC holds this against the message as it came and again while it decompresses it.
    ("grpc.max_receive_message_length", MAX_BODY_BYTES),
    ("grpc.so_reuseport", 0),  # else two servers would share one port, and one get nothing
]
_STATUSES = {
    HTTPStatus.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED,
}

_Context: TypeAlias = aio.ServicerContext[bytes, bytes]
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in its types alone


class GrpcReceiver:
    """The service TraceService; it belongs to the event loop that starts it.

    Args:
        hub: Is told where spans can be sent to.
        intake: Where what was sent goes.
        address: Where to listen.
        port: A port that has to be free, 0 for any; if not given `OTLP_GRPC_PORT`, or any
            where that is taken.
        token: What a sender has to show; None for nothing.
        certificate: What it shows to senders; None for no TLS.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - each is a part of the server
        self,
        hub: Hub,
        intake: Intake,
        address: Address,
        port: int | None,
        token: Token | None,
        certificate: Certificate | None,
    ) -> None:
        self._hub = hub
        self._address = address
        self._port = port
        self._certificate = certificate
        self._methods = _Methods(intake)
        self._interceptors = [_TokenOnly(token)] if token else []
        self._server: aio.Server | None = None

    async def start(self) -> None:
        """Begins to receive.

        Raises:
            SpectraceError: The port is taken.
        """
        server = aio.server(
            options=_OPTIONS, interceptors=self._interceptors, maximum_concurrent_rpcs=_WAITING
        )
        server.add_generic_rpc_handlers((self._methods,))
        port = self._bind(server)
        await server.start()
        self._server = server
        scheme = "http" if self._certificate is None else "https"
        self._hub.grpc_endpoint = f"{scheme}://{self._address.name()}:{port}"

    def _bind(self, server: aio.Server) -> int:
        if self._port is None:
            return self._bound(server, OTLP_GRPC_PORT) or self._bound(server, 0)
        bound = self._bound(server, self._port)
        if not bound:
            raise SpectraceError(
                f"Port {self._port} is taken: choose another with --otlp-grpc-port."
            )
        return bound

    def _bound(self, server: aio.Server, port: int) -> int:
        """The port, 0 if it is taken."""
        where = f"{self._address.bare}:{port}"
        try:
            if self._certificate is None:
                return server.add_insecure_port(where)
            return server.add_secure_port(where, _credentials(self._certificate))
        except RuntimeError:
            return 0

    async def stop(self) -> None:
        """Answers what has begun, for a moment, and ends."""
        if self._server is not None:
            await self._server.stop(_STOP_S)


def _credentials(certificate: Certificate) -> grpc.ServerCredentials:
    pair = certificate.key.read_bytes(), certificate.chain.read_bytes()
    return grpc.ssl_server_credentials([pair])


class _Methods(grpc.GenericRpcHandler):
    """The one method that there is; its messages stay bytes, which are read in another thread.

    To gRPC it takes a stream of messages, so that the only one that a sender sends is received
    when there is room for it, and waits at the sender until then.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._handler: _Handler = grpc.stream_unary_rpc_method_handler(self._export)

    def service(self, call: grpc.HandlerCallDetails) -> _Handler | None:
        """The handler of a call, None for a method that there is not."""
        return self._handler if call.method == METHOD else None

    async def _export(self, messages: AsyncIterator[bytes], context: _Context) -> bytes:
        """Takes the spans, or fails with the code that OTLP asks for."""
        async with self._room:
            try:
                message = await asyncio.wait_for(anext(messages, None), _PATIENCE_S)
            except asyncio.TimeoutError:
                late = "The message took too long to arrive: send it again."
                await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, late)
            if message is None:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "The call has no message.")
            return await self._answer(message, context)

    async def _answer(self, message: bytes, context: _Context) -> bytes:
        self._intake.waiting_bytes += len(message)
        try:
            if self._intake.is_full:
                await _come_again(context)
            return await self._intake.decode(lambda: self._take(message))
        except BodyError as error:
            await context.abort(_STATUSES[HTTPStatus(error.status)], str(error))
        finally:
            self._intake.waiting_bytes -= len(message)

    def _take(self, message: bytes) -> bytes:
        batch = read_spans(read_body(message, PROTOBUF))
        self._intake.take(batch)
        return response(batch).SerializeToString()


async def _come_again(context: _Context) -> NoReturn:
    """Fails for now: UNAVAILABLE, and in the details after which time to try again."""
    retry = Packed()
    retry.Pack(RetryInfo(retry_delay=Duration(seconds=RETRY_S)))
    code = grpc.StatusCode.UNAVAILABLE
    status = Status(code=code.value[0], message=TOO_MUCH, details=[retry])
    trailer = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(code, TOO_MUCH, trailer)


class _TokenOnly(aio.ServerInterceptor):
    """Refuses calls without the token before their message is received."""

    def __init__(self, token: Token) -> None:
        self._token = token
        self._refuse: _Handler = grpc.stream_unary_rpc_method_handler(_refuse)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler | None:
        """Lets a call through, or has it answered with UNAUTHENTICATED."""
        shown = [
            value
            for key, value in handler_call_details.invocation_metadata or ()
            if key == "authorization"
        ]
        if len(shown) == 1 and self._token.is_shown_in(str(shown[0])):
            return await continuation(handler_call_details)
        return self._refuse


async def _refuse(_messages: object, context: _Context) -> bytes:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, ASKED_FOR)
