"""Puts the hooks into a scheduler, follows the control word, and takes everything out again."""

from __future__ import annotations

import os
import sys
from functools import partial
from time import monotonic_ns as now
from typing import TYPE_CHECKING, Any

# The modules named whole are loaded when first used: see bootstrap.
from . import faults, kernels, leaving, older, ranges, request_spans, timers
from .engines import sglang as engine
from .engines import sglang_rows
from .hooks import (
    Patches,
    after_call,
    around_target,
    before_call,
    boundary,
    holder_of,
    with_result,
)
from .layout import (
    ABANDONED_NS,
    NO_TOOL,
    TOOL_VARIABLES,
    CycleFlag,
    Graph,
    Kind,
    Ph,
    State,
    Word,
    split_kernels,
)
from .recorder import HOLD, Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from .engines.sglang_releases import Chosen
    from .ring import RingWriter

Function = Any
_IDLE_CALLS_BETWEEN_CLOCKS = 64  # the idle call comes more than 10,000 times a second
# Looked at with every cycle or idle call.
_COMMAND, _HEARTBEAT_NS, _IDLE_CALLS = Word.COMMAND, Word.HEARTBEAT_NS, Word.IDLE_CALLS
_KERNELS = Word.KERNELS
_CYCLE_COUNT, _RAN_AS_GRAPH = engine.CYCLE_COUNT, engine.RAN_AS_GRAPH
_FINISHED_LENGTH, _QUEUED, _RUNNING = engine.FINISHED_LENGTH, engine.QUEUED, engine.RUNNING
_DRAIN_EVERY_NS = 1_000_000  # while idle
# Requests of a batch with the length of their output and whether they had ended, the sum and
# the greatest of their lengths, how many requests wait and run; and all that with the number of
# their cycle before it.
_Looked = tuple[list[tuple[Any, int, bool]], tuple[int, int], tuple[int, int]]
_Before = tuple[int, list[tuple[Any, int, bool]], tuple[int, int], tuple[int, int]]
_Start = tuple[Any, Any]  # where places begin: the scheduler, the worker


