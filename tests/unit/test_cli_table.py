"""The table says what the summary holds, in any width."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from spectrace.analysis.summary import CycleTimes, Percentiles, PhaseSummary, Summary, summarize
from spectrace.attach.pulse import Activity
from spectrace.attach.session import End, RankState, SessionFacts, Stall
from spectrace.cli import figures, table
from spectrace.cli.figures import removal_lines
from spectrace.cli.report import Removal, Report
from spectrace.model import PhaseName, TimingMode


def times_of(p50_ms: float) -> Percentiles:
    """Percentiles 1 and 2 ms above the median."""
    return Percentiles(p50_ms=p50_ms, p95_ms=p50_ms + 1, p99_ms=p50_ms + 2)


def phase(name: PhaseName, p50_ms: float, share: float, lag: int = 0) -> PhaseSummary:
    """One phase."""
    return PhaseSummary(name=name, time=times_of(p50_ms), share=share, cycles=10, max_lag=lag)


OVERLAPPED = (
    phase(PhaseName.RESOLVE, 0.12, 0.01),
    phase(PhaseName.DRAFT, 3.79, 0.38),
    phase(PhaseName.VERIFY, 34.56, 0.37),
    phase(PhaseName.VERIFY_PREPARE, 0.13, 0.014),
    phase(PhaseName.VERIFY_FORWARD, 3.02, 0.32),
    phase(PhaseName.VERIFY_SAMPLE, 0.18, 0.019),
    phase(PhaseName.VERIFY_COMMIT, 0.14, 0.015),
    phase(PhaseName.DRAFT_EXTEND, 1.19, 0.13),
    phase(PhaseName.WAIT, 0.004, 0.0001, lag=1),
    phase(PhaseName.RESULT, 0.11, 0.022, lag=1),
    phase(PhaseName.SCHEDULE, 0.46, 0.061),
)
PHASES = (
    phase(PhaseName.DRAFT, 2.18, 0.069),
    phase(PhaseName.VERIFY, 28.44, 0.896),
    phase(PhaseName.VERIFY_FORWARD, 27.0, 0.85),
    phase(PhaseName.DRAFT_EXTEND, 0.5, 0.016),
    phase(PhaseName.WAIT, 0.004, 0.0001, lag=1),
)


def summary_of(phases: tuple[PhaseSummary, ...] = PHASES) -> Summary:
    """Ten speculative cycles, after the founding story."""
    return msgspec.structs.replace(
        summarize([], 10.0),
        cycles=10,
        cycles_per_s=1.0,
        tokens_per_s=71.3,
        speculative=CycleTimes(cycles=10, incomplete=0, time=times_of(29.9), phases=phases),
        verifies=10,
        accept_length=2.1,
        server_accept_length=2.2,
        batch_size_median=1.0,
        steps_seen=(5,),
        topk_seen=(1,),
        draft_tokens_seen=(6,),
        probe_median_us=23.0,
        probe_share=0.0008,
        modes=(TimingMode.HOST,),
    )


def rank(name: str, state: str = "tracing") -> RankState:
    """A rank that lives."""
    return RankState(name=name, pid=7, state=state, alive=True, cycles=10, lost_records=0)


FACTS = SessionFacts(
    engine="sglang 0.5.23",
    algorithm="EAGLE3",
    worker="EAGLEWorkerV2",
    device="cuda",
    overlap=True,
    unhooked=(),
    ranks=(rank("TP0"), rank("TP1")),
    lost_records=0,
    missing_cycles=0,
    errors=(),
)


def report_of(summary: Summary, facts: SessionFacts = FACTS, *, final: bool = False) -> Report:
    """A report of that summary."""
    return Report(
        final=final,
        unix_ns=1,
        run_id="r",
        server_pid=7,
        session=facts,
        stall=(),
        summary=summary,
    )


def drawn(report: Report, width: int = 100) -> list[str]:
    """The lines on a terminal of that width."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(table.render(report), highlight=False)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def overlapped() -> Report:
    """A report with every row that an overlap server can have, but for what went wrong."""
    plain = CycleTimes(cycles=5, incomplete=0, time=times_of(11.1), phases=())
    summary = msgspec.structs.replace(
        summary_of(OVERLAPPED), decode=plain, cycles_per_s=116.0, overshoot_rows=12
    )
    return report_of(summary)


