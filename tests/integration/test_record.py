"""A recorded run is viewed, exported and opened in Python: the way from a server to a picture."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

import spectrace
from spectrace.server.open import open_page_of_recording
from tests.helpers.command import first_line_with, start
from tests.helpers.simulated_server import SimulatedServer

pytestmark = pytest.mark.beside_others

_LOGS = ".spectrace-*/slice-*.wal"
_EMPTY_LOG_BYTES = 16_384  # more than making the tables takes
_WRITES = 4  # the run itself comes with one of the first
_SPECTRACE = [str(Path(sys.executable).with_name("spectrace"))]


def command(*arguments: str | int | Path) -> str:
    """What a command writes on stdout; fails where it does."""
    done = subprocess.run(
        [*_SPECTRACE, *map(str, arguments)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second of a simulated server with two ranks, which is left as it was."""
    folder = tmp_path_factory.mktemp("server")
    file = tmp_path_factory.mktemp("recorded") / "run"
    with SimulatedServer(folder, "TP0", "TP1") as server:
        said = command("record", server.pid, "-o", file, "--duration", "1s")
        assert server.untouched()
    assert f"cycles are in {file}.spectrace" in said.replace("\n", " ")
    return file.with_suffix(".spectrace")


def test_a_recorded_run_opens_in_python(recording: Path) -> None:
    """Its cycles are there once each, with both ranks."""
    with spectrace.open(recording) as run:
        [server] = run.runs
        numbers = run.cycles["number"].to_pylist()
        assert [rank.name for rank in server.ranks] == ["TP0", "TP1"]
        assert len(numbers) == len(set(numbers)) > 0
        assert set(run.ranks["rank"].to_pylist()) == {"TP0", "TP1"}
        assert run.phases.num_rows > 0


def test_a_recorded_run_is_exported(recording: Path, tmp_path: Path) -> None:
    """Each of its cycles is a trace in Jaeger's JSON."""
    out = tmp_path / "jaeger.json"
    command("export", recording, "--to", "jaeger", "-o", out)
    with spectrace.open(recording) as run:
        assert len(json.loads(out.read_text())["data"]) == run.cycles.num_rows


def test_a_recorded_run_is_viewed(recording: Path) -> None:
    """Its page answers until a signal ends it."""
    viewer = [*_SPECTRACE, "view", str(recording), "--port", "0"]
    with subprocess.Popen(viewer, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("The page: ").strip()
        [run] = httpx.get(f"{url}/api/state", timeout=60).json()["runs"]
        process.terminate()
        assert process.wait(60) == 0
    assert run["source"] == "file"
    assert {rank["name"] for rank in run["ranks"]} == {"TP0", "TP1"}


def test_requests_that_others_trace_are_recorded_beside_the_cycles(tmp_path: Path) -> None:
    """`--receive` says where to send them; the recording shows them, once each."""
    server_folder, file = tmp_path / "server", tmp_path / "run.spectrace"
    server_folder.mkdir()
    with SimulatedServer(server_folder, "TP0") as server:
        recorder = start("record", str(server.pid), "-o", str(file), "--receive")
        url = first_line_with(recorder, "Send spans to: ").split()[-1]
        span_id = send_request(url, twice=True)
        first_line_with(recorder, "held up")
        recorder.send_signal(signal.SIGINT)
        output, errors = recorder.communicate(timeout=60)
        assert (recorder.returncode, errors) == (0, ""), output
    with spectrace.open(file) as run:
        [span] = run.spans.to_pylist()
        assert (span["span_id"], span["request_id"]) == (span_id, "rid-1")
    with open_page_of_recording(file, port=0) as page:
        [request] = httpx.get(f"{page.url}/api/requests").json()["requests"]
    assert (request["ids"], request["service"]) == (["rid-1"], "sglang")


def send_request(url: str, *, twice: bool) -> str:
    """Sends a span as SGLang makes it, and gives its id."""
    provider = TracerProvider(resource=Resource({"service.name": "sglang"}))
    span = provider.get_tracer("sglang server").start_span("Req 1", attributes={"rid": "rid-1"})
    span.end()
    assert isinstance(span, ReadableSpan)
    exporter = OTLPSpanExporter(endpoint=url)
    for _ in range(1 + twice):
        assert exporter.export([span]) is SpanExportResult.SUCCESS
    exporter.shutdown()  # type: ignore[no-untyped-call]  # ships none
    return f"{span.context.span_id:016x}"


def test_what_a_killed_recorder_had_collected_opens(tmp_path: Path) -> None:
    """The folder in which it lay takes the place of the file that was not written."""
    server_folder, folder = tmp_path / "server", tmp_path / "recorded"
    server_folder.mkdir()
    folder.mkdir()
    with SimulatedServer(server_folder, "TP0") as server:
        recorder = [*_SPECTRACE, "record", str(server.pid), "-o", str(folder / "run")]
        with subprocess.Popen(recorder, stdout=subprocess.DEVNULL) as process:
            deadline_s = time.monotonic() + 60
            sizes: set[int] = set()
            while len(sizes) < _WRITES:
                assert time.monotonic() < deadline_s, "nothing is stored"
                found = [log.stat().st_size for log in folder.glob(_LOGS)]
                sizes |= {size for size in found if size > _EMPTY_LOG_BYTES}
                time.sleep(0.05)
            process.kill()
    [left] = folder.iterdir()
    with spectrace.open(left) as run:
        assert len(run.runs) == 1
        assert run.cycles.num_rows > 0
