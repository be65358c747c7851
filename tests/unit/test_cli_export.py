"""`spectrace export` writes every format, says what it does, and leaves nothing half done."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from spectrace.cli import export, exporting
from spectrace.cli.main import app
from spectrace.errors import SpectraceError
from spectrace.store import formats
from spectrace.store.extract import Extract
from tests.helpers.recorded import cycle_of, record, run_of

RUNNER = CliRunner()
CYCLES = 5
OUTPUTS = {
    "chrome": "run.chrome.json",
    "csv": "run.csv",
    "jaeger": "run.jaeger.json",
    "otlp": "run.otlp.jsonl",
    "parquet": "run.parquet",
    "perfetto": "run.pftrace",
}


class Numbers:
    """A format of somebody else's: the number of each cycle in a line."""

    suffix = ".txt"

    def write(self, recorded: Extract, path: Path) -> None:
        """Streams them."""
        with path.open("w") as out:
            out.writelines(f"{cycle.number}\n" for cycle in recorded.cycles())


class Interrupted(Numbers):
    """A format during which somebody presses Ctrl-C."""

    def write(self, recorded: Extract, path: Path) -> None:
        """Gets half way."""
        super().write(recorded, path)
        signal.raise_signal(signal.SIGTERM)


class Endless(Numbers):
    """A format that says where it writes, and never comes to an end."""

    def write(self, recorded: Extract, path: Path) -> None:
        """Waits."""
        super().write(recorded, path)
        print("writing", flush=True)
        time.sleep(60)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A recording of five cycles, alone in its folder."""
    kept = tmp_path / "kept"
    kept.mkdir()
    made = record(tmp_path / "made", [cycle_of(n, 1) for n in range(CYCLES)], run_of(1))
    return made.rename(kept / "run.spectrace")


def install(patch: pytest.MonkeyPatch, exporter: type[Numbers]) -> None:
    """Lets an exporter of another package be found."""
    found = EntryPoint("own.file", f"{__name__}:{exporter.__name__}", "spectrace.exporters")

    def with_own(*, group: str, name: str | None = None) -> EntryPoints:
        every = EntryPoints([*entry_points(group=group), found])
        return every if name is None else every.select(name=name)

    patch.setattr(exporting, "entry_points", with_own)
    patch.setattr(formats, "entry_points", with_own)


def exported(*arguments: str | Path) -> str:
    """What the command says; fails where it does."""
    result = RUNNER.invoke(app, ["export", *map(str, arguments)])
    if result.exception:
        raise result.exception
    return result.output


@pytest.mark.parametrize("to", OUTPUTS)
def test_every_format_is_written_beside_the_recording(file: Path, to: str) -> None:
    """Under a name of its own, which is told with the number of cycles."""
    said = exported(file, "--to", to)
    written = file.with_name(OUTPUTS[to])
    assert f"5 cycles are in {written}" in said
    assert export.size_of(written) > 0
    assert {path.name for path in file.parent.iterdir()} == {"run.spectrace", OUTPUTS[to]}


def test_nothing_is_overwritten_without_f(file: Path) -> None:
    """The refusal comes before any work."""
    out = file.with_name("out")
    out.write_text("precious")
    with pytest.raises(SpectraceError, match="exists"):
        exported(file, "--to", "otlp", "-o", out)
    assert out.read_text() == "precious"
    exported(file, "--to", "otlp", "-o", out, "-f")
    assert out.read_text().startswith("{")


@pytest.mark.parametrize("named", [".", "../store"])
def test_a_store_is_exported_beside_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """Also by who stands in it and calls it `.`, which is no name."""
    record(tmp_path / "made", [cycle_of(0, 1)], run_of(1))
    store = (tmp_path / "made-store").rename(tmp_path / "store")
    monkeypatch.chdir(store)
    assert "1 cycles are in" in exported(named, "--to", "chrome")
    assert (tmp_path / "store.chrome.json").exists()


def test_a_recording_is_not_replaced_by_its_export(file: Path) -> None:
    """Neither under its name, nor under another that leads to it, nor a slice of a store."""
    before = file.read_bytes()
    link = file.with_name("link")
    link.symlink_to(file)
    store = file.with_name("store")
    store.mkdir()
    part = store / "slice-00000000.duckdb"
    part.write_bytes(before)
    for source, out in ((file, file), (file, link), (store, part)):
        with pytest.raises(SpectraceError, match="is the recording itself"):
            exported(source, "--to", "chrome", "-f", "-o", out)
    assert file.read_bytes() == part.read_bytes() == before


def test_an_unknown_format_is_told_the_known_ones(file: Path) -> None:
    """An error of usage."""
    with pytest.raises(SpectraceError, match="chrome, csv, jaeger, otlp, parquet, perfetto") as no:
        exported(file, "--to", "pdf")
    assert no.value.exit_code == 2


def test_a_format_of_another_package_is_found_by_its_entry_point(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs nothing but a suffix and a way to write."""
    install(monkeypatch, Numbers)
    exported(file, "--to", "own")
    assert file.with_name("run.txt").read_text() == "0\n1\n2\n3\n4\n"


def test_a_signal_leaves_no_half_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM ends an export as Ctrl-C does."""
    install(monkeypatch, Interrupted)
    assert RUNNER.invoke(app, ["export", str(file), "--to", "own"]).exit_code == 130
    assert [path.name for path in file.parent.iterdir()] == ["run.spectrace"]


def test_ctrl_c_leaves_no_half_file(file: Path) -> None:
    """A real process that is interrupted amid its work."""
    code = (
        "import sys, pytest; from tests.unit.test_cli_export import Endless, install; "
        "install(pytest.MonkeyPatch(), Endless); from spectrace.cli.main import main; main()"
    )
    command = [sys.executable, "-c", code, "export", str(file), "--to", "own"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        assert len(list(file.parent.iterdir())) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert [path.name for path in file.parent.iterdir()] == ["run.spectrace"]


def test_the_size_of_a_large_export_is_told_before_it_is_written(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line of `Numbers` takes two bytes: five take ten, estimated from the first two."""
    install(monkeypatch, Numbers)
    monkeypatch.setattr(export, "_LARGE_CYCLES", 3)
    monkeypatch.setattr(export, "_SAMPLE_CYCLES", 2)
    said = exported(file, "--to", "own")
    assert said.startswith("About 10 B for 5 cycles.")
    assert "(10 B)" in said


def test_what_ends_before_it_begins_is_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A foreign recording can hold such a rank; its cycle is none."""
    bad = cycle_of(1, 1)
    turned = replace(bad.ranks[0], start_ns=bad.ranks[0].end_ns + 1, phases=())
    cycles = [cycle_of(0, 1), replace(bad, ranks=(turned,))]
    path = record(tmp_path / "run.spectrace", cycles, run_of(1))
    install(monkeypatch, Numbers)
    assert "begin before 1970: 1." in exported(path, "--to", "own")
    assert path.with_name("run.txt").read_text() == "0\n"


@pytest.mark.parametrize("to", OUTPUTS)
def test_a_recording_without_cycles_is_written_all_the_same(tmp_path: Path, to: str) -> None:
    """As of a server that stood idle: a whole file in which there is nothing."""
    path = record(tmp_path / "run.spectrace", [], run_of(1))
    assert "0 cycles are in" in exported(path, "--to", to)
    written = path.with_name(OUTPUTS[to])
    if written.suffix == ".json":
        assert list(json.loads(written.read_text()).values())[-1] == []