def fitted(report: Report, width: int, height: int) -> list[str]:
    """The lines that are laid out for a terminal of that size."""
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    console.print(table.fit(report, console, height - 1), highlight=False)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def cells(lines: list[str], label: str) -> list[str]:
    """The words of the line that begins with a label."""
    (line,) = [line for line in lines if line.startswith(label)]
    return line.removeprefix(label).split()


def test_the_headline_names_the_server() -> None:
    """Engine, algorithm and worker, scheduler, ranks and timing."""
    assert drawn(report_of(summary_of()))[0] == (
        "sglang 0.5.23 · EAGLE3 (EAGLEWorkerV2) · overlap scheduler · ranks 2/2 · host timing"
    )


def test_a_rank_that_is_not_traced_is_not_counted() -> None:
    """One of two is said."""
    facts = msgspec.structs.replace(FACTS, ranks=(rank("TP0"), rank("TP1", "failed")))
    assert "ranks 1/2" in figures.headline(report_of(summary_of(), facts))


def test_at_the_end_the_ranks_are_counted_that_were_traced() -> None:
    """A rank that was given back was traced, one whose probe failed was not to the end."""
    ranks = (rank("TP0", "detached"), rank("TP1", "failed"))
    facts = msgspec.structs.replace(FACTS, ranks=ranks)
    assert "ranks 1/2" in figures.headline(report_of(summary_of(), facts, final=True))


def test_a_rank_whose_process_has_ended_is_not_counted() -> None:
    """Whatever its probe did last."""
    dead = msgspec.structs.replace(rank("TP1"), alive=False)
    facts = msgspec.structs.replace(FACTS, ranks=(rank("TP0"), dead))
    assert "ranks 1/2" in figures.headline(report_of(summary_of(), facts, final=True))


def test_a_server_without_speculation_is_named_so() -> None:
    """SGLang calls it NONE."""
    facts = msgspec.structs.replace(FACTS, algorithm="NONE", worker="TpModelWorker")
    assert "no speculation (TpModelWorker)" in figures.headline(report_of(summary_of(), facts))


def test_sync_timing_is_named_as_slowing() -> None:
    """Whoever reads its figures reads that."""
    summary = msgspec.structs.replace(summary_of(), modes=(TimingMode.SYNC,))
    assert "sync timing, which slows the server" in figures.headline(report_of(summary))


def test_each_phase_has_its_line() -> None:
    """p50, p95, p99 in ms and the share in %, parts indented under their parent."""
    lines = drawn(report_of(summary_of()))
    assert cells(lines, "cycle ") == ["29.9", "30.9", "31.9"]
    assert cells(lines, "draft ") == ["2.18", "3.18", "4.18", "6.9"]
    assert cells(lines, "verify ") == ["28.4", "29.4", "30.4", "90"]
    assert cells(lines, "  forward ") == ["27.0", "28.0", "29.0", "85"]


def on_device() -> Report:
    """A report of cycles that the device was timed in, too."""
    summary = summary_of()
    assert summary.speculative is not None
    device = (phase(PhaseName.DRAFT, 3.5, 0.11), phase(PhaseName.VERIFY, 26.1, 0.87))
    times = msgspec.structs.replace(summary.speculative, device_cycles=10, device=device)
    return report_of(msgspec.structs.replace(summary, speculative=times))


def test_the_device_has_lines_of_its_own() -> None:
    """Below the host's, under a heading; without a device lane there is none."""
    lines = drawn(on_device())
    place = next(at for at, line in enumerate(lines) if line.split()[:1] == ["device"])
    assert cells(lines[place:], "draft ") == ["3.50", "4.50", "5.50", "11"]
    assert cells(lines[place:], "verify ") == ["26.1", "27.1", "28.1", "87"]
    assert cells(lines[:place], "draft ") == ["2.18", "3.18", "4.18", "6.9"]
    assert not any(line.startswith("device") for line in drawn(report_of(summary_of())))


