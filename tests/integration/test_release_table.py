"""The table of SGLang's releases against their sources: what it names is there, and is called."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from spectrace.probe.engines import sglang as engine
from spectrace.probe.engines import sglang_releases as table
from spectrace.probe.engines import sglang_rows
from spectrace.probe.engines.sglang_releases import Chosen
from tests.helpers import wheels
from tests.helpers.sources import Sources, read

pytestmark = pytest.mark.beside_others

# The first and the last release of every row, and some between; all that exist were read once.
RELEASES = (
    *(
        "0.4.6",
        "0.4.6.post5",
        "0.4.7",
        "0.4.9.post3",
        "0.4.9.post4",
        "0.4.10.post2",
        "0.5.1",
        "0.5.2",
        "0.5.3",
    ),
    *("0.5.3.post1", "0.5.3.post2", "0.5.4", "0.5.5.post3", "0.5.6", "0.5.6.post2", "0.5.7"),
    *("0.5.9", "0.5.10", "0.5.11", "0.5.12", "0.5.13", "0.5.14", "0.5.15.post1", "0.5.16"),
    *("0.5.20", "0.5.23"),
)
MODULE = "module:sglang.srt."
SCHEDULER_ROWS, WORKER_ROWS = list(table.rows(table.RELEASES)), list(table.rows(table.WORKERS))
SCHEDULERS = [Chosen(row, WORKER_ROWS[-1]) for row in SCHEDULER_ROWS]
WORKERS = [Chosen(SCHEDULER_ROWS[-1], row) for row in WORKER_ROWS]

# The classes that stand at the places of the table, where their names do not say it.
DRAFT_WORKERS = {
    "EAGLEWorkerV2": "EagleDraftWorker",
    "MultiLayerEagleWorkerV2": "MultiLayerEagleDraftWorker",
    "FrozenKVMTPWorkerV2": "FrozenKVMTPDraftWorker",
}
AT_SCHEDULER = {
    "": "Scheduler",
    "tp_worker": "TpModelWorker",
    "batch_result_processor": "SchedulerBatchResultProcessor",
    "tree_cache": "RadixCache",
}
GRAPHS = {
    "cuda_graph_runner": "EAGLEDraftCudaGraphRunner",
    "cuda_graph_runner_for_draft_extend": "EAGLEDraftExtendCudaGraphRunner",
}
ALLOCATORS = ("TokenToKVPoolAllocator", "BaseTokenToKVPoolAllocator")


@cache
def folders() -> dict[str, Path]:
    """Where the sources are."""
    return wheels.fetch(RELEASES)


@cache
def sources(release: str) -> Sources:
    """What they say."""
    return read(folders()[release])


def version(release: str) -> sglang_rows.Version:
    """The numbers of a release."""
    numbers = sglang_rows.parsed(release)
    assert numbers is not None
    return numbers


def scheduler_row(release: str) -> Chosen:
    """The row of its scheduler."""
    return next(row for row in SCHEDULERS if row.release <= version(release))


def worker_rows(release: str) -> list[Chosen]:
    """The newest row of each kind of worker that the release has."""
    rows: dict[str, Chosen] = {}
    for row in WORKERS:
        if row.since <= version(release) and row.worker in sources(release).classes:
            rows.setdefault(row.worker, row)
    return list(rows.values())


def class_at(code: Sources, place: str, worker: str) -> str:
    """The name of the class whose function the probe wraps at a place."""
    if place.startswith(MODULE):
        return place.rpartition(":")[2]
    *_, last = place.split(".")
    if place == "token_to_kv_pool_allocator":
        return next(name for name in ALLOCATORS if code.method(name, "free_group_begin"))
    if last in GRAPHS:
        return "FrozenKVMTPCudaGraphRunner" if worker.startswith("Frozen") else GRAPHS[last]
    if last in {"draft_runner", "draft_model_runner"}:
        return "ModelRunner"
    if last == "draft_worker":
        return DRAFT_WORKERS[worker]
    return worker if place == "worker" else AT_SCHEDULER[place]


def check_target(code: Sources, path: str, worker: str) -> None:
    """A function of the table is defined where it is looked for, and something calls it."""
    place, _, function = path.rpartition(".")
    where = f"{worker}: {place}.{function}"
    assert function in code.calls, f"nobody calls {where}"
    module = place.removeprefix(MODULE)
    if module != place and ":" not in module:
        assert function in code.names[module], where
        assert function in code.module_calls[module], where
        return
    if place.endswith(".model"):  # the model of the draft: any class of model_executor's models
        return
    if module != place:
        assert module.partition(":")[2] in code.names[module.partition(":")[0]], where
    arguments = code.method(class_at(code, place, worker), function)
    assert arguments is not None, where
    assert arguments[0] == "self", where


@pytest.mark.parametrize("release", RELEASES)
def test_the_scheduler_has_the_functions_with_the_arguments_that_are_read(release: str) -> None:
    """`run_batch` is given the batch, `process_batch_result` the batch and the result."""
    code = sources(release)
    run = code.method("Scheduler", engine.RUN_BATCH)
    process = code.method("Scheduler", engine.PROCESS_RESULT)
    assert run is not None
    assert process is not None
    assert run[:2] == ("self", "batch")
    assert process[:3] == ("self", "batch", "result")


@pytest.mark.parametrize("release", RELEASES)
def test_the_idle_call_is_the_one_of_the_event_loop(release: str) -> None:
    """The first idle function that a release has is what its loops call where nothing runs."""
    code = sources(release)
    idle = next(name for name in engine.IDLE if code.method("Scheduler", name) is not None)
    loop = folders()[release] / "managers" / "scheduler.py"
    (normal,) = [
        text
        for text in loop.read_text("utf-8").split("    def ")
        if text.startswith("event_loop_normal(")
    ]
    assert f"self.{idle}()" in normal


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_read_of_scheduler_batch_and_request_is_there(release: str) -> None:
    """Queues, numbers, arguments, and the fields of a request."""
    code = sources(release)
    row = scheduler_row(release)
    for name in (engine.QUEUED, engine.RUNNING, engine.CYCLE_COUNT, engine.ALGORITHM):
        assert code.has_attribute("Scheduler", name), name
    assert code.has_attribute("Scheduler", engine.ARGUMENTS)
    assert code.has_attribute("Scheduler", "tp_worker")
    for name in ("rid", "output_ids", "origin_input_ids", "finished_reason", "is_retracted"):
        assert code.has_attribute("Req", name), name
    assert code.has_attribute("Req", engine.VERIFIES)
    assert code.has_attribute("Req", engine.FINISHED_LENGTH) == (version(release) >= (0, 5, 4, 0))
    assert ("forward_iter" in code.assigned) == row.numbered
    for _, argument in engine.SIZES:
        namespaces = ("ServerArgs", "Spec")  # from 0.5.20 on its fields stand in parts
        assert any(code.has_attribute(kind, argument) for kind in namespaces), argument


@pytest.mark.parametrize("release", RELEASES)
def test_counts_are_where_the_row_says(release: str) -> None:
    """The result, the verify output or the request has the field."""
    code = sources(release)
    row = scheduler_row(release)
    where, name, _ = row.counts
    if name:
        kind = "GenerationBatchResult" if where == engine.RESULT else "EagleVerifyOutput"
        assert code.has_attribute(kind, name)
    if row.counter:
        assert code.has_attribute("Req", row.counter)
    else:
        later = {row.counter for row in SCHEDULERS} - {""}
        assert not any(code.has_attribute("Req", counter) for counter in later)


@pytest.mark.parametrize("release", RELEASES)
def test_the_target_models_graph_is_where_the_row_says(release: str) -> None:
    """The model runner has the graph's runner, and that the batch size it was made for."""
    code = sources(release)
    start, runner, graph, size = scheduler_row(release).padded.rsplit(".", 3)
    assert (start, runner, size) == ("tp_worker", "model_runner", "bs")
    assert code.has_attribute("ModelRunner", graph)
    graphs = ("DecodeCudaGraphRunner", "CudaGraphRunner")
    kind = next(name for name in graphs if name in code.classes)
    assert code.has_attribute(kind, "bs")


