"""A collector that speaks TLS: senders with the authority's certificate get in, nobody else."""

from __future__ import annotations

import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.exporter.otlp.json.http.trace_exporter import OTLPSpanExporter as JsonExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from spectrace_exporters.otlp import OtlpExporter
from typer.testing import CliRunner

from spectrace.cli.main import app
from spectrace.server.tls import Certificate
from spectrace.server.token import Token
from tests.helpers.certificates import make_authority, make_certificate
from tests.helpers.collector import Collector, collecting
from tests.helpers.command import TIMEOUT_S, first_line_with, start
from tests.helpers.otlp_endpoint import GRPC, JSON, PROTOBUF, PROTOCOLS
from tests.helpers.page import until
from tests.helpers.recorded import cycle_of, run_of

pytestmark = pytest.mark.beside_others

TOKEN = Token("a-token-for-the-tests")
AUTHORITY = "OTEL_EXPORTER_OTLP_CERTIFICATE"
SENDERS: dict[str, Callable[[Collector], SpanExporter]] = {
    GRPC: lambda to: GrpcExporter(endpoint=to.hub.grpc_endpoint, timeout=60),
    PROTOBUF: lambda to: HttpExporter(endpoint=to.http, timeout=60),
    JSON: lambda to: JsonExporter(endpoint=to.http, timeout=60),
}
EACH_PROTOCOL = pytest.mark.parametrize("protocol", PROTOCOLS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Who signs the collector's certificate."""
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def certificate(authority: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """The collector's."""
    return make_certificate(tmp_path_factory.mktemp("server"), authority)


@pytest.fixture
def collector(tmp_path: Path, certificate: Certificate) -> Iterator[Collector]:
    """A collector that wants the token and speaks TLS alone."""
    with collecting(tmp_path / "store", TOKEN, certificate) as running:
        yield running


@pytest.fixture(autouse=True)
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Senders show the token."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{TOKEN.text}")


@EACH_PROTOCOL
def test_official_exporters_get_in_with_the_authority(
    collector: Collector,
    authority: Certificate,
    protocol: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its file is what OTEL_EXPORTER_OTLP_CERTIFICATE names; the addresses begin with https."""
    assert collector.http.startswith("https://127.0.0.1:")
    monkeypatch.setenv(AUTHORITY, str(authority.chain))
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # which go before it there
        monkeypatch.delenv(name, raising=False)
    provider = TracerProvider(resource=Resource({"service.name": "sglang"}))
    provider.add_span_processor(SimpleSpanProcessor(SENDERS[protocol](collector)))
    provider.get_tracer("anybody").start_span(f"Req {protocol}").end()
    provider.shutdown()
    [span] = until(lambda: collector.store.other_spans(10))
    assert span.name == f"Req {protocol}"


@EACH_PROTOCOL
def test_cycles_of_another_spectrace_get_in_with_the_authority(
    collector: Collector,
    authority: Certificate,
    protocol: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `spectrace attach --otlp-endpoint https://…` sends them; without its file none does."""
    url = collector.hub.grpc_endpoint if protocol == GRPC else collector.http
    for trusts in (False, True):
        if trusts:
            monkeypatch.setenv(AUTHORITY, str(authority.chain))
        exporter = OtlpExporter(url, run_of(), protocol=protocol, interval_s=0.0)
        exporter.add([cycle_of(1, 2)])
        stats = exporter.close(timeout_s=20.0)
        assert (stats.sent_cycles, stats.lost_cycles) == ((1, 0) if trusts else (0, 1))
    assert until(lambda: collector.store.stats(run_of().run_id).cycles) == 1


def test_a_browser_is_remembered_over_tls_alone(
    collector: Collector, authority: Certificate
) -> None:
    """The cookie that it gets for the token is one that no browser sends in the clear."""
    trust = ssl.create_default_context(cafile=authority.chain)
    with httpx.Client(verify=trust, trust_env=False) as browser:
        answer = browser.get(collector.server.entrance)
        assert answer.status_code == 303
        assert "; secure" in answer.headers["set-cookie"].lower()
        assert browser.get(f"{collector.server.url}/api/state").status_code == 200


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("missing", "No such file"),
        ("junk", "make no TLS server"),
        ("another", "key values mismatch"),
        ("locked", "the key has a passphrase"),
    ],
)
def test_files_of_which_no_server_can_be_made_are_refused(
    tmp_path: Path, certificate: Certificate, broken: str, reason: str
) -> None:
    """Before anything listens, with what to do; nobody is asked for a passphrase."""
    junk = tmp_path / "junk"
    junk.write_text("no PEM")
    keys = {
        "missing": lambda: tmp_path / "no-such-file",
        "junk": lambda: junk,
        "another": lambda: make_certificate(tmp_path, None, "other").key,
        "locked": lambda: make_certificate(tmp_path, None, "locked", "secret").key,
    }
    key = keys[broken]()
    chain = key.with_suffix(".pem") if broken == "locked" else certificate.chain
    arguments = ["serve", "--port", "0", "--tls-cert", str(chain), "--tls-key", str(key)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code != 0
    assert reason in str(result.exception)
    assert "--tls-key" in str(result.exception)


@pytest.mark.parametrize("option", ["--tls-cert", "--tls-key"])
def test_one_file_is_not_enough(certificate: Certificate, option: str) -> None:
    """The other option is named."""
    result = CliRunner().invoke(app, ["serve", option, str(certificate.chain)])
    assert result.exit_code == 2
    assert "TLS needs both" in result.output


def test_who_speaks_no_tls_gets_nothing_and_disturbs_nobody(
    certificate: Certificate, authority: Certificate
) -> None:
    """Plain HTTP or gRPC, garbage, silence: others get in, the command says nothing and ends."""
    files = ["--tls-cert", str(certificate.chain), "--tls-key", str(certificate.key)]
    ports = ["--port", "0", "--otlp-http-port", "0", "--otlp-grpc-port", "0"]
    process = start("serve", *ports, *files)
    url = httpx.URL(first_line_with(process, "The page: ").split()[-1])
    grpc_port = httpx.URL(first_line_with(process, "Over gRPC: ").split()[-1]).port
    assert AUTHORITY in first_line_with(process, AUTHORITY)
    assert (url.scheme, bool(url.port), bool(grpc_port)) == ("https", True, True)
    with pytest.raises(httpx.HTTPError):
        httpx.get(url.copy_with(scheme="http"), trust_env=False)
    for port in (url.port, grpc_port):
        for first in (b"\x16\x03\x01" + bytes(1000), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            with socket.create_connection((url.host, port or 0), TIMEOUT_S) as stranger:
                stranger.sendall(first)
                while stranger.recv(1000):
                    pass  # until it is hung up
    trust = ssl.create_default_context(cafile=authority.chain)
    with socket.create_connection((url.host, url.port or 0)):  # who is silent holds nothing up
        assert httpx.get(url.join("/api/state"), verify=trust, timeout=60).status_code == 200
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, errors) == (0, "")