def test_the_device_gives_way_before_the_hosts_phases_do() -> None:
    """In a terminal of eleven lines there is room for whole cycles and the host's phases alone."""
    lines = fitted(on_device(), 100, 11)
    assert any(line.startswith("draft_extend ") for line in lines)
    assert not any(line.startswith("device") for line in lines)


def test_a_phase_of_the_previous_batch_is_marked() -> None:
    """The mark is explained below the phases, and absent where there is no lag."""
    lines = drawn(report_of(summary_of()))
    assert cells(lines, "wait *") == ["<", "0.01", "1.00", "2.00", "<", "0.1"]
    assert "* of the previous batch" in lines
    assert not any("*" in line for line in drawn(report_of(summary_of(PHASES[:4]))))


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_it_fits_into_any_terminal(width: int) -> None:
    """No line is too long, no phase is cut, and every line of the table stays one line."""
    lines = drawn(report_of(summary_of()), width)
    assert all(len(line) <= width for line in lines)
    assert cells(lines, "draft_extend ") == ["0.50", "1.50", "2.50", "1.6"]
    assert cells(lines, "wait *") == ["<", "0.01", "1.00", "2.00", "<", "0.1"]


FIGURES = (
    "cycles/s       116",
    "tokens/s       71",
    "accept length  2.10",
    "as in SGLang   2.20",
    "speculation    steps 5",
    "batch size     1",
    "overshoot      12",
    "lost           0",
    "tracing cost   23 µs",
)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 24), (120, 40), (200, 50)])
def test_a_usual_terminal_shows_everything(width: int, height: int) -> None:
    """All phases with their parts, all figures with their definitions, nothing cut."""
    lines = fitted(overlapped(), width, height)
    assert len(lines) < height
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert all(figure in text for figure in FIGURES)
    assert "2.10 (correct drafts" in text
    assert "2.20 output tokens /" in text
    assert "of the previous batch" in text
    phases = [line.split("  ")[0] if line[:2] != "  " else line.split()[0] for line in lines]
    rows = [
        *("resolve", "draft", "verify", "prepare", "forward", "sample", "commit", "draft_extend"),
        *("wait", "result", "schedule", "plain decode"),
    ]
    found = [row for phase in phases for row in rows if phase.startswith(f"{row} ") or phase == row]
    assert found == rows
    assert "34.6 35.6 36.6    37" in text
    assert "ranks 2/2" in text


@pytest.mark.parametrize("height", [30, 32])
def test_a_narrow_terminal_does_without_the_parts_of_verify(height: int) -> None:
    """Phases and figures stand, below each other."""
    lines = fitted(overlapped(), 40, height)
    assert len(lines) < height
    text = "\n".join(lines)
    assert all(figure in text for figure in FIGURES)
    assert not any(line.startswith("  prepare") for line in lines)
    assert any(line.startswith("schedule ") for line in lines)
    assert "2.20 output tokens /" in text


def test_a_lower_one_folds_the_definitions() -> None:
    """The two accept lengths then share a row."""
    lines = fitted(overlapped(), 60, 23)
    assert len(lines) < 23
    assert "accept length  2.10, as in SGLang 2.20" in lines
    assert any(line.startswith("schedule ") for line in lines)


def test_where_there_is_hardly_any_room_the_figures_come_first() -> None:
    """Of the times only those of the whole cycle are left."""
    lines = fitted(overlapped(), 60, 16)
    assert lines[2].startswith("cycles/s")
    assert any(line.startswith("cycle ") for line in lines)
    assert not any(line.startswith("draft ") for line in lines)


def test_both_accept_lengths_stand_with_their_definitions() -> None:
    """The words say what is divided by what."""
    rows = figures.figures(report_of(summary_of()))
    assert ("accept length", "2.10 (correct drafts + verifies) / verifies") in rows
    assert ("as in SGLang", "2.20 output tokens / verifies") in rows
    assert ("speculation", "steps 5, top-k 1, draft tokens 6") in rows


def test_the_other_figures() -> None:
    """Rates, batch size, losses and what tracing costs."""
    rows = dict(figures.figures(report_of(summary_of())))
    assert rows["cycles/s"] == "1.0"
    assert rows["tokens/s"] == "71"
    assert rows["batch size"] == "1 (median)"
    assert rows["lost"] == "0"
    assert rows["tracing cost"] == "23 µs a cycle, 0.1 % of its time"