@pytest.mark.parametrize("release", RELEASES)
def test_what_tells_that_counts_are_ready_is_called(release: str) -> None:
    """Each function that may end the waiting is there and is called."""
    code = sources(release)
    for path in scheduler_row(release).ready:
        check_target(code, path, "")


@pytest.mark.parametrize("release", RELEASES)
def test_every_function_of_every_worker_is_there_and_is_called(release: str) -> None:
    """All targets, steps and graphs of the rows that hold for a release."""
    code = sources(release)
    rows = worker_rows(release)
    assert rows
    for row in rows:
        paths = [path for path, _, _ in row.targets]
        graphs = [path for path, _ in row.graphs]
        for path in (*paths, row.step, row.steps, *graphs):
            if path:
                check_target(code, path, row.worker)
        assert row.sizes in ("", *paths)


@pytest.mark.parametrize("release", RELEASES)
def test_no_worker_of_the_kinds_that_are_known_is_without_a_row(release: str) -> None:
    """Every worker that SGLang may create, but for those of kinds that no row claims."""
    unclaimed = {"DSparkWorkerV2", "UnoWorkerV2"}  # traced as unknown workers, and named so
    code = sources(release)
    workers = {
        name
        for name, found in code.classes.items()
        if name.endswith(("EAGLEWorker", "EagleWorker", "NGRAMWorker", "WorkerV2", "FlashWorker"))
        and "draft" in {*found.methods, *found.attributes} | code.calls
    }
    rows = {row.worker for row in worker_rows(release)}
    derived = {name for name in workers if rows & set(ancestors(code, name))}
    assert workers - derived <= unclaimed


def ancestors(code: Sources, name: str) -> list[str]:
    """Names of a class and of all that it derives from."""
    found = code.classes.get(name)
    if found is None:
        return [name]
    return [name, *(a for base in found.bases for a in ancestors(code, base))]


def test_rows_are_in_the_order_in_which_they_are_tried() -> None:
    """The newest comes first, of the scheduler and of each kind of worker."""
    sinces = [row.release for row in SCHEDULERS]
    assert sinces == sorted(sinces, reverse=True)
    assert sinces[-1] == sglang_rows.OLDEST
    for worker in {row.worker for row in WORKERS}:
        of_worker = [row.since for row in WORKERS if row.worker == worker]
        assert of_worker == sorted(set(of_worker), reverse=True)
