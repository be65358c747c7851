"""Records of a kernel window become columns, and go to the phase that launched them."""

from __future__ import annotations

import msgspec
import pytest

from spectrace.analysis.kernel_classes import KernelClasses
from spectrace.importing.class_times import class_times
from spectrace.importing.cupti import Decoded, addresses, decoded, pieces_in
from spectrace.importing.kernel_window import Bounds, Ranked, turns_of_cycles, window_of
from spectrace.model import Cycle, CycleKind, Lane, Phase, PhaseName, RankCycle, TimingMode
from spectrace.probe.layout_window import RECORD_BYTES
from tests.helpers.cupti_records import RECORDED, Buffer, record, window_file

pytestmark = pytest.mark.beside_others

BASE_NS = 1_790_857_026_000_000_000  # of the run's UNIX time
SHIFT_NS = -250_000  # from CUPTI's clock to it
US = 1000
TURN_US = 20_000
THREAD = 7001
GEMM, ATTENTION, REDUCE = 0x1000, 0x2000, 0x3000  # where names stand
NAMES = {
    GEMM: "nvjet_tst_64x8_64x16_2x1_v_bz_TNT",
    ATTENTION: "_ZN5flash24flash_fwd_splitkv_kernelI23Flash_fwd_kernel_traitsILi128EEEEvv",
    REDUCE: "_ZN6sglang26cross_device_reduce_1stageI13__nv_bfloat16Li8EEEvPNS_8RankDataE",
}
# On the host, in µs from the cycle's begin.
PHASES = (
    (PhaseName.DRAFT, 0, 3_000),
    (PhaseName.VERIFY_FORWARD, 3_000, 5_000),
    (PhaseName.SCHEDULE, 5_000, TURN_US),
)


def at(us: float) -> int:
    """A time of CUPTI's clock, from µs behind the begin of the first cycle."""
    return BASE_NS - SHIFT_NS + round(us * US)


def cycle(number: int) -> Cycle:
    """The cycle of that place in the run, each right behind the one before."""
    begin_ns = BASE_NS + number * TURN_US * US
    phases = tuple(
        Phase(
            name=name,
            start_ns=begin_ns + start * US,
            end_ns=begin_ns + end * US,
            of_cycle=number,
        )
        for name, start, end in PHASES
    )
    share = RankCycle(
        rank="TP0",
        start_ns=begin_ns,
        end_ns=begin_ns + TURN_US * US,
        phases=phases,
        mode=TimingMode.DEVICE,
        probe_ns=0,
    )
    return Cycle(
        run_id="0" * 32,
        group="",
        number=number,
        kind=CycleKind.SPECULATIVE,
        batch_size=1,
        steps=3,
        topk=1,
        draft_tokens=4,
        ranks=(share,),
        requests=None,
    )


def launch(us: float, correlation: int, kind: str = "RUNTIME", thread: int = THREAD) -> bytes:
    """The record of a call that takes 5 µs."""
    return record(
        "api",
        kind,
        start=at(us),
        end=at(us + 5),
        correlation_id=correlation,
        thread_id=thread,
    )


def kernel(  # noqa: PLR0913 - what a record holds
    us: float,
    length_us: float,
    correlation: int,
    name: int,
    *,
    stream: int = 7,
    graph: int = 0,
    version: str = "kernel13",
) -> bytes:
    """The record of a kernel."""
    return record(
        version,
        start=at(us),
        end=at(us + length_us),
        correlation_id=correlation,
        name=name,
        stream_id=stream,
        graph_id=graph,
    )


def replay(us: float, length_us: float, correlation: int) -> bytes:
    """The record of a whole graph."""
    return record(
        "graph_trace2",
        start=at(us),
        end=at(us + length_us),
        correlation_id=correlation,
        graph_id=3,
        stream_id=7,
    )


def read(*records: bytes) -> Decoded:
    """What is read of one buffer."""
    content, head = window_file([Buffer(*records).piece()])
    return decoded(pieces_in(content, head).whole)