@pytest.mark.parametrize(
    ("records", "cycles", "exported", "said"),
    [
        (1200, 3, None, "1,200 records, 3 cycles not seen on every rank"),
        (0, 3, 0, "3 cycles not seen on every rank"),
        (0, 0, 12, "12 cycles not exported"),
        (0, 0, 0, "0"),
    ],
)
def test_losses_are_told_apart(records: int, cycles: int, exported: int | None, said: str) -> None:
    """Lost in a ring, not reported by every rank, not delivered by an exporter."""
    facts = msgspec.structs.replace(FACTS, lost_records=records, missing_cycles=cycles)
    report = msgspec.structs.replace(report_of(summary_of(), facts), export_lost=exported)
    assert dict(figures.figures(report))["lost"] == said


def test_functions_that_were_not_found_are_named_as_they_are() -> None:
    """A name in square brackets is no markup."""
    facts = msgspec.structs.replace(FACTS, unhooked=("Worker.[draft]",), errors=("TP0: [x] y",))
    lines = drawn(report_of(summary_of(), facts))
    assert cells(lines, "not seen") == ["Worker.[draft]"]
    assert "TP0: [x] y" in lines


def test_without_cycles_it_is_said_what_the_schedulers_do() -> None:
    """Idle, or one that stands still, where that is known; and there is no table of zeros."""
    nothing = "Attached to 2 of 2 ranks. No cycle has come in the last 10 s"
    armed = (rank("TP0", "armed"), rank("TP1", "armed"))
    idle = tuple(msgspec.structs.replace(one, activity=Activity.IDLE) for one in armed)
    still = msgspec.structs.replace(armed[1], activity=Activity.STILL, quiet_s=7.4)
    for ranks, said in (
        (armed, f"{nothing}."),
        (idle, f"{nothing}: the server is idle."),
        (
            (idle[0], still),
            (
                f"{nothing}. The scheduler of TP1 (process {still.pid}) has not come round for "
                "7 s: it is paused or blocked, or within one long cycle."
            ),
        ),
    ):
        report = report_of(summarize([], 10.0), msgspec.structs.replace(FACTS, ranks=ranks))
        assert figures.nothing_seen(report) == said
        lines = drawn(report)
        assert not any(line.startswith(("host clock", "tracing cost")) for line in lines)
    assert "No cycle was seen." in drawn(report_of(summarize([], 10.0), FACTS, final=True))


def test_who_only_reads_is_told_who_controls() -> None:
    """In the line of the server; a number of another container would say nothing."""
    reading = msgspec.structs.replace(FACTS, controls=False, controller_pid=41)
    assert "reading; process 41 controls" in figures.headline(report_of(summary_of(), reading))
    elsewhere = msgspec.structs.replace(reading, controller_pid=None)
    headline = figures.headline(report_of(summary_of(), elsewhere))
    assert "reading; a spectrace in another container controls" in headline
    assert "controls" not in figures.headline(report_of(summary_of(), FACTS))


@pytest.mark.parametrize(
    ("dead", "said"),
    [
        ((), "The server has ended."),
        ((0, 1), "The server has ended."),
        ((1,), "TP1 (process {pid}) of the server has ended."),
    ],
)
def test_a_rank_that_ended_alone_is_named(dead: tuple[int, ...], said: str) -> None:
    """And only the others are said to be free of the probe."""
    both = (rank("TP0"), rank("TP1"))
    ranks = tuple(
        msgspec.structs.replace(one, alive=place not in dead) for place, one in enumerate(both)
    )
    removals = tuple(Removal(rank=one.name, removed=True, foreign=(), reason="") for one in ranks)
    report = report_of(summary_of(), msgspec.structs.replace(FACTS, ranks=ranks), final=True)
    report = msgspec.structs.replace(report, end=End.SERVER_DIED, removals=removals)
    line = figures.death_line(report)
    assert line.startswith(said.format(pid=both[1].pid))
    living = [removal.rank for removal in figures.of_the_living(removals, ranks)]
    assert living == [one.name for one in ranks if one.alive]


