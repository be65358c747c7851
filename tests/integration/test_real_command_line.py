"""The commands on a real server: attach, JSON, Ctrl-C, detach from elsewhere, a dying server."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from examples.sglang_cpu.load import LoadLoop, generate
from spectrace.attach import ring_file
from tests.helpers.command import TIMEOUT_S, first_line_with, run, start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Served


def no_ring_left(pids: list[int]) -> bool:
    """Whether no process has a ring file."""
    return not any(
        ring_file.ring_path(pid).exists() for pid in pids if Path(f"/proc/{pid}").exists()
    )


@pytest.fixture
def loaded(served: Served) -> Iterator[Served]:
    """The server with four requests under way at all times."""
    with LoadLoop(served.server.url, concurrency=4):
        yield served


def test_json_gives_one_object_a_second_and_a_last_one(loaded: Served) -> None:
    """For 4 s there are objects, each parses, the last says that it is the last, nothing lost."""
    done = run("attach", "--url", loaded.server.url, "--json", "--duration", "4s")
    assert done.returncode == 0, done.stderr
    reports: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert 3 <= len(reports) <= 6
    assert [report["final"] for report in reports[:-1]] == [False] * (len(reports) - 1)
    last = reports[-1]
    assert last["final"]
    assert last["summary"]["cycles"] > 0
    assert last["session"]["lost_records"] == 0
    assert last["session"]["missing_cycles"] == 0
    assert all(removal["removed"] for removal in last["removals"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_takes_the_tracer_out(loaded: Served, number: signal.Signals) -> None:
    """After Ctrl-C or SIGTERM the command detaches, sums up, and ends with 0."""
    process = start("attach", str(loaded.server.pid))
    first_line_with(process, "held up")
    process.send_signal(number)
    output, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors
    assert "The whole session" in output
    assert no_ring_left(loaded.server.scheduler_pids())


def test_the_ranks_are_listed_and_their_stall_is_printed(loaded: Served) -> None:
    """Before the table stand the ranks with their processes, and what attaching cost each."""
    done = run("attach", str(loaded.server.pid), "--duration", "1s")
    assert done.returncode == 0, done.stderr
    for place, pid in enumerate(loaded.server.scheduler_pids()):
        assert f"TP{place} (process {pid})" in done.stdout
        assert f"TP{place} was held up for" in done.stdout


def test_detach_from_elsewhere_ends_the_session(loaded: Served) -> None:
    """`spectrace detach` takes the probe out of all ranks; the one that traced says so."""
    process = start("attach", str(loaded.server.pid))
    first_line_with(process, "held up")
    done = run("detach", str(loaded.server.pid))
    assert done.returncode == 0, done.stderr
    output, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors
    assert "The whole session" in output
    assert no_ring_left(loaded.server.scheduler_pids())


def test_a_second_attach_reads_along_and_leaves_the_probe_to_the_first(loaded: Served) -> None:
    """It sees the same server, says who controls, and the first goes on undisturbed."""
    process = start("attach", str(loaded.server.pid), "--json")
    first_line_with(process, '"final":false')
    second = run("attach", str(loaded.server.pid), "--json", "--duration", "3s")
    assert second.returncode == 0, second.stderr
    assert f"Process {process.pid} controls how the server is timed" in second.stderr
    last = json.loads(second.stdout.splitlines()[-1])
    assert last["summary"]["cycles"] > 0
    assert (last["session"]["controls"], last["session"]["readers"]) == (False, 2)
    assert last["stall"] == []
    assert all(removal["left_to"] for removal in last["removals"])
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors
    last = json.loads(output.splitlines()[-1])
    assert last["session"]["lost_records"] == 0
    assert all(removal["removed"] for removal in last["removals"])
    assert no_ring_left(loaded.server.scheduler_pids())


def test_timing_modes_are_compared_without_a_device(loaded: Served) -> None:
    """On the CPU device timing does not exist, which is said; off, host and sync are compared.

    No cycle has another mode than its block on any rank, and every function is put back. Two ranks
    share the cores of a small machine: there may be too few cycles then to compare all three.
    """
    # With so many cycles of each mode it ends; on a slow machine that takes long.
    enough = ("--cycles", "20", "--duration", "120s" if loaded.ranks == 1 else "40s")
    done = run("compare-timing", "--url", loaded.server.url, "--yes", "--json", *enough)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["comparison"]
    assert found["device_timing"] == "The server runs on the CPU, which has no timing events."
    assert "warm_up" in found["left_out"]
    assert "other_mode" not in found["left_out"]
    assert no_ring_left(loaded.server.scheduler_pids())
    if loaded.ranks == 1:
        assert found["sentences"][0].startswith("There is no device timing here.")
        assert [one["mode"] for one in found["modes"]] == ["off", "host", "sync"]
        assert found["reference"] == {"mode": "sync", "lane": "host"}


def test_status_lists_the_server_and_who_traces_it(loaded: Served) -> None:
    """`status` names the server, its ranks, and the process that traces."""
    process = start("attach", str(loaded.server.pid))
    first_line_with(process, "held up")
    done = run("status", "--json")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    assert str(loaded.server.pid) in done.stdout
    assert str(process.pid) in done.stdout


def test_doctor_finds_nothing_that_keeps_attach_out(served: Served) -> None:
    """It tells the release, torch, the device and the options of a server that it never touches."""
    done = run("doctor", str(served.server.pid), "--json")
    assert done.returncode == 0, done.stdout
    _, server = json.loads(done.stdout)
    found = {check["name"]: check for check in server["checks"]}
    assert found["SGLang"]["found"].startswith("0.5.23, in the engine table")
    assert found["torch"]["found"].endswith(", CPU build")
    assert (found["device"]["state"], found["device"]["ranks"]) == ("warn", [])
    assert found["speculation"]["found"] == "EAGLE3, steps 5, top-k 1, draft tokens 6"
    assert f"TP {served.ranks}" in found["scheduler"]["found"]
    assert no_ring_left(served.server.scheduler_pids())


def test_a_window_on_kernels_is_refused_without_a_gpu(served: Served) -> None:
    """The command says so before it asks or touches anything."""
    done = run("kernels", str(served.server.pid))
    assert done.returncode == 1
    assert "This server has no GPU, so there are no kernels to look at." in done.stderr
    assert no_ring_left(served.server.scheduler_pids())


def test_killing_the_tracer_leaves_the_server_and_the_next_one_takes_over(loaded: Served) -> None:
    """After SIGKILL requests go on, and the next attach finds the probe and leaves nothing."""
    process = start("attach", str(loaded.server.pid))
    first_line_with(process, "held up")
    process.kill()
    process.communicate(timeout=TIMEOUT_S)
    answers = generate(
        loaded.server.url, requests=4, concurrency=4, max_new_tokens=8, tag=f"orphan-{process.pid}"
    )
    assert len(answers) == 4
    done = run("attach", str(loaded.server.pid), "--json", "--duration", "2s")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["summary"]["cycles"] > 0
    assert no_ring_left(loaded.server.scheduler_pids())
