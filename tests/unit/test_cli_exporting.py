"""An exporter is found by its name, follows a session, and says what did not arrive."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from typing import cast

import msgspec
import pytest
from typer.testing import CliRunner

from spectrace.attach import discover
from spectrace.attach.session import SessionFacts
from spectrace.cli import attach, exporting
from spectrace.cli.main import app
from spectrace.cli.report import Exported
from spectrace.errors import SpectraceError
from spectrace.model import Cycle, Run
from tests.unit.test_cli_follow import RUN, cycle_of


class FakeStats(msgspec.Struct):
    """What became of the cycles."""

    lost_cycles: int

    def loss(self) -> str:
        """A sentence where something was lost."""
        return f"{self.lost_cycles} cycles did not arrive." if self.lost_cycles else ""


class FakeExporter:
    """Loses every cycle that still waits when it is closed; only one of each call is sent."""

    made: FakeExporter

    def __init__(self, target: str | None, run: Run) -> None:
        if target == "nowhere":
            raise SpectraceError("It is no address.", exit_code=2)
        self.endpoint = target or "http://127.0.0.1:9/from/the/environment"
        self.run = run
        self.taken: list[Cycle] = []
        self.closed = 0
        FakeExporter.made = self

    @property
    def stats(self) -> FakeStats:
        """Nothing is lost before the end."""
        return FakeStats(len(self.taken) - 1 if self.closed and self.taken else 0)

    def add(self, cycles: Sequence[Cycle]) -> None:
        """Takes them."""
        self.taken += cycles

    def close(self) -> FakeStats:
        """Counts how often."""
        self.closed += 1
        return self.stats


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets the exporter `fake` be found, and any other not."""

    def install(value: str) -> None:
        found = EntryPoint("fake", value, "spectrace.exporters")

        def entry_points(*, group: str, name: str) -> list[EntryPoint]:
            return [found] if (group, name) == (found.group, found.name) else []

        monkeypatch.setattr(exporting, "entry_points", entry_points)

    install(f"{__name__}:FakeExporter")
    return install


@pytest.mark.usefixtures("installed")
def test_an_exporter_that_is_not_installed_is_named() -> None:
    """And what to do about it."""
    with (
        pytest.raises(SpectraceError, match="'other' is not installed here: install spectrace"),
        exporting.exporting("other", "there", RUN, print),
    ):
        pass


def test_an_exporter_that_cannot_be_loaded_says_what_it_lacks(
    installed: Callable[[str], None],
) -> None:
    """A library that is missing is no traceback."""
    installed("no_such_library:Exporter")
    with (
        pytest.raises(SpectraceError, match=r"not installed here \(No module .*no_such_library"),
        exporting.exporting("fake", "there", RUN, print),
    ):
        pass


@pytest.mark.usefixtures("installed")
def test_a_target_that_cannot_be_one_is_refused() -> None:
    """With the exporter's own sentence and exit code."""
    with (
        pytest.raises(SpectraceError, match="no address") as refused,
        exporting.exporting("fake", "nowhere", RUN, print),
    ):
        pass
    assert refused.value.exit_code == 2


@pytest.mark.usefixtures("installed")
def test_cycles_are_sent_on_and_what_did_not_arrive_is_known_at_the_end() -> None:
    """In the count as soon as the session is over, and in a sentence of its own."""
    notes: list[str] = []
    with exporting.exporting("fake", "there", RUN, notes.append) as tap:
        tap.feed([cycle_of(1), cycle_of(2)])
        later = msgspec.structs.replace(RUN, engine="sglang 1")
        tap.tell(later, cast("SessionFacts", None), ())
        assert (tap.lost(), FakeExporter.made.run.engine) == (0, "sglang 1")
        tap.end(later, None)
        assert (tap.lost(), notes) == (1, [])
    assert notes == ["To there: 1 cycles did not arrive."]


@pytest.mark.usefixtures("installed")
def test_a_loss_is_told_without_the_secrets_of_the_address() -> None:
    """Of the target that was named only the names of what it says stay."""
    notes: list[str] = []
    target = "http://ann:s3cret@there:4318/x?api_key=s3cret"
    with exporting.exporting("fake", target, RUN, notes.append) as tap:
        tap.feed([cycle_of(1), cycle_of(2)])
        assert FakeExporter.made.endpoint == target
    assert notes == ["To http://there:4318/x?api_key=…: 1 cycles did not arrive."]


@pytest.mark.usefixtures("installed")
def test_an_exporter_is_closed_whatever_happens() -> None:
    """Where everything arrived nothing is said."""
    notes: list[str] = []
    with (
        pytest.raises(RuntimeError, match="on the way"),
        exporting.exporting("fake", "there", RUN, notes.append),
    ):
        raise RuntimeError("on the way")
    assert (FakeExporter.made.closed, notes) == (1, [])


def test_losses_of_the_exporter_reach_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--otlp-endpoint` opens the exporter and hands on its count of losses."""
    found = EntryPoint("otlp", f"{__name__}:FakeExporter", "spectrace.exporters")
    lost: list[int] = []

    def traced(*_: object, exported: Callable[[], Exported], **__: object) -> int:
        FakeExporter.made.add([cycle_of(1), cycle_of(2), cycle_of(3)])
        FakeExporter.made.close()
        lost.append(exported().lost_cycles)
        return 0

    monkeypatch.setattr(exporting, "entry_points", lambda **_: [found])
    monkeypatch.setattr(discover, "find_by_pid", lambda _pid: RUN)
    monkeypatch.setattr(attach, "trace", traced)
    result = CliRunner().invoke(
        app, ["attach", "70", "--no-page", "--otlp-endpoint", "http://there"]
    )
    assert (result.exit_code, lost) == (0, [2])
    assert result.output == "To http://there: 2 cycles did not arrive.\n"


@pytest.fixture
def attachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `attach` find a server and the fake exporter, and trace nothing."""
    found = EntryPoint("otlp", f"{__name__}:FakeExporter", "spectrace.exporters")
    monkeypatch.setattr(exporting, "entry_points", lambda **_: [found])
    monkeypatch.setattr(discover, "find_by_pid", lambda _pid: RUN)
    monkeypatch.setattr(attach, "trace", lambda *_, **__: FakeExporter.made.add([cycle_of(1)] * 2))


@pytest.mark.usefixtures("attachable")
def test_the_environment_names_the_endpoint_where_that_is_asked_for() -> None:
    """`env` leaves it to the exporter, whose own word for it is shown."""
    result = CliRunner().invoke(app, ["attach", "70", "--no-page", "--otlp-endpoint", "env"])
    assert "To http://127.0.0.1:9/from/the/environment: 1 cycles" in result.output


@pytest.mark.usefixtures("attachable")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST.", "127.1.2.3"])
def test_sending_to_the_own_page_is_refused(host: str) -> None:
    """In a sentence, before anything is put into the server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    arguments = ["attach", "70", "--port", port, "--otlp-endpoint", f"http://{host}:{port}"]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, SpectraceError)
    assert "is the page of this command" in str(result.exception)
    assert FakeExporter.made.closed
    assert FakeExporter.made.taken == []
