"""On a real EAGLE-3 server, with either scheduler and two ranks: counts, phases, no trace left."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from examples.sglang_cpu.load import generate
from spectrace.attach import modes, ring_file
from spectrace.attach.discover import find_by_pid
from spectrace.attach.session import TraceSession
from spectrace.attach.ways import Method
from spectrace.model import Cycle, CycleKind, PhaseName, TimingMode
from tests.conftest import REQUESTS, TOKENS, Served
from tests.helpers.peek import peek
from tests.helpers.tracing import (
    Collected,
    assert_phases_touch,
    assert_the_servers_counts,
    requests_of,
    token_ids,
    traced,
)
from tests.helpers.unnoticed import attach_unnoticed

if TYPE_CHECKING:
    from examples.sglang_cpu.load import Answer

# Functions that the probe wraps in 0.5.23, as (module, class or "", name).
FUNCTIONS = [
    ("sglang.srt.managers.scheduler", "Scheduler", "run_batch"),
    ("sglang.srt.managers.scheduler", "Scheduler", "process_batch_result"),
    ("sglang.srt.managers.scheduler", "Scheduler", "on_idle"),
    ("sglang.srt.speculative.eagle_worker_v2", "EAGLEWorkerV2", "verify"),
    ("sglang.srt.speculative.eagle_worker_v2", "EAGLEWorkerV2", "forward_batch_generation"),
    ("sglang.srt.managers.tp_worker", "TpModelWorker", "forward_batch_generation"),
    ("sglang.srt.speculative.eagle_worker_v2", "EagleDraftWorker", "draft"),
    ("sglang.srt.speculative.eagle_worker_v2", "EagleDraftWorker", "draft_forward"),
    ("sglang.srt.model_executor.model_runner", "ModelRunner", "forward"),
    ("sglang.srt.speculative.eagle_worker_v2", "EagleDraftWorker", "_draft_extend_for_decode"),
    ("sglang.srt.speculative.eagle_worker_v2", "EagleDraftWorker", "_draft_extend_for_prefill"),
    ("sglang.srt.speculative.eagle_worker_common", "", "eagle_sample"),
]
LOOK = f"""
import sys, threading
def holder(module, name):
    return getattr(sys.modules[module], name) if name else sys.modules[module]
answer = {{
    "functions": [id(vars(holder(m, c))[f]) for m, c, f in {FUNCTIONS!r}],
    "wrapped": [hasattr(vars(holder(m, c))[f], "__code__") and
                vars(holder(m, c))[f].__code__.co_filename.startswith("<spectrace")
                for m, c, f in {FUNCTIONS!r}],
    "threads": sorted(t.name for t in threading.enumerate()),
    "modules": [name for name in sys.modules if "spectrace" in name],
    "main": sorted(vars(sys.modules["__main__"])),
}}
"""


def threads_and_files(pid: int) -> tuple[set[str], dict[str, str]]:
    """Thread ids and open descriptors of a process, as the kernel lists them."""
    folder = Path(f"/proc/{pid}")
    threads = {entry.name for entry in (folder / "task").iterdir()}
    files = {entry.name: str(entry.readlink()) for entry in (folder / "fd").iterdir()}
    return threads, files


@pytest.fixture(scope="module")
def observed(served: Served) -> tuple[list[Answer], Collected, TraceSession]:
    """24 requests, four at a time, traced from before the first to after the last."""
    run = find_by_pid(served.server.pid)
    with TraceSession(run) as session:
        answers, collected = traced(
            session,
            requests_of(served.server.url, requests=REQUESTS, tag="traced", tokens=TOKENS),
        )
        session.detach()
        collected.add(session.last_cycles)
    return answers, collected, session


Observed = tuple[list["Answer"], Collected, TraceSession]


def test_every_request_counts_what_the_server_counted(observed: Observed) -> None:
    """Cycles, correct drafts, histogram and tokens of each request equal the server's own."""
    answers, collected, _ = observed
    assert len(answers) == REQUESTS
    assert_the_servers_counts(answers, collected)


def test_nothing_is_lost_and_every_rank_is_in_every_cycle(
    observed: Observed, served: Served
) -> None:
    """Numbers are contiguous, each cycle has all ranks, and no record was lost."""
    _, collected, session = observed
    assert session.lost == 0
    numbers = [cycle.number for cycle in collected.cycles]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    names = tuple(f"TP{rank}" for rank in range(served.ranks))
    assert {tuple(r.rank for r in cycle.ranks) for cycle in collected.cycles} == {names}


