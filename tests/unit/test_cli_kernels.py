"""`spectrace kernels` before and behind the window: consent, refusals, and what it prints."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from spectrace.analysis.kernel_classes import KernelClasses
from spectrace.attach import examine
from spectrace.attach.facts import Process
from spectrace.attach.kernel_obstacles import Obstacle, refusal
from spectrace.attach.kernel_windows import graph_cycles, names_at
from spectrace.cli import kernels
from spectrace.cli.kernel_report import KernelReport, report_of
from spectrace.cli.kernel_words import loss_sentences, rendered
from spectrace.cli.main import app
from spectrace.errors import SpectraceError
from spectrace.importing.look import bounds_of, look_of, with_names
from spectrace.kernels import WindowLoss, Written
from spectrace.model import Cycle, Rank, Run
from spectrace.probe.layout_window import Place
from tests.helpers.anything import any_run
from tests.helpers.cupti_records import Buffer, window_file
from tests.unit.test_kernel_obstacles import OPEN
from tests.unit.test_kernel_window import (
    BASE_NS,
    BOUNDS,
    NAMES,
    SHIFT_NS,
    THREAD,
    cycle,
    three_cycles,
)

pytestmark = pytest.mark.beside_others

RUNNER = CliRunner()
UPTIME_NS = 5_000_000_000_000
RANK = Rank(name="TP0", pid=71)


def words_of(head: int, **over: int) -> dict[int, int]:
    """The header of a window over the cycles 0 to 2 of `test_kernel_window`."""
    words = {value: 0 for name, value in vars(Place).items() if name.isupper()}
    real_ns = BOUNDS.begin_ns - UPTIME_NS
    words |= {
        Place.HEAD: head,
        Place.RECORDS: 17,
        Place.THREAD: THREAD,
        Place.BEGAN_CYCLE: 0,
        Place.SPLIT_CYCLE: 1,
        Place.ENDED_CYCLE: 3,
        Place.BEGAN_NS: UPTIME_NS,
        Place.SPLIT_NS: BOUNDS.split_ns - real_ns,
        Place.ENDED_NS: BOUNDS.end_ns - real_ns,
        Place.BEGAN_REAL_NS: BOUNDS.begin_ns,
        Place.ENDED_REAL_NS: BOUNDS.end_ns,
        Place.LOADING_NS: 120_000_000,
        Place.SWITCHING_NS: 3_000_000,
        Place.FLUSHING_NS: 2_000_000,
        Place.TAKING_NS: 4_000_000,
    }
    return words | {getattr(Place, name): value for name, value in over.items()}


def server() -> Run:
    """Whose CLOCK_MONOTONIC was UPTIME_NS when the first cycle began."""
    return any_run("TP0", anchor_monotonic_ns=UPTIME_NS, anchor_unix_ns=BASE_NS)


def written(**over: int) -> Written:
    """The window of `test_kernel_window`, as its file has it."""
    content, head = window_file([Buffer(*three_cycles()).piece()])
    return Written(RANK, words_of(head, **over), "", content, NAMES)


def report(**over: int) -> KernelReport:
    """Of five cycles, of which the first three are the window's."""
    cycles = [cycle(number) for number in range(5)]
    return report_on(cycles, written(**over))


def report_on(cycles: list[Cycle], one: Written) -> KernelReport:
    """Of a window over three of these cycles."""
    return report_of(server(), look_of(server(), cycles, [one], KernelClasses().of, 3).look)


def printed(one: KernelReport) -> str:
    """As on a wide terminal."""
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        for part in rendered(one):
            console.print(part, highlight=False)
    return " ".join(capture.get().split())


def test_cuptis_clock_becomes_that_of_the_run() -> None:
    """By the pair of clocks that was read when the window began."""
    words = words_of(0)
    assert bounds_of(server(), words) == BOUNDS
    assert BOUNDS.shift_ns == SHIFT_NS


def test_a_window_that_ended_among_graphs_has_no_second_part() -> None:
    """Everything was launched before the split, which never came."""
    bounds = bounds_of(server(), words_of(0, SPLIT_NS=0))
    assert bounds.split_ns == bounds.end_ns


def test_the_report_holds_phases_classes_and_the_share_of_communication() -> None:
    """Of 4.1 ms in two cycles 0.5 are an all-reduce."""
    found = report()
    assert found.cycles_seen == {"TP0": 2}
    assert [phase.phase for phase in found.phases] == ["verify.forward", "draft"]
    assert sum(time.time_ms for time in found.kernels) == pytest.approx(4.1)
    assert found.communication["TP0"] == pytest.approx(0.5 / 4.1)


def test_cycles_of_each_part_are_held_against_each_other() -> None:
    """All of these take 20 ms, and none lies before the window."""
    [cost] = report().costs
    assert (cost.before_ms, cost.graphs_ms, cost.kernels_ms, cost.after_ms) == (None, 20, 20, 20)
    assert cost.loading_ms == pytest.approx(120.0)


def test_it_is_printed_with_its_cost() -> None:
    """The scheduler stood still for 120 + 3 + 2 ms."""
    text = printed(report())
    assert "TP0, per cycle, over 2 cycles" in text
    assert "1.85 ms" in text  # a replay, and as much busy
    assert "Communication is 12 % of the time" in text
    assert "held TP0 up for 125.0 ms (120.0 ms of that to load CUPTI)" in text
    assert "20.0 ms while kernels were" in text


