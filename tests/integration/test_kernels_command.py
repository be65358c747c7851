"""`spectrace kernels` on servers: what it says where there can be no window, and what one shows."""

from __future__ import annotations

import ctypes.util
import sysconfig
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from spectrace.analysis.kernel_classes import KernelClasses
from spectrace.attach import discover
from spectrace.attach.handle import Options
from spectrace.cli import kernels
from spectrace.cli.kernel_report import KernelReport, report_of
from spectrace.cli.progress import LineProgress
from spectrace.cli.stopping import Stop
from spectrace.errors import SpectraceError
from spectrace.store.recording import open_recording
from tests.helpers.command import run
from tests.helpers.gpu_site import GpuSite
from tests.helpers.shared_files import left_of
from tests.helpers.simulated_server import ROOT, SimulatedServer

pytestmark = pytest.mark.beside_others

PACKAGE = ROOT / ".run/cupti"
OURS = Path(sysconfig.get_path("purelib"))  # what the package itself needs
SITE = ROOT / "tests/helpers/cupti_site"
CYCLES = 40


def look(server: SimulatedServer, cycles: int = CYCLES) -> KernelReport:
    """The window, without what the command can tell from outside."""
    return kernels.look(
        discover.find_by_pid(server.pid),
        Options(),
        cycles,
        KernelClasses(),
        LineProgress(Console(stderr=True)),
        Stop(),
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SimulatedServer]:
    """Two ranks without any package."""
    with SimulatedServer(tmp_path, "TP0", "TP1") as it:
        yield it


def test_a_server_without_a_gpu_is_not_touched(server: SimulatedServer) -> None:
    """The command says why and what to do, before it asks and attaches."""
    done = run("kernels", str(server.pid))
    assert done.returncode == 1
    assert "This server has no GPU, so there are no kernels to look at." in done.stderr
    assert not done.stdout
    assert left_of(server.pids.values()) == []
    assert server.untouched()


def test_without_the_package_the_server_goes_on_and_nothing_is_left(
    server: SimulatedServer,
) -> None:
    """The probe finds it missing, in the server itself."""
    with pytest.raises(SpectraceError, match=r"TP0: .* lacks the package cupti-python.*pip"):
        look(server)
    assert left_of(server.pids.values()) == []
    assert server.untouched()


@pytest.mark.skipif(
    not (PACKAGE / ".ready").exists(), reason="cupti-python is not there: make cupti-setup"
)
@pytest.mark.skipif(
    ctypes.util.find_library("cuda") is not None, reason="this machine has a GPU's driver"
)
def test_the_package_itself_says_that_there_is_no_driver(tmp_path: Path) -> None:
    """Loaded into a traced server, it refuses; the server decodes on, with its own functions."""
    with SimulatedServer(tmp_path, "TP0", packages=[PACKAGE, OURS]) as server:
        with pytest.raises(SpectraceError, match=r"TP0: CUPTI finds no driver.*libcuda\.so\.1"):
            look(server)
        assert left_of(server.pids.values()) == []
        assert server.untouched()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[KernelReport, bool, list[Path]]:
    """A window on two ranks whose CUPTI makes records up; untouched behind it; what was left."""
    folder = tmp_path_factory.mktemp("server")
    with SimulatedServer(folder, "TP0", "TP1", packages=[SITE]) as server:
        report = look(server)
        return report, server.untouched(), left_of(server.pids.values())