def test_the_tokens_are_those_of_the_untraced_server(observed: Observed, served: Served) -> None:
    """Under the tracer every request gets the very token ids that it got without."""
    answers, _, _ = observed
    assert token_ids(answers) == token_ids(served.baseline)


def test_sibling_phases_touch_and_fill_the_cycle(observed: Observed) -> None:
    """Phases follow each other without a hole and end where the next cycle starts."""
    _, collected, _ = observed
    compared = assert_phases_touch(collected.cycles)
    assert compared > len(collected.cycles) // 2


def test_a_speculative_cycle_has_all_its_phases(observed: Observed) -> None:
    """Draft with its steps, all parts of verify and draft extend are seen, in this order."""
    _, collected, _ = observed
    speculative = [c for c in collected.cycles if c.kind is CycleKind.SPECULATIVE]
    assert len(speculative) > REQUESTS
    worker = [
        PhaseName.DRAFT,
        *[PhaseName.DRAFT_STEP] * 4,
        PhaseName.DRAFT,
        PhaseName.VERIFY_PREPARE,
        PhaseName.VERIFY_FORWARD,
        PhaseName.VERIFY_SAMPLE,
        PhaseName.VERIFY_COMMIT,
        PhaseName.DRAFT_EXTEND,
    ]
    for cycle in speculative:
        assert (cycle.steps, cycle.topk, cycle.draft_tokens) == (5, 1, 6)
        names = [phase.name for phase in cycle.ranks[0].phases]
        assert [name for name in names if name in worker] == worker


def test_a_server_without_graphs_or_timing_events_says_so(observed: Observed) -> None:
    """On a CPU all runs eagerly, and `device` is taken as `host` in every record."""
    _, collected, session = observed
    assert "CPU" in session.facts().timing
    for cycle in collected.cycles:
        graphs = {phase.graph for rank in cycle.ranks for phase in rank.phases}
        assert graphs <= {False, None}
        taken = {(rank.mode, rank.asked_mode) for rank in cycle.ranks}
        assert taken == {(TimingMode.HOST, TimingMode.DEVICE)}


def test_contexts_grow_with_the_tokens_that_cycles_bring(observed: Observed) -> None:
    """From one cycle of a batch to its next the context grows by the first one's tokens."""
    _, collected, _ = observed
    compared = 0
    for cycle, following in itertools.pairwise(collected.cycles):
        first, second = cycle.requests or (), following.requests or ()
        lasting = [row.request_id for row in first] == [row.request_id for row in second]
        if lasting and not any(row.overshoot for row in (*first, *second)):
            assert cycle.context_tokens_sum is not None
            brought = sum(row.output_tokens for row in first)
            assert following.context_tokens_sum == cycle.context_tokens_sum + brought
            compared += 1
    assert compared >= 10  # else nothing was shown


def test_all_ranks_switch_at_the_same_cycle(served: Served) -> None:
    """Told under load to time nothing, each rank does so from the named cycle on."""
    run = find_by_pid(served.server.pid)
    work = requests_of(served.server.url, requests=12, tag="modes", tokens=4 * TOKENS)
    switches = []

    def switching() -> list[Answer]:
        switches.extend(modes.switch(run, TimingMode.OFF))
        return work()

    with TraceSession(run) as session:
        work()
        session.poll()
        _, collected = traced(session, switching)
    (switch,) = switches
    after = [cycle for cycle in collected.cycles if cycle.number >= switch.from_cycle]
    before = [cycle for cycle in collected.cycles if cycle.number < switch.from_cycle]
    assert after
    assert before
    assert all(rank.mode is TimingMode.OFF for cycle in after for rank in cycle.ranks)
    assert all(rank.mode is TimingMode.HOST for cycle in before for rank in cycle.ranks)
    assert not any(rank.late_switch for cycle in collected.cycles for rank in cycle.ranks)


def results_of(cycle: Cycle) -> set[int]:
    """The cycles whose results were processed within a cycle."""
    return {p.of_cycle for p in cycle.ranks[0].phases if p.name is PhaseName.RESULT}


def test_results_belong_to_the_batch_that_they_are_of(observed: Observed, served: Served) -> None:
    """Without overlap a cycle processes its own results, with it those of the one before."""
    _, collected, _ = observed
    between = [c for c in collected.cycles[1:] if not c.ranks[0].ended_idle]
    of_cycles = [(cycle.number, results_of(cycle)) for cycle in between]
    if served.server.options.scheduler == "plain":
        assert all(of == {number} for number, of in of_cycles)
    else:
        late = [number for number, of in of_cycles if number - 1 in of]
        assert len(late) > len(between) // 2
        assert any(row.overshoot for cycle in collected.cycles for row in cycle.requests or ())