def test_plain_decode_stands_beside_speculation() -> None:
    """It is the baseline; alone it takes the first line."""
    plain = CycleTimes(
        cycles=5, incomplete=0, time=times_of(11.1), phases=(phase(PhaseName.FORWARD, 10.0, 0.9),)
    )
    both = msgspec.structs.replace(summary_of(), decode=plain)
    assert cells(drawn(report_of(both)), "plain decode") == ["11.1", "12.1", "13.1"]
    alone = msgspec.structs.replace(both, speculative=None, verifies=0, accept_length=None)
    lines = drawn(report_of(alone))
    assert cells(lines, "plain decode") == ["11.1", "12.1", "13.1"]
    assert cells(lines, "forward") == ["10.0", "11.0", "12.0", "90"]
    assert not any(line.startswith(("cycle ", "accept")) for line in lines)


def test_one_line_for_a_log() -> None:
    """The medians of the phases, without their parts."""
    line = figures.one_line(report_of(summary_of(PHASES[:3])))
    assert line == (
        "1.0 cycles/s, 71 tokens/s, cycle 29.9 ms, draft 2.18 ms, verify 28.4 ms, "
        "accept length 2.10, lost 0, tracing 23 µs a cycle, 0.1 % of its time"
    )


def test_the_stall_of_each_rank_has_its_parts() -> None:
    """Stop, loading and installing add up to the total; what is to come, or never came, is said."""
    stall = Stall(
        rank="TP0", stop_ms=0.3, loading_ms=1.2, installing_ms=0.05, total_ms=1.55, installed=True
    )
    waiting = msgspec.structs.replace(stall, rank="TP1", installed=False)
    assert figures.stall_lines((stall, waiting)) == [
        "TP0 was held up for 1.55 ms: stop 0.30 ms, loading 1.20 ms, installing 50 µs.",
        (
            "TP1 was held up for 1.55 ms: stop 0.30 ms, loading 1.20 ms, installing 50 µs so far; "
            "the worker is hooked at its next cycle."
        ),
    ]
    assert figures.stall_lines((waiting,), over=True) == [
        (
            "TP1 was held up for 1.55 ms: stop 0.30 ms, loading 1.20 ms, installing 50 µs; "
            "its worker was never hooked."
        )
    ]


def test_the_way_in_is_said_and_why_others_were_closed() -> None:
    """By the plugin nothing stands; of a way that was tried in vain its reason comes first."""
    stall = Stall(
        rank="TP0",
        stop_ms=0.0,
        loading_ms=0.1,
        installing_ms=0.2,
        total_ms=0.3,
        installed=True,
        way="ptrace",
        closed=("It was refused.",),
    )
    assert figures.stall_lines((stall,)) == [
        "TP0: It was refused.",
        "TP0 was held up for 0.30 ms by ptrace: stop 0 µs, loading 0.10 ms, installing 0.20 ms.",
    ]


def test_what_was_taken_out_is_said_in_sentences() -> None:
    """Ranks that are free, foreign wrappers, and ranks that keep the probe."""
    removals = (
        Removal(rank="TP0", removed=True, foreign=(), reason=""),
        Removal(rank="TP1", removed=True, foreign=("A.f", "B.g"), reason=""),
        Removal(rank="TP2", removed=False, foreign=(), reason="It is paused."),
        *(
            Removal(rank=name, removed=False, foreign=(), reason="Another reads.", left_to=True)
            for name in ("TP3", "TP4")
        ),
    )
    assert removal_lines(removals) == [
        "The probe is out of TP0 and TP1: the server goes on without it.",
        (
            "TP1: other code wrapped A.f and B.g after us. Our wrapper stays below it and only "
            "passes calls through."
        ),
        "TP2 keeps the probe: It is paused.",
        "The probe stays in TP3 and TP4. Another reads.",
    ]


def test_a_report_is_json() -> None:
    """It goes through JSON and comes back the same, the end of the session in it."""
    report = msgspec.structs.replace(report_of(summary_of(), final=True), end=End.SERVER_DIED)
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report
