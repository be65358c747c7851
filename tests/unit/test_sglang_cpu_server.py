"""The server's command line and environment follow from its options."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from examples.sglang_cpu.install_old import overlay
from examples.sglang_cpu.server import (
    OLD_SHIMS,
    OVERLAP_PLUGIN,
    SHIMS,
    CpuServer,
    ServerError,
    ServerOptions,
    arguments,
    cores_of_ranks,
    descendants,
    end_group,
    environment,
    free_port,
    prepare_release,
    processes,
)


def test_only_the_overlap_scheduler_gets_the_plugin() -> None:
    """The plugin and the Triton interpreter are there for the overlap scheduler alone."""
    plain = environment(ServerOptions(scheduler="plain"), {})
    overlap = environment(ServerOptions(scheduler="overlap"), {})
    assert plain["PYTHONPATH"].split(os.pathsep) == [str(SHIMS)]
    assert overlap["PYTHONPATH"].split(os.pathsep) == [str(SHIMS), str(OVERLAP_PLUGIN)]
    assert "TRITON_INTERPRET" not in plain
    assert overlap["TRITON_INTERPRET"] == "1"


def test_an_old_release_stands_before_the_newer_with_stand_ins_of_its_own() -> None:
    """Its folder comes behind the stand-ins; the scheduler decides on the worker."""
    old = environment(ServerOptions(release="0.5.12"), {})
    folders = [str(OLD_SHIMS), str(SHIMS), str(overlay("0.5.12"))]
    assert old["PYTHONPATH"].split(os.pathsep) == folders
    assert (old["TRITON_INTERPRET"], old["SGLANG_ENABLE_SPEC_V2"]) == ("1", "0")
    newer = environment(ServerOptions(release="0.5.12", scheduler="overlap"), {})
    assert newer["SGLANG_ENABLE_SPEC_V2"] == "1"


def test_an_unknown_old_release_is_refused_with_those_that_are_known() -> None:
    """A server of a release that nobody has prepared does not start."""
    with pytest.raises(ServerError, match=r"0\.4\.1: 0\.5\.12, 0\.5\.9 are known"):
        prepare_release("0.4.1")


def test_a_path_of_the_caller_stays_behind_ours() -> None:
    """The caller's PYTHONPATH stays, behind the stand-ins."""
    inherited = {"PYTHONPATH": "/theirs"}
    result = environment(ServerOptions(), inherited)
    assert result["PYTHONPATH"] == f"{SHIMS}{os.pathsep}/theirs"


def test_extra_variables_win() -> None:
    """A variable of extra_env replaces our own."""
    options = ServerOptions(extra_env={"OMP_NUM_THREADS": "2"})
    assert environment(options, {})["OMP_NUM_THREADS"] == "2"


def test_without_speculation_no_draft_is_named() -> None:
    """A server without speculation gets none of the speculative flags."""
    flags = arguments(ServerOptions(speculative=False), 31000, 31001)
    assert not [flag for flag in flags if flag.startswith("--speculative")]


def test_extra_arguments_come_last() -> None:
    """Extra arguments come last, so that they win over ours."""
    flags = arguments(ServerOptions(extra_args=("--enable-metrics",)), 31000, 31001)
    assert flags[-1] == "--enable-metrics"


def test_each_rank_gets_a_core_even_when_there_are_too_few() -> None:
    """With one rank more than cores, the last rank shares the first core."""
    ranks = len(os.sched_getaffinity(0)) + 1
    cores = cores_of_ranks(ranks).split("|")
    assert len(cores) == ranks
    assert cores[0] == cores[-1]


def test_a_free_port_is_another_one_each_time() -> None:
    """A server listens on two of them."""
    assert len({free_port() for _ in range(200)}) == 200


def test_a_free_port_is_below_the_kernels_own_range() -> None:
    """A free port is one of those that the kernel does not hand out by itself."""
    assert 31000 <= free_port() < 32000


def test_a_server_that_was_not_started_says_so() -> None:
    """Stopping a server that was not started is harmless; its pid is an error with advice."""
    server = CpuServer()
    server.stop()
    with pytest.raises(ServerError, match="Call start first"):
        _ = server.pid


def test_ending_a_group_ends_children_that_ignore_the_polite_signal() -> None:
    """Processes that ignore SIGTERM are killed after the grace time, children included."""
    script = "trap '' TERM; sleep 60 & exec sleep 60"  # an ignored signal stays so after exec
    leader = subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True)
    while len(descendants(leader.pid)) != 1:
        time.sleep(0.01)
    end_group(leader, grace_s=0.2)
    assert leader.returncode is not None
    assert not [process for process in processes() if process.group == leader.pid]


def test_a_guarded_command_dies_with_its_parent() -> None:
    """A guarded command ends when its parent is killed."""
    guard = "examples/sglang_cpu/die_with_parent.py"
    parent = (
        "import os, subprocess, sys, time;"
        f"c = [sys.executable, {guard!r}, str(os.getpid()), '/bin/sleep', '60'];"
        "print(subprocess.Popen(c).pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        while not [p for p in processes() if p.pid == child and p.title.startswith("/bin/sleep")]:
            time.sleep(0.01)
        process.kill()
    deadline = time.monotonic() + 60
    while [p for p in processes() if p.pid == child]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