@pytest.mark.parametrize("version", sorted(RECORDED))
def test_each_version_of_each_record_is_read_alike(version: str) -> None:
    """Its fields stand where CUPTI writes them, whatever a newer version adds behind."""
    shape = RECORDED[version]
    for kind, number in shape["kinds"].items():
        assert RECORD_BYTES[number] <= shape["bytes"], kind
        wanted = {
            "start": at(1),
            "end": at(3),
            "correlation_id": 41,
            "stream_id": 9,
            "device_id": 2,
            "graph_id": 5,
            "thread_id": THREAD,
            "name": GEMM,
            "copy_kind": 2,
        }
        has = {name: value for name, value in wanted.items() if name in shape["fields"]}
        found = read(record(version, kind, **has), record(version, kind, **has))
        assert (found.unknown, found.unfinished) == (0, 0)
        if version == "api":  # both are of one correlation, and so one launch
            [columns] = zip(*(column.tolist() for column in found.calls), strict=True)
            assert columns == (at(1), 41, THREAD)
            continue
        rows = list(zip(*(column.tolist() for column in found.works), strict=True))
        name = GEMM if "kernel" in version else 2 if version.startswith("memcpy") else 0
        name = 0 if "pto_p" in version else name
        assert rows == [(at(1), at(3), 41, 2 << 32 | 9, 5, number, name)] * 2


def test_records_of_all_kinds_in_one_buffer_are_told_apart() -> None:
    """They are of different lengths, and stand in any order."""
    found = read(
        launch(0, 1),
        kernel(10, 5, 1, GEMM, version="kernel9"),
        record("memcpy7", start=at(20), end=at(21), correlation_id=2, copy_kind=8),
        launch(1, 2),
        record("memset5", start=at(30), end=at(31), correlation_id=2),
        replay(40, 50, 2),
    )
    assert found.works.kind.tolist() == [10, 1, 2, 51]
    assert found.calls.correlation.tolist() == [1, 2]
    assert addresses(found.works) == [GEMM]


def test_work_that_has_not_ended_is_left_out_and_counted() -> None:
    """CUPTI writes 0 where it does not know a time."""
    found = read(kernel(10, 5, 1, GEMM), record("kernel13", start=at(20), end=0))
    assert (found.works.start_ns.size, found.unfinished) == (1, 1)


def test_a_kind_that_nobody_asked_for_is_left_out_and_counted() -> None:
    """Another tool of the process may ask for more than we do."""
    other = bytearray(record("api", start=at(0), end=at(1), correlation_id=4))
    other[:4] = (17).to_bytes(4, "little")  # CUPTI's own overhead
    found = read(launch(0, 1), bytes(other))
    assert (found.calls.correlation.tolist(), found.unknown) == ([1], 1)


def test_the_driver_call_within_a_call_of_the_runtime_is_no_further_launch() -> None:
    """Both carry the same correlation id, and the outer one began first."""
    found = read(launch(2, 1, "DRIVER"), launch(1, 1, "RUNTIME"))
    assert found.calls.start_ns.tolist() == [at(1)]


def test_a_torn_piece_is_left_out_and_counted_and_those_behind_it_are_read() -> None:
    """A server may die while it writes."""
    pieces = [Buffer(launch(0, 1)).piece(), Buffer(launch(1, 2)).piece()]
    pieces.append(Buffer(launch(2, 3)).piece())
    content, head = window_file(pieces)
    spoiled = bytearray(content)
    spoiled[4096 + len(pieces[0]) + 40] ^= 1
    found = pieces_in(bytes(spoiled), head)
    assert found.torn == 1
    assert decoded(found.whole).calls.correlation.tolist() == [1, 3]


def test_pieces_end_where_the_file_was_cut_off() -> None:
    """What is not whole is counted."""
    pieces = [Buffer(launch(0, 1)).piece(), Buffer(launch(1, 2)).piece()]
    content, head = window_file(pieces)
    found = pieces_in(content[:-8], head)
    assert (len(found.whole), found.torn) == (1, 1)


# Cycle 0 lies in the part in which graphs are seen whole, cycles 1 and 2 behind it.
BOUNDS = Bounds(at(0), at(TURN_US), at(3 * TURN_US), SHIFT_NS, behind=3)
RANKED = Ranked("TP0", 4242, (99, THREAD), NAMES)
CLASS_OF = KernelClasses().of
TURNS = turns_of_cycles([cycle(number) for number in (1, 0, 2)], "TP0")


