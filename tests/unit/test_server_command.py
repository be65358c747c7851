"""`spectrace serve` brings up the page and takes it down without a trace."""

from __future__ import annotations

import signal
import subprocess
import sys

import httpx
import pytest
import typer
from typer.testing import CliRunner

from spectrace.cli.page_options import size_option
from spectrace.cli.serve import pushing_on, required_token, serve
from spectrace.errors import SpectraceError
from spectrace.server.open import open_page
from spectrace.server.run import OtlpPorts
from spectrace.server.state import Source
from tests.helpers.metered import Endpoint, endpoint, key, numbers_of
from tests.helpers.page import until
from tests.helpers.recorded import cycle_of, run_of

APP = typer.Typer()
APP.command()(serve)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1GB", 1_000_000_000),
        ("1GiB", 1 << 30),
        ("500MB", 500_000_000),
        ("1500.5kB", 1_500_500),
        ("2000KB", 2_000_000),
        ("1000000", 1_000_000),
        ("1000000B", 1_000_000),
    ],
)
def test_sizes_are_read_with_their_units(text: str, size: int) -> None:
    """GB counts in thousands, GiB in 1024."""
    assert size_option(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1GB", "1XB", "GB", "999KB", "1 2GB"])
def test_what_is_no_size_is_refused_with_examples(text: str) -> None:
    """The message shows how to write one."""
    with pytest.raises(typer.BadParameter, match="500MB"):
        size_option(text)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7"])  # noqa: S104 - nothing listens
def test_beyond_loopback_a_token_is_made(host: str) -> None:
    """One that nobody can guess, another one each time; on loopback none is needed."""
    made = [required_token(host, None) for _ in range(2)]
    assert made[0] is not None
    assert made[1] is not None
    assert made[0].text != made[1].text
    assert len(made[0].text) >= 43  # 32 random bytes in base64
    assert required_token("127.0.0.1", None) is None
    assert required_token("localhost", None) is None


def test_a_token_that_is_given_is_the_one() -> None:
    """On any address, loopback as well."""
    for host in ("127.0.0.1", "0.0.0.0"):  # noqa: S104 - nothing listens
        token = required_token(host, "0123456789abcdef")
        assert token is not None
        assert token.text == "0123456789abcdef"


@pytest.mark.parametrize("token", ["short", "sixteen letters!", "päßword-of-sixteen", ""])
def test_a_token_that_could_not_be_sent_is_refused(token: str) -> None:
    """And so is one that could be guessed; the message says how to make a good one."""
    result = CliRunner().invoke(APP, [], env={"SPECTRACE_TOKEN": token or "-"})
    assert result.exit_code == 1
    assert "openssl rand" in str(result.exception)


@pytest.mark.parametrize("option", [("--retain", "soon"), ("--max-size", "much")])
def test_options_that_make_no_sense_are_refused(option: tuple[str, str]) -> None:
    """Typer shows the usage."""
    assert CliRunner().invoke(APP, option).exit_code == 2


def pushed_cycles(backend: Endpoint) -> float | None:
    """What the newest push says of cycles."""
    newest = backend.requests[-1:]
    return (
        numbers_of(newest[0]).get(key("spectrace.cycles", kind="speculative")) if newest else None
    )


def test_what_arrives_is_pushed_as_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector's own; to itself or to no address they are not."""
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
    run = run_of()
    with endpoint() as backend, open_page(retain_s=60, max_bytes=1 << 30, port=0) as (hub, server):
        with pushing_on(backend.url, hub, server):
            hub.put_run(run, Source.RECEIVED)
            hub.feed([cycle_of(1)])
            hub.meter.settle()
            cycles = until(lambda: pushed_cycles(backend))
        for refused in (server.url, hub.otlp_endpoint):
            with (
                pytest.raises(SpectraceError, match="page of this command") as error,
                pushing_on(refused, hub, server),
            ):
                pass
            assert "--no-page" not in str(error.value)  # which this command does not have
    assert cycles == 1
    assert CliRunner().invoke(APP, ["--port", "0", "--otlp-metrics", "same"]).exit_code == 2


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0.0.0.0", "127.1.2.3"])  # noqa: S104 - named alone
def test_a_receiver_of_the_command_is_its_page_too(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where gRPC's address has no scheme."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc")
    ports = OtlpPorts(http=0, grpc=0)
    with open_page(retain_s=60, max_bytes=1 << 30, port=0, otlp=ports) as (hub, server):
        port = httpx.URL(hub.grpc_endpoint or "").port
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{host}:{port}")
        with (
            pytest.raises(SpectraceError, match=f"{host}:{port} is the page of this command"),
            pushing_on("env", hub, server),
        ):
            pass


def test_the_command_says_where_the_page_is_and_ends_at_a_signal() -> None:
    """It prints the address, answers there, and leaves with 0."""
    code = "import typer; from spectrace.cli.serve import serve; typer.run(serve)"
    with subprocess.Popen(
        [sys.executable, "-c", code, "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout is not None
        url = command.stdout.readline().removeprefix("The page: ").strip()
        assert httpx.get(f"{url}/api/state", timeout=60).status_code == 200
        command.send_signal(signal.SIGINT)
        assert command.wait(60) == 0