def test_tokens_stay_the_same_while_the_tracer_comes_and_goes(served: Served) -> None:
    """Attached and detached five times in the middle, no request notices."""
    result: list[list[Answer]] = []

    def work() -> None:
        result.append(
            generate(
                served.server.url,
                requests=REQUESTS,
                concurrency=4,
                max_new_tokens=TOKENS,
                tag="coming-and-going",
            )
        )

    thread = threading.Thread(target=work)
    thread.start()
    attached = 0
    while attached < 5 or thread.is_alive():
        with TraceSession(find_by_pid(served.server.pid)) as session:
            session.poll()
            time.sleep(0.1)
            assert all(out.removed for out in session.detach())
        attached += 1
    thread.join()
    assert attached >= 5
    assert token_ids(result[0]) == token_ids(served.baseline)


def test_after_detaching_nothing_of_the_tracer_is_left(served: Served) -> None:
    """Functions, threads, open files, modules and `__main__` are what they were."""
    pids = served.server.scheduler_pids()
    generate(served.server.url, requests=4, concurrency=4, max_new_tokens=8, tag="warm")
    before = [(peek(pid, LOOK), threads_and_files(pid)) for pid in pids]
    with TraceSession(find_by_pid(served.server.pid)) as session:
        traced(session, requests_of(served.server.url, requests=4, tag="short", tokens=8))
        during = [peek(pid, LOOK) for pid in pids]
        paths = [ring_file.ring_path(pid) for pid in pids]
        assert all(path.exists() for path in paths)
    after = [(peek(pid, LOOK), threads_and_files(pid)) for pid in pids]
    assert all(all(look["wrapped"]) for look in during)
    assert after == before
    assert not any(path.exists() for path in paths)


@pytest.mark.parametrize("method", [Method.PTRACE, Method.GDB])
def test_no_way_in_is_noticed(served: Served, method: Method) -> None:
    """By each way five attaches under load fail no request, change no token, leave nothing."""
    rounds = attach_unnoticed(
        served.server.url, served.server.pid, served.server.scheduler_pids(), method, 5
    )
    assert {stall.way for stall in rounds.stalls} == {method.value}


WRAP = """
import sys
scheduler = sys.modules["sglang.srt.managers.scheduler"].Scheduler
def somebody(inner):
    def theirs(*args, **kwargs):
        return inner(*args, **kwargs)
    theirs.__wrapped__ = inner
    return theirs
scheduler.run_batch = somebody(scheduler.run_batch)
answer = id(scheduler.run_batch)
"""
UNWRAP = """
import sys
scheduler = sys.modules["sglang.srt.managers.scheduler"].Scheduler
answer = id(scheduler.run_batch)
scheduler.run_batch = scheduler.run_batch.__wrapped__.__wrapped__
"""


def test_a_function_that_somebody_wrapped_meanwhile_stays_theirs(served: Served) -> None:
    """Detaching leaves their wrapper in place, names it, and the server goes on."""
    (pid, *_) = served.server.scheduler_pids()
    before = peek(pid, LOOK)
    with TraceSession(find_by_pid(served.server.pid)) as session:
        theirs = peek(pid, WRAP)
        traced(session, requests_of(served.server.url, requests=4, tag="wrapped", tokens=8))
        first, *_ = session.detach()
    assert first.removed
    assert first.foreign == ("Scheduler.run_batch",)
    generate(served.server.url, requests=4, concurrency=4, max_new_tokens=8, tag="still")
    assert peek(pid, UNWRAP) == theirs
    assert peek(pid, LOOK) == before


def stall_of(session: TraceSession) -> dict[str, Any]:
    """What attaching cost, by rank."""
    return {stall.rank: stall for stall in session.stall()}


def test_the_stall_of_every_rank_is_known(observed: Observed, served: Served) -> None:
    """Stop, loading and installing are each measured, in every rank, and add up."""
    _, _, session = observed
    stalls = stall_of(session)
    assert len(stalls) == served.ranks
    for stall in stalls.values():
        assert stall.installed
        assert stall.stop_ms > 0
        assert stall.loading_ms > 0
        assert stall.installing_ms > 0
        parts = stall.stop_ms + stall.loading_ms + stall.installing_ms
        assert stall.total_ms == pytest.approx(parts)