def verify(number: int, correlation: int) -> list[bytes]:
    """A verify of one graph of three kernels with gaps of 10 and 40 µs between them."""
    begin_us = number * TURN_US + 6_000
    return [
        launch(number * TURN_US + 3_100, correlation),
        kernel(begin_us, 400, correlation, ATTENTION, graph=3),
        kernel(begin_us + 410, 250, correlation, REDUCE, graph=3),
        kernel(begin_us + 700, 1_200, correlation, GEMM, graph=3),
    ]


def three_cycles() -> list[bytes]:
    """The first with a whole graph, the next two with its kernels and an eager draft of two."""
    records = [launch(3_100, 1), replay(6_000, 1_850, 1)]
    for number in (1, 2):
        records += verify(number, 10 * number)
        for place, us in ((1, 100), (2, 200)):
            correlation = 10 * number + place
            records.append(launch(number * TURN_US + us, correlation))
            records.append(kernel(number * TURN_US + 1_000 + us, 100, correlation, GEMM))
    return records


def test_kernels_go_to_the_phase_of_their_launch_however_late_they_run() -> None:
    """Per cycle: one launch of a graph with three kernels, and two of single ones."""
    seen = window_of(read(*three_cycles()), TURNS, BOUNDS, RANKED, CLASS_OF)
    assert seen.cycles == 2
    assert [(p.phase, p.cycles, p.kernels, p.launches, p.replays) for p in seen.phases] == [
        ("verify.forward", 2, 3.0, 1.0, 1.0),
        ("draft", 2, 2.0, 2.0, 0.0),
    ]


def test_gaps_lie_between_the_kernels_of_a_phase_alone() -> None:
    """Of 1.9 ms from first to last 10 + 40 µs are gaps; the idle time before is none."""
    [verifying, drafting] = window_of(read(*three_cycles()), TURNS, BOUNDS, RANKED, CLASS_OF).phases
    assert verifying.device_ms == pytest.approx(1.9)
    assert verifying.busy_ms == pytest.approx(1.85)
    assert verifying.gap_ms == pytest.approx(0.05)
    assert drafting.device_ms == pytest.approx(0.2)
    assert drafting.gap_ms == pytest.approx(0.0)


def test_kernels_that_run_at_once_are_busy_once() -> None:
    """A kernel that begins before the one before has ended (PDL) fills no gap twice."""
    records = [
        *(launch(TURN_US + 3_100, 1), launch(TURN_US + 3_200, 2), launch(TURN_US + 3_300, 3)),
        kernel(TURN_US + 6_000, 500, 1, GEMM),
        kernel(TURN_US + 6_100, 100, 2, GEMM),
        kernel(TURN_US + 6_600, 100, 3, GEMM),
    ]
    [verifying] = window_of(read(*records), TURNS[:2], BOUNDS, RANKED, CLASS_OF).phases
    assert verifying.device_ms == pytest.approx(0.7)
    assert verifying.gap_ms == pytest.approx(0.1)


def test_a_replay_is_timed_whole_in_the_part_before() -> None:
    """1.85 ms undisturbed; the part behind shows what is in it."""
    [verifying, drafting] = window_of(read(*three_cycles()), TURNS, BOUNDS, RANKED, CLASS_OF).phases
    assert verifying.replays_seen == 1
    assert verifying.replay_ms == pytest.approx(1.85)
    assert drafting.replay_ms is None


def test_time_is_summed_by_phase_and_class_over_the_part_with_kernels() -> None:
    """Names as compilers write them are known, too; the whole graph of the part before is not."""
    seen = window_of(read(*three_cycles()), TURNS, BOUNDS, RANKED, CLASS_OF)
    kernels = {("TP0", *key): time for key, time in seen.kernels.items()}
    times = class_times(kernels, CLASS_OF)
    assert [(time.phase, time.kernel_class, time.kernels) for time in times] == [
        ("verify.forward", "matmul", 2),
        ("verify.forward", "attention", 2),
        ("verify.forward", "communication", 2),
        ("draft", "matmul", 4),
    ]
    assert [time.time_ms for time in times] == pytest.approx([2.4, 0.8, 0.5, 0.4])