def test_all_ranks_are_seen_over_the_same_cycles(
    seen: tuple[KernelReport, bool, list[Path]],
) -> None:
    """Of 40 cycles a quarter shows graphs whole, the others are seen kernel by kernel."""
    report, untouched, left = seen
    assert untouched
    assert left == []
    assert report.cycles_seen == dict.fromkeys(("TP0", "TP1"), CYCLES * 3 // 4)
    assert all(loss.no_room == loss.torn == loss.unnamed == 0 for loss in report.losses)
    assert all(loss.records and not loss.cut_short for loss in report.losses)


def test_names_are_read_out_of_the_server_and_decide_on_the_class(
    seen: tuple[KernelReport, bool, list[Path]],
) -> None:
    """Every kernel is an all-reduce: all of the phases' time is communication."""
    report, _, _ = seen
    assert {time.kernel_class for time in report.kernels} == {"communication"}
    assert report.communication == {"TP0": 1.0, "TP1": 1.0}


def test_kernels_of_a_phase_are_as_many_as_its_launches(
    seen: tuple[KernelReport, bool, list[Path]],
) -> None:
    """One kernel of 20 µs each, and no graph is replayed in the part behind."""
    report, _, _ = seen
    assert report.phases
    for phase in report.phases:
        assert phase.kernels == pytest.approx(phase.launches)
        assert phase.busy_ms == pytest.approx(0.02 * phase.kernels)
        assert phase.replays == 0
        assert phase.device_ms == pytest.approx(phase.busy_ms + phase.gap_ms)


def test_replays_of_the_part_before_are_timed(
    seen: tuple[KernelReport, bool, list[Path]],
) -> None:
    """Each takes 20 µs, in whichever phase it was launched."""
    report, _, _ = seen
    timed = [phase for phase in report.phases if phase.replay_ms is not None]
    assert timed
    assert all(phase.replay_ms == pytest.approx(0.02) for phase in timed)


def test_the_cost_of_the_window_is_measured(seen: tuple[KernelReport, bool, list[Path]]) -> None:
    """Cycles before, in both parts, and after; and what the scheduler stood still for."""
    report, _, _ = seen
    for cost in report.costs:
        assert None not in {cost.before_ms, cost.graphs_ms, cost.kernels_ms, cost.after_ms}
        assert min(cost.loading_ms, cost.switching_ms, cost.flushing_ms, cost.taking_ms) > 0


def test_the_command_keeps_a_recording_with_the_kernels_and_the_cycles_around(
    tmp_path: Path,
) -> None:
    """What it shows is in the file, and cycles before and behind the window have no kernels."""
    file = tmp_path / "look.spectrace"
    site = GpuSite(tmp_path)
    with SimulatedServer(tmp_path, "TP0", "TP1", packages=[site.path]) as server:
        asked = ("kernels", str(server.pid), "--yes", "--cycles", str(CYCLES), "--json")
        done = run(*asked, "-o", str(file))
        assert done.returncode == 0, done.stderr
        assert f"are in {file}" in " ".join(done.stderr.split())
        again = run(*asked, "-o", str(file))
        assert (again.returncode, f"{file} exists" in again.stderr) == (1, True)
        assert "For 40 cycles" not in again.stderr  # before anybody agrees to anything
        assert server.untouched()
        assert left_of(server.pids.values()) == []
    report = msgspec.json.decode(done.stdout, type=KernelReport)
    with closing(open_recording(file)) as recording:
        [look] = recording.looks(report.run_id)
        assert report_of(recording.runs()[0], look) == report
        numbers = [one.number for one in recording.cycles(report.run_id, limit=10_000)]
        seen = {number: recording.kernels(report.run_id, "", number) for number in numbers}
    inside = [number for number, kernels in seen.items() if kernels]
    assert len(inside) <= max(report.cycles_seen.values())
    assert min(numbers) < min(inside) <= max(inside) < max(numbers)
    assert {kernels.rank for number in inside for kernels in seen[number]} == {"TP0", "TP1"}
    counted = sum(len(kernels.start_ns) for number in inside for kernels in seen[number])
    assert counted == sum(time.kernels for time in report.kernels if time.phase)


def test_of_a_window_that_is_refused_no_file_is_made(tmp_path: Path) -> None:
    """The command says why, and leaves nothing where the file was to be."""
    folder = tmp_path / "kept"
    folder.mkdir()
    site = GpuSite(tmp_path)
    site.refuses("39")
    with SimulatedServer(tmp_path, "TP0", packages=[site.path]) as server:
        done = run("kernels", str(server.pid), "--yes", "-o", str(folder / "look"))
        assert (done.returncode, "Another tool has CUPTI" in done.stderr) == (1, True)
        assert server.untouched()
    assert list(folder.iterdir()) == []
