"""What is no sound recording is refused in one sentence, wherever it is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest
from typer.testing import CliRunner

import spectrace
from spectrace.cli.main import app
from spectrace.errors import SpectraceError
from spectrace.server.open import open_page_of_recording
from spectrace.store.schema import TABLES
from tests.helpers.recorded import cycle_of, record, run_of

CYCLES = 100
# What is done to a recording; each is a text of SQL.
OF_TABLES = {
    "a run that is no JSON": "UPDATE runs SET json = '{\"run_id\": '",
    "a run without fields": "UPDATE runs SET json = '{}'",
    "a run that nests too deep": "UPDATE runs SET json = repeat('[', 100000)",
    "a run that is NULL": "UPDATE runs SET json = NULL",
    "a missing column": "ALTER TABLE phases DROP COLUMN start_ns",
    "bytes for a name": "ALTER TABLE phases ALTER name TYPE BLOB",
    "a text for a time": "ALTER TABLE cycles ALTER start_ns TYPE VARCHAR",
    "times that are NULL": "UPDATE cycles SET start_ns = NULL, end_ns = NULL",
    "one time that is NULL": "UPDATE phases SET start_ns = NULL WHERE id = 40 AND place = 0",
    "two marks": "INSERT INTO format SELECT * FROM format",
}
# What only those meet who ask for cycles: a table may hold any word, and any rows.
OF_CYCLES = {
    "an unknown kind": "UPDATE cycles SET kind = 'dance' WHERE id = 50",
    "an unknown lane": "UPDATE phases SET lane = 'fast' WHERE id = 50",
    "an unknown mode": "UPDATE ranks SET mode = 'guess' WHERE id = 50",
    "a cycle without ranks": "DELETE FROM ranks WHERE id = 50",
}


def export(path: Path, to: str = "chrome") -> None:
    """As the command."""
    result = CliRunner().invoke(app, ["export", str(path), "--to", to])
    if result.exception:
        raise result.exception


def report(path: Path) -> None:
    """As the command."""
    result = CliRunner().invoke(app, ["report", str(path), "--json"])
    if result.exception:
        raise result.exception


def read(path: Path) -> None:
    """Reads every table in Python."""
    with spectrace.open(path) as recording:
        for table in TABLES:
            getattr(recording, table)


def view(path: Path) -> None:
    """Opens the page and asks for the newest cycles, and for the report."""
    with open_page_of_recording(path, port=0) as server:
        run = f"{server.url}/api/runs/{run_of().run_id}"
        for url in (f"{run}/cycles?limit=2000", f"{run}/report"):
            answer = httpx.get(url)
            if answer.status_code != 200:
                raise SpectraceError(answer.json()["detail"])


READERS = (export, read, report, view)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A recording of 100 cycles of two ranks."""
    path = tmp_path_factory.mktemp("sound") / "run.spectrace"
    return record(path, [cycle_of(n, 2) for n in range(CYCLES)], run_of(2)).read_bytes()


def changed(tmp_path: Path, sound: bytes, statement: str) -> Path:
    """The recording after somebody has worked on it with DuckDB."""
    path = tmp_path / "run.spectrace"
    path.write_bytes(sound)
    with duckdb.connect(str(path)) as database:
        database.execute(statement)
    return path


@pytest.mark.parametrize("reader", READERS)
def test_a_sound_recording_is_read(
    tmp_path: Path, sound: bytes, reader: Callable[[Path], Any]
) -> None:
    """Without which the refusals below would say nothing."""
    reader(changed(tmp_path, sound, "SELECT 1"))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", OF_TABLES)
def test_wrong_tables_are_damage_to_every_reader(
    tmp_path: Path, sound: bytes, kind: str, reader: Callable[[Path], Any]
) -> None:
    """The sentence names the file; its cause is chained."""
    path = changed(tmp_path, sound, OF_TABLES[kind])
    with pytest.raises(SpectraceError, match=r"run\.spectrace .*damaged") as refused:
        reader(path)
    assert refused.value.__cause__ is not None
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("reader", [export, view])
@pytest.mark.parametrize("kind", OF_CYCLES)
def test_wrong_cycles_are_damage_to_those_who_ask_for_cycles(
    tmp_path: Path, sound: bytes, kind: str, reader: Callable[[Path], Any]
) -> None:
    """The API answers with the sentence as well."""
    path = changed(tmp_path, sound, OF_CYCLES[kind])
    with pytest.raises(SpectraceError, match=r"run\.spectrace is damaged"):
        reader(path)


@pytest.mark.parametrize("reader", [read, report])
@pytest.mark.parametrize("kind", OF_CYCLES)
def test_wrong_cycles_are_rows_like_others_to_those_who_ask_for_tables(
    tmp_path: Path, sound: bytes, kind: str, reader: Callable[[Path], Any]
) -> None:
    """A table shows the word that is there, and one cycle changes no statistic."""
    reader(changed(tmp_path, sound, OF_CYCLES[kind]))


def test_a_cycle_that_drafted_in_no_steps_can_be_reported_on(tmp_path: Path, sound: bytes) -> None:
    """Nobody drafts in -3 steps: no rate is told for each of them."""
    report(changed(tmp_path, sound, "UPDATE cycles SET steps = -3"))


@pytest.mark.parametrize("reader", READERS)
def test_flipped_bytes_are_damage_or_do_not_matter(
    tmp_path: Path, sound: bytes, reader: Callable[[Path], Any]
) -> None:
    """A byte in each of the blocks, one after the other: it is told, and nothing else is raised."""
    path = tmp_path / "run.spectrace"
    refused = 0
    blocks = range(3 * 4096 + 8_000, len(sound), 16_384)
    for at in blocks:
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0xFF]) + sound[at + 1 :])
        try:
            reader(path)
        except SpectraceError as error:
            assert "damaged" in str(error) or "does not fit" in str(error), str(error)  # noqa: PT017
            refused += 1
        path.with_name("run.chrome.json").unlink(missing_ok=True)
    assert refused > len(blocks) // 4


@pytest.mark.parametrize("to", ["parquet", "csv"])
def test_damage_amid_a_table_leaves_no_half_export(tmp_path: Path, sound: bytes, to: str) -> None:
    """The tables go through Arrow, which has errors of its own."""
    path = tmp_path / "run.spectrace"
    refused = 0
    for at in range(3 * 4096 + 8_000, len(sound), 16_384):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0xFF]) + sound[at + 1 :])
        try:
            export(path, to)
        except SpectraceError:
            refused += 1
            assert [file.name for file in tmp_path.iterdir()] == ["run.spectrace"]
        else:
            for file in (out := tmp_path / f"run.{to}").iterdir():
                file.unlink()
            out.rmdir()
    assert refused
