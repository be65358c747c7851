"""`--otlp-metrics`: where the metrics of a session go, and what is said of it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from importlib.metadata import EntryPoint

import msgspec
import pytest
from typer.testing import CliRunner

from spectrace.attach import discover
from spectrace.cli import attach, exporting
from spectrace.cli.main import app
from spectrace.cli.metering import Target, pushing, target_of
from spectrace.errors import SpectraceError
from spectrace.metrics.meter import Meter, Snapshot
from tests.unit.test_cli_exporting import FakeExporter
from tests.unit.test_cli_follow import RUN


class FakeStats(msgspec.Struct):
    """What became of the pushes."""

    def loss(self) -> str:
        """Always something."""
        return "the last metrics did not arrive."


class FakePusher:
    """Pushes nothing."""

    made: FakePusher

    def __init__(
        self, target: str | None, read: Callable[[], Snapshot], protocol: str | None
    ) -> None:
        self.endpoint = target or "http://127.0.0.1:9/from/the/environment"
        self.notices = ("A variable is odd.",)
        self.read = read
        self.protocol = protocol
        self.closed: list[float] = []
        FakePusher.made = self

    def close(self, timeout_s: float = 1.0) -> FakeStats:
        """Keeps how long it may take."""
        self.closed.append(timeout_s)
        return FakeStats()


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `attach` find a server, the fake exporter and the fake pusher, and trace nothing."""
    found = {
        "otlp": "tests.unit.test_cli_exporting:FakeExporter",
        "otlp.metrics": f"{__name__}:FakePusher",
    }

    def entry_points(*, group: str, name: str) -> list[EntryPoint]:
        return [EntryPoint(name, found[name], group)]

    monkeypatch.setattr(exporting, "entry_points", entry_points)
    monkeypatch.setattr(discover, "find_by_pid", lambda _pid: RUN)
    monkeypatch.setattr(attach, "trace", lambda *_, **__: 0)


@pytest.mark.parametrize(
    ("named", "traces", "target"),
    [
        ("http://h:1", None, "http://h:1"),
        ("env", "http://t:4318/v1/traces", None),
        ("same", "http://t:4318/v1/traces", "http://t:4318"),
        ("same", "https://t/otlp/v1/traces", "https://t/otlp"),
        ("same", "http://t:4317", "http://t:4317"),
    ],
)
def test_the_option_names_a_place(named: str, traces: str | None, target: str | None) -> None:
    """A URL, the environment's, or the base of where traces go."""
    assert target_of(named, traces).url == target


@pytest.mark.parametrize(
    ("traces", "protocol", "target"),
    [
        ("http://t:4317", "grpc", Target("http://t:4317", "grpc")),
        ("t:4317", "grpc", Target("t:4317", "grpc")),
        ("http://t/v1/traces", "http/protobuf", Target("http://t", "http/protobuf")),
        ("http://t/v1/traces", "http/json", Target("http://t", "http/protobuf")),
    ],
)
def test_the_same_place_is_spoken_to_in_the_same_way(
    traces: str, protocol: str, target: Target
) -> None:
    """Metrics know no JSON: they go to such a place as protobuf."""
    assert target_of("same", traces, protocol) == target


@pytest.mark.parametrize(
    ("traces", "reason"),
    [
        (None, "add --otlp-endpoint"),
        ("https://t/of/their/own", "does not tell where metrics go"),
        ("host:4317", "does not tell where metrics go"),
    ],
)
def test_the_same_place_has_to_be_one(traces: str | None, reason: str) -> None:
    """Otherwise the command ends before anything is traced, with what to do."""
    with pytest.raises(SpectraceError, match=reason) as refused:
        target_of("same", traces)
    assert refused.value.exit_code == 2


def test_what_did_not_arrive_and_what_is_odd_is_told() -> None:
    """In a sentence each, after everything was closed."""
    notes: list[str] = []
    with pushing(Target("http://there"), Meter(), notes.append):
        assert notes == ["A variable is odd."]
    assert notes[1:] == ["To http://there: the last metrics did not arrive."]
    assert FakePusher.made.closed == [1.0]


def test_addresses_of_metrics_are_told_without_their_secrets() -> None:
    """Where something did not arrive, and where an address will not do."""
    notes: list[str] = []
    with pushing(Target("http://ann:s3cret@there?api_key=s3cret"), Meter(), notes.append):
        pass
    assert notes[1:] == ["To http://there?api_key=…: the last metrics did not arrive."]
    with pytest.raises(SpectraceError, match="https://t/own does not tell") as refused:
        target_of("same", "https://ann:s3cret@t/own")
    assert "s3cret" not in str(refused.value)


def test_nothing_is_waited_for_where_nothing_was_traced() -> None:
    """The reason is enough to say."""
    notes: list[str] = []
    with (
        pytest.raises(SpectraceError, match="cannot be attached"),
        pushing(Target("http://there"), Meter(), notes.append),
    ):
        raise SpectraceError("It cannot be attached to.")
    assert (FakePusher.made.closed, notes) == ([0.0], ["A variable is odd."])


def test_a_pusher_is_closed_whatever_happens() -> None:
    """Also by an error that nobody foresaw."""
    with (
        pytest.raises(RuntimeError, match="on the way"),
        pushing(Target("http://there"), Meter(), print),
    ):
        raise RuntimeError("on the way")
    assert FakePusher.made.closed == [1.0]


def test_attach_pushes_to_where_traces_go() -> None:
    """Without a page, too."""
    arguments = ["attach", "70", "--no-page", "--otlp-endpoint", "http://t:4318"]
    result = CliRunner().invoke(app, [*arguments, "--otlp-metrics", "same"])
    assert result.exit_code == 0
    assert FakePusher.made.endpoint == "http://t:4318"
    assert FakeExporter.made.closed


def test_pushing_to_the_own_page_is_refused() -> None:
    """It has them at /metrics."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    named = f"http://localhost:{port}"
    result = CliRunner().invoke(app, ["attach", "70", "--port", port, "--otlp-metrics", named])
    assert isinstance(result.exception, SpectraceError)
    assert f"--otlp-metrics {named} is the page of this command" in str(result.exception)
    assert "has the metrics already" in str(result.exception)
