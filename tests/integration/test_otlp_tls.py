"""Certificates of the environment: an endpoint that shows one and asks for one."""

from __future__ import annotations

from pathlib import Path

import pytest
from spectrace_exporters.otlp import OtlpExporter

from spectrace.errors import SpectraceError
from spectrace.server.tls import Certificate
from tests.helpers.certificates import make_certificate
from tests.helpers.otlp_endpoint import GRPC, PROTOCOLS, serving
from tests.helpers.recorded import cycle_of, run_of

pytestmark = pytest.mark.beside_others

PREFIX = "OTEL_EXPORTER_OTLP"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """One that signs itself."""
    return make_certificate(tmp_path_factory.mktemp("tls"), signer=None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_both_sides_show_their_certificates(
    certificate: Certificate, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable for traces comes before the one for all signals, each for itself."""
    monkeypatch.setenv(f"{PREFIX}_CERTIFICATE", "/no/such/file")
    monkeypatch.setenv(f"{PREFIX}_TRACES_CERTIFICATE", str(certificate.chain))
    monkeypatch.setenv(f"{PREFIX}_CLIENT_KEY", str(certificate.key))
    monkeypatch.setenv(f"{PREFIX}_CLIENT_CERTIFICATE", str(certificate.chain))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/such/file")  # is about other things
    with serving(protocol, certificate=certificate) as endpoint:
        exporter = OtlpExporter(endpoint.url, run_of(), protocol=protocol, interval_s=0.0)
        exporter.add([cycle_of(1)])
        stats = exporter.close(timeout_s=30.0)

    assert (stats.sent_cycles, stats.lost_spans, stats.last_error) == (1, 0, "")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_who_shows_a_certificate_that_nobody_knows_gets_nothing(
    certificate: Certificate, protocol: str
) -> None:
    """Without the variable it is not one that this machine trusts."""
    with serving(protocol, certificate=certificate) as endpoint:
        exporter = OtlpExporter(endpoint.url, run_of(), protocol=protocol, interval_s=0.0)
        exporter.add([cycle_of(1)])
        stats = exporter.close(timeout_s=20.0)

    assert (stats.sent_cycles, stats.lost_cycles, endpoint.requests) == (0, 1, [])
    assert stats.last_error


def test_a_certificate_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variable that names it, before anything is sent."""
    monkeypatch.setenv(f"{PREFIX}_TRACES_CERTIFICATE", str(Path("/no/such/file")))
    with pytest.raises(SpectraceError, match=r"TRACES_CERTIFICATE: /no/such/file.*No such file"):
        OtlpExporter("https://localhost:1", run_of(), protocol=GRPC)
