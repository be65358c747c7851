"""Bounds what an endpoint may answer over HTTP: so many bytes, within the time of the request."""

from __future__ import annotations

import io
import socket
import time
import zlib
from http.client import HTTPResponse
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection

MAX_ANSWER_BYTES = 64 * 1024
"""An answer that is longer, packed or not, is cut to one byte more: so much tells that it is."""

_NO_SUCCESS = 400
_IDENTITY = ("", "identity")
_ZIPPED = ("gzip", "x-gzip", "deflate")
_WAYS = (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS)  # gzip and zlib; deflate as some send it, bare


class BoundedAdapter(HTTPAdapter):
    """Reads an answer no further than to the bound, and no longer than the request may take.

    By itself `requests` reads a body to its end, whatever its length, and counts the timeout anew
    from each byte that comes.
    """

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """Makes the pools of connections, as `requests` asks for."""
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        """The same of a proxy."""
        manager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = _POOLS
        return manager

    def send(self, *arguments: Any, **options: Any) -> requests.Response:
        """Sends a request; its answer has been read.

        Raises:
            requests.RequestException: It did not come, or not to its end, or cannot be unpacked.
        """
        response = super().send(*arguments, **options)
        try:
            body = _read(response)
        except requests.RequestException:
            if response.status_code < _NO_SUCCESS:
                raise
            body = b""  # the status has said it all
        finally:
            response.close()
        # Where `requests` itself keeps a body: it has no other way to be given one.
        response._content, response._content_consumed = body, True  # type: ignore[attr-defined]  # noqa: SLF001  # as said
        return response


def _read(response: requests.Response) -> bytes:
    try:
        packed: bytes = response.raw.read(MAX_ANSWER_BYTES + 1, decode_content=False)
    except urllib3.exceptions.ReadTimeoutError as error:
        raise requests.ReadTimeout(error) from error
    except urllib3.exceptions.HTTPError as error:
        raise requests.exceptions.ChunkedEncodingError(error) from error
    if len(packed) > MAX_ANSWER_BYTES:
        return packed
    return unpacked(packed, response.headers.get("content-encoding", "").strip().lower())


def unpacked(packed: bytes, coding: str) -> bytes:
    """A body without its Content-Encoding, cut after `MAX_ANSWER_BYTES` and one.

    Raises:
        requests.exceptions.ContentDecodingError: It is not what it is said to be.
    """
    if coding in _IDENTITY or not packed:
        return packed
    for wbits in _WAYS if coding in _ZIPPED else ():
        unpacker = zlib.decompressobj(wbits)
        try:
            body = unpacker.decompress(packed, MAX_ANSWER_BYTES + 1)
        except zlib.error:
            continue
        if unpacker.eof or len(body) > MAX_ANSWER_BYTES:
            return body
    raise requests.exceptions.ContentDecodingError(f"an answer that is no {coding}")


class _Reader(io.RawIOBase):
    """Reads a socket until a moment, however often something comes before.

    Args:
        sock: The socket, which this lets go of when it is closed.
        until_s: The moment, on the monotonic clock, in s.
    """

    def __init__(self, sock: socket.socket, until_s: float) -> None:
        super().__init__()
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._until_s = until_s

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Reads what has come.

        Raises:
            TimeoutError: The moment has come.
        """
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left_s)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Lets go of the socket."""
        self._raw.close()
        super().close()


class _Bounded(HTTPConnection):
    """A connection on which request and answer together take no longer than the timeout."""

    _until_s: float | None = None

    def request(self, *arguments: Any, **options: Any) -> None:
        """Sends a request, whose time begins."""
        timeout_s = self.timeout
        self._until_s = None if timeout_s is None else time.monotonic() + timeout_s
        super().request(*arguments, **options)

    def response_class(self, sock: socket.socket, **options: Any) -> HTTPResponse:  # type: ignore[override]  # http.client calls it alone
        """An answer that is read from the socket."""
        response = HTTPResponse(sock, **options)
        if self._until_s is not None:
            response.fp.close()
            response.fp = io.BufferedReader(_Reader(sock, self._until_s))
        return response


class _BoundedTls(_Bounded, HTTPSConnection):
    """The same over TLS."""


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Bounded


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _BoundedTls


_POOLS = {"http": _Pool, "https": _TlsPool}
