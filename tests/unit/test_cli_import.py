"""`spectrace import` writes a recording like any other."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

import spectrace
from spectrace.cli.import_ import beside
from spectrace.cli.main import app
from spectrace.errors import SpectraceError
from spectrace.server.open import open_page_of_recording
from tests.helpers.kineto_trace import newest, turns

RUNNER = CliRunner()


def run(*arguments: str | Path) -> str:
    """What the command writes; raises what it raises."""
    done = RUNNER.invoke(app, ["import", *map(str, arguments)], catch_exceptions=False)
    if isinstance(done.exception, SpectraceError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_trace_becomes_a_recording(tmp_path: Path) -> None:
    """It opens in Python, is exported, and says where it came from."""
    trace = turns(newest, 5).write(tmp_path / "9-TP-0.trace.json.gz")
    out = tmp_path / "run.spectrace"
    said = run(trace, "-o", out)
    assert "5 cycles (5 speculative) of TP0 are in" in said.replace("\n", " ")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    with spectrace.open(out) as recorded:
        assert recorded.cycles["number"].to_pylist() == [1, 2, 3, 4, 5]
        assert recorded.runs[0].engine == "a trace of the torch profiler"
        lengths = {
            row["end_ns"] - row["start_ns"]
            for row in recorded.phases.to_pylist()
            if row["name"] == "verify.forward"
        }
    assert lengths == {8_000_000}
    exported = RUNNER.invoke(app, ["export", str(out), "--to", "perfetto"])
    assert exported.exit_code == 0
    assert out.with_suffix(".pftrace").stat().st_size > 0


def test_the_page_of_an_imported_recording_answers(tmp_path: Path) -> None:
    """It knows the rank, and of which tool's trace the recording was made."""
    out = tmp_path / "run.spectrace"
    run(turns(newest, 5).write(tmp_path / "9-TP-0.trace.json.gz"), "-o", out)
    with open_page_of_recording(out, port=0) as page:
        [shown] = httpx.get(f"{page.url}/api/state").json()["runs"]
    assert [rank["name"] for rank in shown["ranks"]] == ["TP0"]
    assert shown["engine"] == "a trace of the torch profiler"


def test_json_has_the_ranks_the_kinds_and_the_faults(tmp_path: Path) -> None:
    """One object."""
    trace = turns(newest, 2)
    trace.launched(5_000.0, ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 6_000.0, 50.0))
    trace.events.append({"ph": "E", "name": "draft", "ts": 1.0, "pid": 1, "tid": 1})
    path = trace.write(tmp_path / "9-TP-0.trace.json")
    said = json.loads(run(path, "--json"))
    assert said["ranks"] == ["TP0"]
    assert said["cycles"] == {"speculative": 2}
    assert said["faults"] == {"unopened": 1}
    [time] = said["kernels"]
    assert (time["phase"], time["kernel_class"]) == ("verify.forward", "communication")


def test_users_classes_come_first(tmp_path: Path) -> None:
    """A table of the user's own names what the built-in one would call otherwise."""
    trace = turns(newest, 2)
    trace.launched(5_000.0, ("nvjet_tst_64x8", 6_000.0, 50.0))
    classes = tmp_path / "classes.toml"
    classes.write_text('[classes]\nlm_head = ["^nvjet_tst_64x8"]\n')
    path = trace.write(tmp_path / "9-TP-0.trace.json")
    said = json.loads(run(path, "--json", "--classes", classes))
    assert [time["kernel_class"] for time in said["kernels"]] == ["lm_head"]


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    """As with any other file that spectrace writes."""
    trace = turns(newest, 2).write(tmp_path / "9-TP-0.trace.json")
    run(trace)
    with pytest.raises(SpectraceError, match="exists"):
        run(trace)
    run(trace, "-f")


def test_a_trace_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    """Neither a file nor a folder."""
    (tmp_path / "trace.json").write_text("{}")
    with pytest.raises(SpectraceError, match="no traceEvents"):
        run(tmp_path / "trace.json")
    assert [file.name for file in tmp_path.iterdir()] == ["trace.json"]


def test_the_recording_lies_beside_the_trace() -> None:
    """Without the endings that traces have, whatever else stands in the name."""
    path = Path("/traces/1796028071.83-TP-0.trace.json.gz")
    assert beside(path) == Path("/traces/1796028071.83-TP-0.spectrace")
    assert beside(Path("report.sqlite")) == Path("report.spectrace")
