"""Sends bad messages to a collector in a process of its own, and looks how that fares."""

from __future__ import annotations

import random
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen
from typing import NamedTuple

import grpc
import httpx
import psutil
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectrace.otlp.body import JSON, MAX_BODY_BYTES, PROTOBUF
from spectrace.server.grpc_receiver import METHOD
from tests.helpers.bad_otlp import Bad, any_bad, any_bad_call, good

_MIB = 1 << 20
_SERVE = "import typer; from spectrace.cli.serve import serve; typer.run(serve)"
_SLOW = list(HealthCheck)  # each example asks a server
_PORTS = ("--port", "0", "--otlp-http-port", "0", "--otlp-grpc-port", "0")


class Besieged(NamedTuple):
    """A running `spectrace serve`.

    Attributes:
        process: It.
        http: Where spans are posted to.
        grpc: Where gRPC is spoken.
    """

    process: Popen[str]
    http: httpx.URL
    grpc: str

    def resident_mib(self) -> float:
        """Memory that it has, in MiB."""
        return float(psutil.Process(self.process.pid).memory_info().rss / _MIB)


@contextmanager
def besieged() -> Iterator[Besieged]:
    """`spectrace serve` on free ports."""
    with Popen([sys.executable, "-c", _SERVE, *_PORTS], stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().split()[-1] for _ in range(3)]
            yield Besieged(process, httpx.URL(lines[1]), httpx.URL(lines[2]).netloc.decode())
        finally:
            process.terminate()
            process.wait(60)


def lay_siege(to: Besieged, messages: int) -> Counter[str]:
    """Sends so many bad messages, every fifth over gRPC; says how often which answer came.

    Raises:
        AssertionError: An answer should have been another one; hypothesis has made the message
            as small as it can.
    """
    said: Counter[str] = Counter()

    @settings(max_examples=messages, database=None, suppress_health_check=_SLOW)
    @given(choose=st.randoms(use_true_random=False), place=st.integers(0, 4))
    def send(choose: random.Random, place: int) -> None:
        answer = _call(channel, choose) if place == 0 else _post(client, to.http, any_bad(choose))
        said[answer] += 1

    with (
        httpx.Client(timeout=60, trust_env=False) as client,
        grpc.insecure_channel(to.grpc) as channel,
    ):
        send()
    return said


def _post(client: httpx.Client, url: httpx.URL, bad: Bad) -> str:
    answer = client.post(url, content=bad.body, headers=bad.headers)
    assert answer.status_code in bad.statuses, f"{bad.what}: {answer.status_code}"
    assert answer.headers["content-type"] == (
        JSON if bad.headers["content-type"] == JSON else PROTOBUF
    )
    return f"{bad.what}: {answer.status_code}"


def _call(channel: grpc.Channel, choose: random.Random) -> str:
    bad = any_bad_call(choose, METHOD)
    code: grpc.StatusCode | None = None
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(bad.method)
    try:
        call(bad.message, timeout=60)
    except grpc.RpcError as error:
        code = error.code()
    assert code in bad.codes, f"gRPC, {bad.what}: {code}"
    return f"gRPC, {bad.what}: {code}"


def call_too_long(to: Besieged, size: int, compression: grpc.Compression | None) -> object:
    """The code for a message of so many zeros."""
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(to.grpc, options=options) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        try:
            call(bytes(size), compression=compression, timeout=60)
        except grpc.RpcError as error:
            return error.code()
    return None


def announce(to: Besieged, size: int) -> bytes:
    """The first line of the answer to a body that announces its size and does not come."""
    head = (
        "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: {PROTOBUF}\r\nContent-Length: {size}\r\n\r\n"
    )
    with socket.create_connection((to.http.host, to.http.port or 0), timeout=60) as connection:
        connection.sendall(head.encode())
        return connection.recv(1 << 16).partition(b"\r\n")[0]


def is_well(to: Besieged) -> bool:
    """Whether it still takes what is good, by both protocols."""
    headers = {"content-type": PROTOBUF}
    answer = httpx.post(to.http, content=good(PROTOBUF), headers=headers, timeout=60)
    with grpc.insecure_channel(to.grpc) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        return answer.status_code == httpx.codes.OK and call(good(PROTOBUF), timeout=60) == b""


TOO_LONG = MAX_BODY_BYTES + 1
