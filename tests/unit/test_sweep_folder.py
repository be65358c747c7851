"""The folder of a sweep: what is done stays done, and what is not begins anew."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace
from rich.console import Console

from spectrace.analysis.sweep_report import SweepReport
from spectrace.cli.sweep import summed_up
from spectrace.cli.sweep_folder import LoadPlan, SweepFolder, SweepPlan, Turn, TurnRecord
from spectrace.cli.sweep_load import LoadResult
from spectrace.cli.sweep_settings import Setting, plain
from spectrace.cli.sweep_turn import last_lines
from spectrace.cli.sweep_words import render
from spectrace.errors import SpectraceError
from spectrace.hidden import command_without_secrets

TURN = Turn(setting=plain(), round=1)
COMMAND = ("python", "serve.py")
PLAN = SweepPlan(command=COMMAND, load=LoadPlan(requests=8, concurrency=2))
RECORD = TurnRecord(setting=plain(), round=1, command=COMMAND, start_ns=1)
DONE = replace(RECORD, load=LoadResult(begin_ns=1, end_ns=2, requests=8, tokens=16))


def test_a_turn_is_done_when_it_was_written_down_and_its_recording_is_there(tmp_path: Path) -> None:
    """Also for the next sweep that opens the folder."""
    with closing(SweepFolder(tmp_path / "new")) as folder:
        folder.agree(PLAN)
        assert folder.done(TURN, COMMAND) is None
        folder.finish(TURN.name, DONE)
        assert folder.done(TURN, COMMAND) is None
        folder.recording(TURN.name).touch()
    with closing(SweepFolder(tmp_path / "new")) as folder:
        assert folder.done(TURN, COMMAND) == DONE
        assert folder.recording(TURN.name).name == "plain.1.spectrace"


def test_a_turn_that_failed_is_known_without_a_recording(tmp_path: Path) -> None:
    """With its reason and what its server said last."""
    failed = replace(RECORD, failure="It ended.", last_lines=("out of memory",))
    with closing(SweepFolder(tmp_path / "new")) as folder:
        folder.finish(TURN.name, failed)
        assert folder.done(TURN, COMMAND) == failed


def test_another_setting_of_the_same_name_is_not_taken_for_measured(tmp_path: Path) -> None:
    """Both are named, with what to do; one that failed is measured anew, as nothing is there."""
    before = Setting(name="kv", arguments=("--kv-cache-dtype", "fp8_e5m2"))
    now = Turn(setting=replace(before, arguments=("--kv-cache-dtype", "auto")), round=1)
    measured = replace(DONE, setting=before, command=before.command(COMMAND))
    with closing(SweepFolder(tmp_path / "new")) as folder:
        folder.recording(now.name).touch()
        folder.finish(now.name, measured)
        assert folder.done(Turn(setting=before, round=1), COMMAND) == measured
        with pytest.raises(
            SpectraceError, match=r"kv was .* fp8_e5m2, and is now .* auto: .* another name"
        ):
            folder.done(now, COMMAND)
        folder.finish(now.name, replace(measured, failure="It ended."))
        assert folder.done(now, COMMAND) is None


def test_what_is_forgotten_leaves_no_file(tmp_path: Path) -> None:
    """Recording, logs and record of a turn that begins anew."""
    with closing(SweepFolder(tmp_path / "new")) as folder:
        folder.finish(TURN.name, DONE)
        for file in (
            folder.recording(TURN.name),
            folder.unfinished(TURN.name),
            folder.server_log(TURN.name),
            folder.load_log(TURN.name),
        ):
            file.touch()
        folder.forget(TURN.name)
        assert list(folder.path.glob(f"{TURN.name}*")) == []


def test_a_sweep_goes_on_only_with_the_same_command_and_load(tmp_path: Path) -> None:
    """What differs is named."""
    with closing(SweepFolder(tmp_path / "new")) as folder:
        folder.agree(PLAN)
        folder.agree(PLAN)
        with pytest.raises(SpectraceError, match="command differs"):
            folder.agree(replace(PLAN, command=("python", "other.py")))
        with pytest.raises(SpectraceError, match="load and timing differ"):
            folder.agree(replace(PLAN, load=LoadPlan(requests=9), timing="host"))


def test_two_sweeps_cannot_share_a_folder(tmp_path: Path) -> None:
    """The second one is told to wait or to go elsewhere."""
    with (
        closing(SweepFolder(tmp_path / "new")),
        pytest.raises(SpectraceError, match="two sweeps at a time"),
    ):
        SweepFolder(tmp_path / "new")


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    """Its files are named."""
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(SpectraceError, match=r"thesis\.txt"):
        SweepFolder(tmp_path)


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    """With what to do about it."""
    with closing(SweepFolder(tmp_path / "new")) as folder:
        folder.finish(TURN.name, DONE)
        (folder.path / "plain.1.json").write_text("{")
        with pytest.raises(SpectraceError, match=r"plain\.1\.json cannot be read.*delete it"):
            folder.done(TURN, COMMAND)


def test_the_server_of_a_killed_sweep_is_ended(tmp_path: Path) -> None:
    """Its process is known by its id and its time of birth; pieces of a recording go too."""
    sleeper = "import signal; signal.pause()"
    with subprocess.Popen([sys.executable, "-c", sleeper], start_new_session=True) as server:
        folder = SweepFolder(tmp_path / "new")
        folder.agree(PLAN)
        note = folder.running(server.pid)
        note.__enter__()  # and the sweep is killed before it is left
        (folder.path / ".spectrace-x").mkdir()
        folder.unfinished(TURN.name).touch()
        folder.close()
        try:
            with closing(SweepFolder(tmp_path / "new")) as again:
                assert again.clean() == (server.pid,)
                assert again.clean() == ()
            assert server.wait(60) != 0
        finally:
            server.kill()
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == ["owner", "sweep.json"]


def test_the_load_of_a_killed_sweep_is_ended_too(tmp_path: Path) -> None:
    """Also where its server has ended by itself."""
    sleeper = [sys.executable, "-c", "import signal; signal.pause()"]
    with (
        subprocess.Popen(sleeper, start_new_session=True) as server,
        subprocess.Popen(sleeper, start_new_session=True) as load,
        closing(SweepFolder(tmp_path / "new")) as folder,
    ):
        try:
            note = folder.running(server.pid)
            note.__enter__()  # and the sweep is killed before it is left
            folder.loaded_by(load.pid)
            server.kill()
            server.wait(60)
            assert folder.clean() == (load.pid,)
            assert load.wait(60) != 0
        finally:
            server.kill()
            load.kill()


def test_another_process_with_that_id_is_left_alone(tmp_path: Path) -> None:
    """Our own process, said to be older than it is."""
    with closing(SweepFolder(tmp_path / "new")) as folder:
        created_s = psutil.Process().create_time() - 100
        (folder.path / "running.json").write_text(
            f'{{"pid": {os.getpid()}, "created_s": {created_s}}}'
        )
        assert folder.clean() == ()


def test_a_sweep_shows_no_secret_of_its_commands_and_servers(tmp_path: Path) -> None:
    """In the options of a setting, a failure and the last lines; nor what moves a cursor."""
    setting = Setting(name="own", arguments=("--hf-token", "s3cret"))
    turn = Turn(setting=setting, round=1)
    with closing(SweepFolder(tmp_path / "new")) as folder:
        log = folder.server_log(turn.name)
        log.write_text("\x1b[31mArgs(api_key='s3cret', port=3)\x07\nhttp://a:s3cret@h/?t=s3cret\n")
        lines = last_lines(log)
        assert lines == ("[31mArgs(api_key='\u2026', port=3)", "http://h/?t=\u2026")
        failed = replace(
            RECORD,
            setting=setting,
            command=setting.command(COMMAND),
            failure="The load x --api-key s3cret ended.",
            last_lines=("HF_TOKEN=s3cret", *lines),
        )
        folder.finish(turn.name, failed)
        found = summed_up(folder, COMMAND, [setting], 1)
    assert found.settings[0].arguments == ("--hf-token", "\u2026")
    assert found.settings[0].failure == "The load x --api-key \u2026 ended."
    assert "s3cret" not in repr(found)


def test_the_command_to_restart_with_tells_no_secret() -> None:
    """And says that something is hidden in it."""
    console = Console(width=200)
    command = command_without_secrets(("x", "--api-key", "s3cret"))
    with console.capture() as capture:
        console.print(render(SweepReport(settings=(), best=None, fastest=None, restart=command)))
    assert "Restart with (\u2026: as you gave it):\n  x --api-key '\u2026'" in capture.get()


def test_a_full_disk_leaves_whole_files_and_says_how_to_go_on(tmp_path: Path) -> None:
    """What was there stays, and nothing lies half beside it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(SweepFolder(tmp_path / "new")) as folder:
        folder.finish(TURN.name, RECORD)
        before = sorted(file.name for file in folder.path.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))  # it stands for the disk
        try:
            with pytest.raises(SpectraceError, match=r"cannot be written: .* goes on from what"):
                folder.finish(TURN.name, DONE)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert sorted(file.name for file in folder.path.iterdir()) == before
        assert (folder.path / f"{TURN.name}.json").read_bytes().endswith(b"}\n")
