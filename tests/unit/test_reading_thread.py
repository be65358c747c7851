"""What senders send is read in turn, and the end of the process does not wait for it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from spectrace.server.reading_thread import ReadingThread

SERVE = """
import sys, threading
from spectrace.cli.main import main
from spectrace.server import receiver

def receive(*_):
    print("READING", flush=True)
    threading.Event().wait()

receiver.receive = receive
sys.argv = ["spectrace", "serve", "--port", "0", "--otlp-http-port", "0", "--otlp-grpc-port", "0",
            "--store", sys.argv[1]]
main()
"""
REQUEST = (
    b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
    b"Content-Type: application/x-protobuf\r\n\r\n"
)


def test_ctrl_c_ends_serve_while_a_body_is_read(tmp_path: Path) -> None:
    """The reading never ends; the process does, and well."""
    command = [sys.executable, "-c", SERVE, str(tmp_path / "store")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = next(line for line in process.stdout if line.startswith("Send spans to: "))
            address = urlsplit(line.removeprefix("Send spans to: ").strip())
            with socket.create_connection((address.hostname, address.port or 0)) as connection:
                connection.sendall(REQUEST)
                assert any(line == "READING\n" for line in process.stdout)
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 0
        finally:
            process.kill()


def test_work_is_done_in_turn_and_its_errors_are_its_own() -> None:
    """One that fails does not keep the next from being done; one that is cancelled is not done."""
    thread, done, go = ReadingThread("test"), list[int](), threading.Event()
    thread.submit(go.wait)
    failing = thread.submit(lambda: 1 // 0)
    cancelled = thread.submit(lambda: done.append(1))
    last = thread.submit(lambda: [*done, 2])
    assert cancelled.cancel()
    go.set()
    with pytest.raises(ZeroDivisionError):
        failing.result(60)
    assert last.result(60) == [2]
    thread.end()