def test_without_phases_it_says_what_to_do() -> None:
    """A server that is not timed has cycles without phases: its kernels are outside of them."""
    bare = [
        msgspec.structs.replace(one, ranks=(msgspec.structs.replace(one.ranks[0], phases=()),))
        for one in map(cycle, range(3))
    ]
    found = report_on(bare, written())
    text = printed(found)
    assert "TP0: in 2 cycles no phase was seen to launch a kernel." in text
    assert "outside of phases" in text
    assert "Communication" not in text


def test_json_is_the_same_report() -> None:
    """Written and read it is what it was."""
    found = report()
    assert msgspec.json.decode(msgspec.json.encode(found), type=KernelReport) == found


def test_nothing_is_said_of_losses_where_there_are_none() -> None:
    """The usual case."""
    [loss] = report().losses
    assert list(loss_sentences(loss)) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"no_room": 5}, "5 of 100 records found no room: ask for fewer --cycles"),
        ({"torn": 1}, "1 buffers could not be read"),
        ({"unfinished": 2}, "had not ended"),
        ({"unknown": 3}, "another tool"),
        ({"unnamed": 4}, "names of 4 kernels could not be read"),
        ({"cut_short": True}, "closed before its last cycle"),
        ({"clock_stepped": True}, "clock was set"),
    ],
)
def test_every_loss_has_a_sentence(changes: dict[str, int], words: str) -> None:
    """With the rank in front."""
    [sentence] = loss_sentences(WindowLoss(rank="TP1", records=100, **changes))  # type: ignore[arg-type]  # of either type
    assert sentence.startswith("TP1: ")
    assert words in sentence


def test_what_the_probe_counted_and_what_is_broken_is_in_the_report() -> None:
    """The clock was set by 2 ms in the window, and it was cut short."""
    found = report(LOST=9, BROKEN=2, CUT_SHORT=1, ENDED_REAL_NS=BOUNDS.end_ns + 2_000_000)
    [loss] = found.losses
    assert (loss.no_room, loss.torn, loss.cut_short, loss.clock_stepped) == (9, 2, True, True)


def test_names_are_read_out_of_the_process() -> None:
    """Also one that reaches over a page, and none where there is no memory."""
    long = b"k" * 9_000
    first, second = ctypes.create_string_buffer(b"gemm"), ctypes.create_string_buffer(long)
    places = [ctypes.addressof(first), ctypes.addressof(second), 8]
    found = names_at(os.getpid(), places)
    assert found[places[0]] == "gemm"
    assert found[places[1]].startswith("k" * 4096)
    assert 8 not in found


def test_kernels_whose_names_cannot_be_read_are_counted() -> None:
    """The process of the window has ended since."""
    gone = with_names(written()._replace(rank=Rank(name="TP0", pid=4_194_305)), names_at)
    cycles = [cycle(number) for number in range(3)]
    found = report_on(cycles, gone)
    assert found.losses[0].unnamed == len(NAMES)
    assert {time.kernel_class for time in found.kernels} == {"other"}


@pytest.mark.parametrize(("cycles", "graphs"), [(1, 0), (2, 1), (3, 1), (20, 5), (100, 25)])
def test_a_quarter_of_the_cycles_shows_graphs_whole(cycles: int, graphs: int) -> None:
    """At least one; of a single cycle the kernels are of more use."""
    assert graph_cycles(cycles) == graphs


@pytest.fixture
def well(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Run]]:
    """A server in which nothing is in the way; gives those that were looked at."""
    looked: list[Run] = []

    def process(_pid: int, **_: object) -> Process:
        return OPEN

    def look(run: Run, *_: object) -> KernelReport:
        looked.append(run)
        return report()

    monkeypatch.setattr(examine, "process", process)
    monkeypatch.setattr(kernels, "find", lambda _pid, _url: server())
    monkeypatch.setattr(kernels, "look", look)
    return lambda: looked


def test_without_an_answer_nothing_is_done(well: Callable[[], list[Run]]) -> None:
    """What stays behind is said, and --yes is asked for where nobody can answer."""
    result = RUNNER.invoke(app, ["kernels", "70"])
    assert isinstance(result.exception, SpectraceError)
    assert result.exception.exit_code == 2
    assert "--yes" in str(result.exception)
    told = " ".join(result.output.split())
    assert "CUPTI's library and its worker thread" in told
    assert well() == []


def test_with_yes_it_looks(well: Callable[[], list[Run]]) -> None:
    """And says before what stays behind all the same."""
    result = RUNNER.invoke(app, ["kernels", "70", "--yes"])
    assert result.exit_code == 0
    assert "What stays in the server until it ends" in " ".join(result.output.split())
    assert "Communication is" in result.output
    assert well() == [server()]


def test_json_is_one_object_alone(well: Callable[[], list[Run]]) -> None:
    """What is said beside goes to the other stream."""
    result = RUNNER.invoke(app, ["kernels", "70", "--yes", "--json"])
    assert msgspec.json.decode(result.stdout.encode(), type=KernelReport) == report()
    assert well()


@pytest.mark.parametrize("number", ["0", "65536", "some"])
def test_cycles_that_no_window_can_have_are_refused(number: str) -> None:
    """Before anything is looked for."""
    assert RUNNER.invoke(app, ["kernels", "1", "--cycles", number]).exit_code == 2


def test_a_refusal_names_the_rank_and_what_cupti_said() -> None:
    """The sentence, CUPTI's words, what to do: in this order."""
    text = str(refusal(Obstacle.NOT_PERMITTED, "TP3", "ERROR (35)"))
    assert text.startswith("TP3: The driver lets only administrators")
    assert text.index("(ERROR (35))") < text.index("NVreg_RestrictProfilingToAdminUsers=0")
