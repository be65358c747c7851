"""Receives OTLP over HTTP: reads a body with patience and bounds, and answers it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from http import HTTPStatus

from fastapi import Request, Response
from starlette.requests import ClientDisconnect

from spectrace.otlp.body import MAX_BODY_BYTES
from spectrace.otlp.receive import Answer, body_too_long, failure, receive
from spectrace.server.intake import RETRY_S, TOO_MUCH, Intake

PATH = "/v1/traces"

_IDLE_S = 5.0  # without anything of a body
_PATIENCE_S = 30.0  # for a whole body


class Receiver:
    """The endpoint `/v1/traces`.

    Args:
        intake: Where what was sent goes.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def answer(self, request: Request) -> Response:
        """Answers one request of a sender; one that cannot be taken now may come again."""
        kind = request.headers.get("content-type")
        body = bytearray()
        try:
            answer = await self._answer(request, kind, body)
        except ClientDisconnect:  # nobody is left to answer
            return Response(status_code=400)
        except asyncio.TimeoutError:
            answer = failure(408, "The body took too long to arrive: send it again.", kind)
        finally:
            self._intake.waiting_bytes -= len(body)
        response = Response(answer.body, answer.status, answer.headers)
        if answer.status in {408, 503}:
            response.headers["retry-after"] = str(RETRY_S)
            response.headers["connection"] = "close"
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            response.headers["allow"] = "POST"
        return response

    async def _answer(self, request: Request, kind: str | None, body: bytearray) -> Answer:
        """Reads the body and decodes it.

        Raises:
            ClientDisconnect: The sender went away within it.
            TimeoutError: It took too long.
        """
        if request.method != "POST":
            return failure(405, "Spans are sent with POST.", kind)
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > MAX_BODY_BYTES:
            return body_too_long(kind)
        until_s = time.monotonic() + _PATIENCE_S
        stream = request.stream()
        while chunk := await _within(anext(stream, b""), until_s):
            body += chunk
            self._intake.waiting_bytes += len(chunk)
            if len(body) > MAX_BODY_BYTES:
                return body_too_long(kind)
            if self._intake.is_full:
                return failure(503, TOO_MUCH, kind)
        encoding = request.headers.get("content-encoding")
        return await self._intake.decode(lambda: self._take(bytes(body), kind, encoding))

    def _take(self, body: bytes, kind: str | None, encoding: str | None) -> Answer:
        answer = receive(body, kind, encoding)
        if answer.batch is not None:
            self._intake.take(answer.batch)
        return answer


async def _within(coming: Awaitable[bytes], until_s: float) -> bytes:
    return await asyncio.wait_for(coming, min(_IDLE_S, until_s - time.monotonic()))