def test_each_kernel_is_kept_with_its_cycle_phase_and_class() -> None:
    """In the order of their begins: those of the two cycles behind the split, 3 + 2 of each."""
    seen = window_of(read(*three_cycles()), TURNS, BOUNDS, RANKED, CLASS_OF).seen
    assert (seen.rank, seen.group) == ("TP0", "")
    rows = zip(seen.number, seen.phase, seen.name, seen.graph, strict=True)
    of_first = [
        (seen.phases[phase], seen.classes[name], graph)
        for number, phase, name, graph in rows
        if number == 1
    ]
    assert of_first == [
        ("draft", "matmul", 0),
        ("draft", "matmul", 0),
        ("verify.forward", "attention", 1),
        ("verify.forward", "communication", 1),
        ("verify.forward", "matmul", 1),
    ]
    assert sorted(set(seen.number.tolist())) == [1, 2]
    assert sum(seen.end_ns - seen.start_ns) == 4_100_000


def test_what_another_thread_launches_belongs_to_no_phase() -> None:
    """A detokenizer or a copy thread may launch while the scheduler drafts."""
    records = [*three_cycles(), launch(TURN_US + 300, 77, thread=8), kernel(TURN_US, 9, 77, GEMM)]
    seen = window_of(read(*records), TURNS, BOUNDS, RANKED, CLASS_OF)
    assert seen.phases == window_of(read(*three_cycles()), TURNS, BOUNDS, RANKED, CLASS_OF).phases
    assert seen.kernels["", NAMES[GEMM]].kernels == 1


def test_a_call_that_launched_nothing_is_no_launch() -> None:
    """CUPTI records every call of the runtime, most of which ask for something."""
    records = [*three_cycles(), launch(TURN_US + 3_200, 500), launch(TURN_US + 3_300, 501)]
    seen = window_of(read(*records), TURNS, BOUNDS, RANKED, CLASS_OF)
    assert seen.phases == window_of(read(*three_cycles()), TURNS, BOUNDS, RANKED, CLASS_OF).phases


def test_a_kernel_whose_name_could_not_be_read_is_named_by_its_address() -> None:
    """So that two of them are not taken for one."""
    records = [launch(TURN_US + 100, 1), kernel(TURN_US + 200, 10, 1, 0xBEEF)]
    seen = window_of(read(*records), TURNS, BOUNDS, RANKED, CLASS_OF)
    assert list(seen.kernels) == [("draft", "kernel at 0xbeef")]


def test_a_window_without_cycles_shows_no_phase() -> None:
    """What ran in it is outside of phases."""
    seen = window_of(read(*three_cycles()), [], BOUNDS, RANKED, CLASS_OF)
    assert (seen.phases, seen.cycles) == ((), 0)
    assert {phase for phase, _ in seen.kernels} == {""}


def test_the_last_cycle_counts_though_it_ends_a_moment_behind_the_window() -> None:
    """The window closes at the begin of the next cycle, which is stamped when it is closed."""
    soon = BOUNDS._replace(end_ns=BOUNDS.end_ns - 30 * US)
    whole = window_of(read(*three_cycles()), TURNS, BOUNDS, RANKED, CLASS_OF)
    seen = window_of(read(*three_cycles()), TURNS, soon._replace(behind=3), RANKED, CLASS_OF)
    assert (seen.cycles, seen.phases) == (whole.cycles, whole.phases)
    # The one at whose begin it closes does not, nor one that time cut off.
    for behind in (2, 0):
        cut = window_of(
            read(*three_cycles()), TURNS, soon._replace(behind=behind), RANKED, CLASS_OF
        )
        assert cut.cycles == 1


def test_turns_of_cycles_are_the_hosts_phases_in_order() -> None:
    """The device's lane of the same cycles has no part in it."""
    assert [turn.number for turn in TURNS] == [0, 1, 2]
    first = cycle(0)
    share = first.ranks[0]
    device = msgspec.structs.replace(share.phases[0], lane=Lane.DEVICE)
    both = msgspec.structs.replace(share, phases=(*share.phases, device))
    [turn] = turns_of_cycles([msgspec.structs.replace(first, ranks=(both,))], "TP0")
    assert [phase.name for phase in turn.phases] == [name for name, _, _ in PHASES]