class Tracer:
    """The probe in one scheduler process, from arming to leaving.

    Nothing here may raise into the server: what goes wrong is written into the ring and
    takes the probe out. Only what a signal handler of the server raises while our code runs is
    the server's: `Exception` alone is caught, and handed on if it came out of a handler.

    Args:
        ring: The ring, already mapped.
        forget: Called last when the probe leaves; removes its modules.

    Attributes:
        active: The hooks do something.
        ring: As the argument.
        recorder: Where they mark phases.
        patches: The functions that stand wrapped.
        info: What is known of this server, by name.
        forget: As the argument.
        window: On kernels, while one is open.
    """

    def __init__(self, ring: RingWriter, forget: Callable[[], None]) -> None:
        self.ring = ring
        self._words = ring.words
        self.forget = forget
        self.recorder = Recorder(ring, fail=self.fail)
        self.recorder.hold = 2 * HOLD
        self.recorder.health_checks = engine.HEALTH_CHECK_PREFIX
        self._counters: timers.Counters | None = None
        self.patches = Patches()
        self._hooked: list[str] = []
        self._missing: list[str] = []
        self.info: dict[str, Any] = {}
        self._kinds: dict[Any, int] = {}
        self._padded = self._counts = ""
        self._older: older.Older | None = None
        self._sizes: tuple[tuple[str, int], ...] = ()
        self._has_extend = False
        self._worker_known = self._installed = self._sized = False
        self.active = False
        self._drain_at_ns = 0
        self.window: kernels.KernelWindow | None = None
        self._kernels_word = ring.words[_KERNELS]  # what was asked for before is over

    def arm(self) -> None:
        """Hooks the scheduler; the worker is found and hooked at the next `run_batch`.

        Raises:
            LookupError: There is no scheduler of a known engine in this process.
        """
        module = sys.modules.get(engine.SCHEDULER_MODULE)
        scheduler = getattr(module, engine.SCHEDULER_CLASS, None)
        if scheduler is None:
            raise LookupError(f"{engine.SCHEDULER_MODULE} is not loaded in this process")
        version = getattr(sys.modules.get("sglang"), "__version__", "of unknown release")
        torch = getattr(sys.modules.get("torch"), "__version__", "")
        self.info = {
            "engine": f"sglang {version}",
            "python": sys.version.split()[0],
            "torch": str(torch),
        }
        try:
            self._hook_scheduler(scheduler)  # what is known is told with the worker, at its cycle
            # A reader that dies before its first sign of life must not leave the probe behind.
            self.ring.words[Word.HEARTBEAT_NS] = now()
        except BaseException:  # a signal handler's too: half armed is worse than not at all
            self.active = False
            self.patches.restore()
            raise

    def _hook_scheduler(self, scheduler: type) -> None:
        self.active = True
        for name, make in (
            (engine.RUN_BATCH, self._wrap_run_batch),
            (engine.PROCESS_RESULT, self._wrap_process_result),
            (_first_of(scheduler, engine.IDLE), self._wrap_idle),
        ):
            self._hook(scheduler, name, make)
        if self._missing:
            raise LookupError(f"{self.info['engine']} has no {', '.join(self._missing)}")

    def fail(self, error: BaseException) -> None:
        """Writes down an error of the probe's own and takes the probe out.

        Raises:
            BaseException: The error itself, where it is the server's.
        """
        try:
            fail = leaving.fail
        except Exception:  # noqa: BLE001 - nothing may reach the server
            # Its code cannot be had: what stands there does nothing any more.
            self.active = self.recorder.open = self.recorder.timing = False
            return
        fail(self, error)

    def _hook(self, holder: type, name: str, make: Callable[[Function], Function]) -> None:
        owner = holder_of(holder, name)
        label = f"{holder.__name__}.{name}"
        if owner is not None and self.patches.put(owner, name, make):
            self._hooked.append(label)
        else:
            self._missing.append(label)

    def _hook_path(self, start: _Start, path: str, make: Callable[[Function], Function]) -> None:
        """Hooks the function at a path of the table; notes what is not there."""
        place, _, name = path.rpartition(".")
        owner = _owner_at(start, place)
        if isinstance(owner, type):
            self._hook(owner, name, make)
        elif owner is not None and self.patches.put(owner, name, make):
            self._hooked.append(f"{place.rpartition('.')[2]}.{name}")
        else:
            self._missing.append(f"{place.rpartition(':')[2] or engine.SCHEDULER_CLASS}.{name}")

    def _install(self, scheduler: Any, batch: Any) -> None:
        """Hooks the worker that this scheduler drives."""
        began_ns = now()
        self._worker_known = True
        algorithm = getattr(scheduler, engine.ALGORITHM, None)
        algorithm = str(getattr(algorithm, "name", algorithm))
        speculates = algorithm not in engine.NO_ALGORITHM
        self._learn_kinds(type(batch.forward_mode), speculates=speculates)
        version = self.info["engine"].rpartition(" ")[2]
        worker = _worker_of(scheduler)
        chosen = sglang_rows.choose(version, type(worker), speculates=speculates)
        self._follow_rows(scheduler, chosen)
        start = (scheduler, worker)
        self._hook_worker(start, chosen)
        self._hook_graphs(start, chosen)
        device = str(getattr(scheduler, "device", ""))
        self.info.update(
            worker=type(worker).__name__,
            known_worker=bool(chosen.worker),
            row=chosen.name,
            untried=chosen.untried,
            algorithm=algorithm,
            overlap=bool(getattr(scheduler, "enable_overlap", False)),
            device=device,
            no_device_timing=self._make_timers(device),
        )
        self._make_ranges()
        self.tell()
        words = self.ring.words
        words[Word.INSTALL_NS] = now() - began_ns
        words[Word.STATE] = State.TRACING
        self._installed = True

    def _learn_kinds(self, modes: Any, *, speculates: bool) -> None:
        """Kinds of cycles by the value of a forward mode."""
        self._kinds = {
            modes[name]._value_: kind
            for name, kind in engine.KINDS.items()
            if name in modes.__members__
        }
        if speculates:
            self._kinds = {
                value: Kind.SPECULATIVE if kind == Kind.DECODE else kind
                for value, kind in self._kinds.items()
            }

    def _follow_rows(self, scheduler: Any, chosen: Chosen) -> None:
        """Takes from the rows where sizes and counts are found."""
        arguments = getattr(scheduler, engine.ARGUMENTS, None)
        self._sizes = tuple(
            (name, getattr(arguments, argument, None) or 0) for name, argument in engine.SIZES
        )
        if getattr(arguments, engine.TRACES_REQUESTS, False):
            self.recorder.spans = request_spans.RequestSpans()
        self._sized = bool(chosen.sizes)
        self._missing += chosen.lacks
        where, self._counts, surplus = chosen.counts
        usual = where == engine.RESULT and self._counts and not surplus
        if not (usual and chosen.numbered and not chosen.early):
            stages = getattr(scheduler, "pp_size", 1) or 1
            self._older = older.Older(chosen, staged=stages > 1)

    def _hook_worker(self, start: _Start, chosen: Chosen) -> None:
        recorder = self.recorder
        for path, enter, leave in chosen.targets:
            if enter == engine.TARGET:
                make = around_target(recorder)
            else:
                note = self._note_sizes if path == chosen.sizes else None
                make = boundary(recorder, enter, leave, note)
            self._hook_path(start, path, make)
        if self._older is not None and self._older.wants_verified and chosen.sizes:
            make = with_result(recorder, self._older.keep_verified)
            self._hook_path(start, chosen.sizes, make)
        for path in chosen.ready:
            self._hook_path(start, path, before_call(recorder, recorder.mark_result))

    def _hook_graphs(self, start: _Start, chosen: Chosen) -> None:
        """Hooks what tells graphs and eager runs apart, and the steps of an eager draft."""
        recorder = self.recorder
        self._padded = chosen.padded
        if chosen.step:
            self._hook_path(start, chosen.step, before_call(recorder, recorder.mark_step))
        if chosen.steps:
            self._hook_path(start, chosen.steps, after_call(recorder, recorder.mark_steps_done))
        for path, part in chosen.graphs:
            self._has_extend |= part == Graph.DRAFT_EXTEND
            # Where the server runs without graphs there is nothing.
            if _owner_at(start, path.rpartition(".")[0]) is not None:
                make = before_call(recorder, partial(recorder.ran, part, Graph.GRAPH))
                self._hook_path(start, path, make)

    def _make_timers(self, device: str) -> str:
        """Gives the recorder what times the device; says why where nothing can."""
        torch, kind = sys.modules.get("torch"), device.partition(":")[0]
        if torch is None or not kind:
            return "The server has no torch, or names no device."
        if kind == "cpu":
            return "The server runs on the CPU, which has no timing events."
        counters = self._counters = timers.Counters()
        recorder = self.recorder
        recorder.sync, recorder.boundaries, reason = timers.make_timers(
            torch, kind, recorder.device, counters
        )
        return reason

    def _make_ranges(self) -> None:
        """Lets other tools hear of the cycles, if one can listen."""
        if any(map(os.environ.get, TOOL_VARIABLES)):
            self.recorder.ranges, self.info["ranges"] = ranges.make_ranges(sys.modules)
        else:
            self.info["ranges"] = NO_TOOL

    def _note_end_of_ranges(self, error: str) -> None:
        """Tells that NVTX failed; the ranges have switched themselves off."""
        self.recorder.ranges = None
        self.info["ranges"] = f"NVTX off: it failed with {error}"
        self.tell()

    def _note_sizes(self, args: tuple[Any, ...]) -> None:
        try:
            worker = args[0]
            sizes = []
            for name, usual in self._sizes:
                size = getattr(worker, name, usual)
                sizes.append(usual if size is None else size)
            self.recorder.speculate(*sizes)
            if self._has_extend:
                self.recorder.ran(Graph.DRAFT_EXTEND, Graph.EAGER)  # unless its graph is called
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self.fail(error)

    def _wrap_run_batch(self, original: Function) -> Function:
        recorder = self.recorder

        def run_batch(scheduler: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
            if self.active:
                self._before_run(scheduler, batch, now())
            if not recorder.open:
                return original(scheduler, batch, *args, **kwargs)
            try:
                result = original(scheduler, batch, *args, **kwargs)
            except BaseException:
                recorder.raised()
                raise
            if recorder.open:
                self._after_run(scheduler, batch, result)
            return result

        return run_batch

    def _after_run(self, scheduler: Any, batch: Any, result: Any) -> None:
        recorder = self.recorder
        began_ns = now()
        try:
            if self._older is None:
                recorder.number = batch.forward_iter
            else:
                count = getattr(scheduler, _CYCLE_COUNT)
                recorder.number = self._older.ran(result, batch, count)
            if not recorder.timing and recorder.kind == Kind.SPECULATIVE and self._sized:
                self._note_sizes((_worker_of(scheduler),))
            as_graph = getattr(result, _RAN_AS_GRAPH, None)
            if as_graph:
                recorder.ran(Graph.VERIFY, Graph.GRAPH)
                padded = _follow(scheduler, self._padded) if self._padded else None
                recorder.padded = padded if isinstance(padded, int) else 0
            elif as_graph is not None:
                recorder.ran(Graph.VERIFY, Graph.EAGER)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self.fail(error)
        recorder.own_ns += now() - began_ns

    def _before_run(self, scheduler: Any, batch: Any, time_ns: int) -> None:
        try:
            words = self._words
            looks_unwanted = words[_COMMAND] or time_ns - words[_HEARTBEAT_NS] > ABANDONED_NS
            if looks_unwanted and not self.ring.is_wanted(time_ns):
                leaving.finish(self, time_ns)
                return
            if not self._worker_known:
                self._install(scheduler, batch)
                time_ns = now()
            recorder = self.recorder
            if recorder.boundaries is not None and recorder.pending:
                self.drain(time_ns)
            if recorder.ranges is not None and recorder.ranges.error:
                self._note_end_of_ranges(recorder.ranges.error)
            # By the value: hashing an enum's member runs Python.
            kind = self._kinds.get(batch.forward_mode._value_, Kind.OTHER)
            number = getattr(scheduler, _CYCLE_COUNT, -1) + 1
            window_ns = 0
            if words[_KERNELS] != self._kernels_word or self.window is not None:
                self._look_at_kernels(number)
                window_ns = now() - time_ns
                time_ns += window_ns
            recorder.begin(time_ns, kind, len(batch.reqs), number)
            recorder.own_ns += window_ns
            if self._older is not None and self._older.is_early:
                self._older.look(batch.reqs, _look(scheduler, batch.reqs))
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self.fail(error)
        except BaseException:
            if not self._installed:  # half installed is worse than not at all
                leaving.leave(self, State.FAILED)
            raise

    def _look_at_kernels(self, number: int, *, idle: bool = False) -> None:
        """Follows the word that asks for a kernel window, and moves the one on that is open."""
        word = self._words[_KERNELS]
        if word != self._kernels_word:
            self._kernels_word = word
            self.close_window()
            if word:
                self.window = kernels.open_window(self.ring.path(), *split_kernels(word))
        if self.window is not None and not self.window.step(number, idle=idle):
            self.window = None

    def close_window(self) -> None:
        """Ends the window on kernels that is open."""
        window, self.window = self.window, None
        if window is not None:
            window.close()

    def drain(self, time_ns: int) -> None:
        """Takes in device times that have come, and keeps count of those that never will."""
        counters = self._counters
        if counters is None:  # nothing here times the device
            return
        self.recorder.drain(time_ns)
        words = self.ring.words
        words[Word.NO_EVENT] = counters.no_event
        words[Word.EVENT_LOST] = counters.lost
        words[Word.EVENT_CAPTURING] = counters.capturing
        words[Word.EVENT_OTHER_STREAM] = counters.other_stream
        if counters.failure and not self.info.get("no_device_timing"):
            self.info["no_device_timing"] = counters.failure
            self.tell()

    def _wrap_process_result(self, original: Function) -> Function:
        def process_batch_result(
            scheduler: Any, batch: Any, result: Any, *args: Any, **kwargs: Any
        ) -> Any:
            before = self._before_results(scheduler, batch, result) if self.active else None
            value = original(scheduler, batch, result, *args, **kwargs)
            if before is not None and self.active:
                self._after_results(result, before)
            return value

        return process_batch_result

    def _before_results(self, scheduler: Any, batch: Any, result: Any) -> _Before | None:
        recorder = self.recorder
        older_one = self._older
        if result is None or not self._installed:  # what old overlap schedulers begin with
            return None
        try:
            if older_one is None:
                number = batch.forward_iter
            else:
                number = older_one.number_of(result, batch)
                if not number:  # it ran before the probe came
                    return None
            since = recorder.mark_wait(number) if recorder.timing else now()
            if older_one is not None and older_one.early is not None:
                looked, older_one.early = older_one.early, None
            else:
                looked = _look(scheduler, batch.reqs)
            recorder.flush_if_due(since)  # here the host would wait for the device
            recorder.own_ns += now() - since
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self.fail(error)
            return None
        return number, *looked

    def _look_at_spans(self, requests: list[tuple[Any, int, bool]]) -> None:
        """Learns the server's own spans; where they are not what they were, nothing of them."""
        try:
            if self.recorder.spans is not None:
                self.recorder.spans.look(requests)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            faults.pass_on(error)
            self.recorder.spans = None

    def _after_results(self, result: Any, before: _Before) -> None:
        recorder = self.recorder
        number, requests, context, load = before
        try:
            since = recorder.mark_stamped(Ph.SCHEDULE) if recorder.timing else now()
            if self._older is None:
                correct = getattr(result, self._counts, None)
            else:
                correct = self._older.correct(result, requests)
            if correct is None or len(correct) != len(requests):
                correct = (None,) * len(requests)
            if recorder.spans is not None:
                self._look_at_spans(requests)
            rows = []
            # No comprehension and no function of its own: their code would be in no cache either.
            for (request, length, ended), drafts in zip(requests, correct):  # noqa: B905 - same length, and strict= costs
                if ended:
                    tokens = 0
                else:
                    kept = getattr(request, _FINISHED_LENGTH, None)  # without what follows its end
                    tokens = (len(request.output_ids) if kept is None else kept) - length
                rows.append((request.rid, drafts, tokens if tokens > 0 else 0, ended))
            recorder.results(number, rows, context, load)
            recorder.own_ns += now() - since
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self.fail(error)

    def _wrap_idle(self, original: Function) -> Function:
        recorder = self.recorder

        def on_idle(*args: Any, **kwargs: Any) -> Any:
            if self.active:
                words = self.ring.words
                calls = words[_IDLE_CALLS] = words[_IDLE_CALLS] + 1
                due = recorder.open or not calls % _IDLE_CALLS_BETWEEN_CLOCKS or recorder.pending
                # A server that sleeps while it is idle calls once a second.
                if due or words[_COMMAND] or self.window is not None:
                    self._on_idle(now())
            return original(*args, **kwargs)

        return on_idle

    def _on_idle(self, time_ns: int) -> None:
        try:
            recorder = self.recorder
            if recorder.open:
                recorder.end(time_ns, CycleFlag.ENDED_IDLE)
                recorder.flush_skipped()
            if recorder.pending and time_ns >= self._drain_at_ns:
                self._drain_at_ns = time_ns + _DRAIN_EVERY_NS
                self.drain(time_ns)
            recorder.flush()
            if self.window is not None:
                self._look_at_kernels(recorder.number, idle=True)
            if not self.ring.is_wanted(time_ns):
                leaving.finish(self, time_ns)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self.fail(error)

    def tell(self) -> None:
        """Writes what is known of this server into the ring."""
        self.ring.info({**self.info, "hooks": self._hooked, "missing": self._missing})


armed: Tracer | None = None  # the one in this process, for `leave`


def leave() -> None:
    """Leaves where no cycle comes; called by a text that was put in from outside."""
    if armed is not None:
        leaving.leave_if_idle(armed)


def _look(scheduler: Any, reqs: Any) -> _Looked:
    """What the requests of a batch have, whether they had ended, and the scheduler's load.

    Of the load as much as the scheduler shows.
    """
    before = []
    total = longest = 0
    for request in reqs:
        length = len(request.output_ids)
        ended = request.finished_reason is not None or request.is_retracted
        before.append((request, length, ended))
        context = length + len(request.origin_input_ids)
        total += context
        if context > longest:  # noqa: PLR1730 - max() costs
            longest = context
    queued = getattr(scheduler, _QUEUED, None)
    running = getattr(getattr(scheduler, _RUNNING, None), "reqs", None)
    load = (-1 if queued is None else len(queued), -1 if running is None else len(running))
    return before, (total, longest), load


def _first_of(kind: type, names: tuple[str, ...]) -> str:
    """The first of the names that `kind` has; the first of all if it has none."""
    return next((name for name in names if hasattr(kind, name)), names[0])


def _worker_of(scheduler: Any) -> Any:
    """What drives the models: releases before 0.5.3 name it by what it is."""
    for name in engine.WORKER_NAMES:
        worker = getattr(scheduler, name, None)
        if worker is not None:
            return worker
    raise LookupError("The scheduler has no worker.")


def _owner_at(start: _Start, place: str) -> Any:
    """The class or module at a place of the table, None where there is none."""
    scheduler, worker = start
    if place.startswith("module:"):
        module, _, kind = place[7:].partition(":")
        loaded = sys.modules.get(module)
        return getattr(loaded, kind, None) if kind else loaded
    head, _, rest = place.partition(".")
    if head == "worker":
        found = _follow(worker, rest) if rest else worker
    else:
        found = _follow(scheduler, place) if place else scheduler
    return None if found is None else type(found)


def _follow(start: Any, path: str) -> Any:
    """The value at a dotted path of attributes from `start`, None where it breaks off."""
    for name in path.split("."):
        start = getattr(start, name, None)
    return start
