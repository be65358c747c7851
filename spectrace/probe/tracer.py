"""Puts the hooks into a scheduler, follows the control word, and takes everything out again."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns as now
from typing import TYPE_CHECKING, Any

from .engines import sglang as engine
from .hooks import Patches, boundary, counts_ready, holder_of
from .layout import ABANDONED_NS, QUIET_NS, Command, CycleFlag, Kind, Ph, RecordType, State, Word
from .recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from .ring import RingWriter

Function = Any
_IDLE_CALLS_BETWEEN_CLOCKS = 64  # the idle call comes more than 10,000 times a second


class Tracer:
    """The probe in one scheduler process, from arming to leaving.

    Nothing here may raise into the server: what goes wrong is written into the ring and
    takes the probe out. `Exception` alone is caught: a KeyboardInterrupt or SystemExit that
    a signal handler raises while our code runs is the server's.

    Args:
        ring: The ring, already mapped.
        forget: Called last when the probe leaves; removes its modules.
    """

    def __init__(self, ring: RingWriter, forget: Callable[[], None]) -> None:
        self._ring = ring
        self._forget = forget
        self._recorder = Recorder(ring)
        self._patches = Patches()
        self._hooked: list[str] = []
        self._missing: list[str] = []
        self._info: dict[str, Any] = {}
        self._kinds: dict[Any, int] = {}
        self._worker_known = False
        self._active = False
        self._idle_calls = 0

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
        self._info = {
            "engine": f"sglang {version}",
            "python": sys.version.split()[0],
            "torch": str(torch),
        }
        try:
            self._hook_scheduler(scheduler)
            self._tell()
            # A reader that dies before its first sign of life must not leave the probe behind.
            self._ring.words[Word.HEARTBEAT_NS] = now()
        except BaseException:  # a signal handler's too: half armed is worse than not at all
            self._active = False
            self._patches.restore()
            raise

    def _hook_scheduler(self, scheduler: type) -> None:
        self._active = True
        for name, make in (
            (engine.RUN_BATCH, self._wrap_run_batch),
            (engine.PROCESS_RESULT, self._wrap_process_result),
            (engine.IDLE, self._wrap_idle),
        ):
            self._hook(scheduler, name, make)
        if self._missing:
            raise LookupError(f"{self._info['engine']} has no {', '.join(self._missing)}")

    def fail(self, error: BaseException) -> None:
        """Writes down an error of the probe's own and takes the probe out; never raises."""
        if not self._active:
            return
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
        text = f"{type(error).__name__}: {error} at {place}"
        self._info["error"] = text
        with suppress(Exception):
            self._ring.text(RecordType.ERROR, 0, text)
        self._leave(State.FAILED)

    def _hook(self, holder: type, name: str, make: Callable[[Function], Function]) -> None:
        owner = holder_of(holder, name)
        label = f"{holder.__name__}.{name}"
        if owner is not None and self._patches.put(owner, name, make):
            self._hooked.append(label)
        else:
            self._missing.append(label)

    def _hook_place(
        self, scheduler: Any, place: str, name: str, make: Callable[[Function], Function]
    ) -> None:
        """Hooks a function of the object at `place`, or of a module; notes what is not there."""
        module = place.removeprefix("module:")
        if module == place:
            owner = _follow(scheduler, place)
            if owner is None:
                self._missing.append(f"{place}.{name}")
            else:
                self._hook(type(owner), name, make)
            return
        loaded = sys.modules.get(module)
        label = f"{module.rpartition('.')[2]}.{name}"
        if loaded is not None and self._patches.put(loaded, name, make):
            self._hooked.append(label)
        else:
            self._missing.append(label)

    @staticmethod
    def _row_of(worker: type) -> Any:
        ancestors = [kind.__name__ for kind in worker.__mro__]
        known = (row for row in engine.WORKERS if row.worker in ancestors)
        return next(known, engine.UNKNOWN_WORKER)

    def _install(self, scheduler: Any, batch: Any) -> None:
        """Hooks the worker that this scheduler drives."""
        began_ns = now()
        self._worker_known = True
        modes = type(batch.forward_mode)
        self._kinds = {
            modes[name]: kind for name, kind in engine.KINDS.items() if name in modes.__members__
        }
        worker = getattr(scheduler, engine.WORKER)
        row = self._row_of(type(worker))
        for place, function, enter, leave in row.targets:
            self._hook_place(scheduler, place, function, boundary(self._recorder, enter, leave))
        if hasattr(worker, engine.VERIFY):
            begin, end = row.verify
            make = boundary(self._recorder, begin, end, self._note_verify)
            self._hook_place(scheduler, engine.WORKER, engine.VERIFY, make)
        for place, function in engine.COUNTS_READY:
            self._hook_place(scheduler, place, function, counts_ready(self._recorder))
        algorithm = getattr(scheduler, "spec_algorithm", None)
        self._info.update(
            worker=type(worker).__name__,
            known_worker=row is not engine.UNKNOWN_WORKER,
            algorithm=str(getattr(algorithm, "name", algorithm)),
            overlap=bool(getattr(scheduler, "enable_overlap", False)),
            device=str(getattr(scheduler, "device", "")),
        )
        self._tell()
        words = self._ring.words
        words[Word.INSTALL_NS] = now() - began_ns
        words[Word.STATE] = State.TRACING

    def _note_verify(self, args: tuple[Any, ...]) -> None:
        try:
            worker = args[0]
            self._recorder.speculate(
                getattr(worker, engine.STEPS, 0),
                getattr(worker, engine.TOPK, 0),
                getattr(worker, engine.DRAFT_TOKENS, 0),
            )
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self.fail(error)

    def _wrap_run_batch(self, original: Function) -> Function:
        recorder = self._recorder

        def run_batch(scheduler: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
            if self._active:
                self._before_run(scheduler, batch, now())
            if not recorder.open:
                return original(scheduler, batch, *args, **kwargs)
            try:
                result = original(scheduler, batch, *args, **kwargs)
            except BaseException:
                recorder.raised()
                raise
            if recorder.open:
                began_ns = now()
                try:
                    recorder.number = batch.forward_iter
                except Exception as error:  # noqa: BLE001 - nothing may reach the server
                    self.fail(error)
                recorder.charge(now() - began_ns)
            return result

        return run_batch

    def _before_run(self, scheduler: Any, batch: Any, time_ns: int) -> None:
        try:
            if self._asked_to_leave(time_ns):
                self._finish(time_ns)
                return
            if not self._worker_known:
                self._install(scheduler, batch)
                time_ns = now()
            kind = self._kinds.get(batch.forward_mode, Kind.OTHER)
            self._recorder.begin(time_ns, kind, len(batch.reqs))
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self.fail(error)

    def _wrap_process_result(self, original: Function) -> Function:
        def process_batch_result(
            scheduler: Any, batch: Any, result: Any, *args: Any, **kwargs: Any
        ) -> Any:
            before = self._before_results(batch) if self._active else None
            value = original(scheduler, batch, result, *args, **kwargs)
            if before is not None and self._active:
                self._after_results(batch, result, before)
            return value

        return process_batch_result

    def _before_results(self, batch: Any) -> list[tuple[Any, int, bool]] | None:
        """The batch's requests with their output's length and whether they had ended."""
        recorder = self._recorder
        try:
            if recorder.timing:
                recorder.mark_wait(batch.forward_iter)
            began_ns = now()
            before = [
                (request, _output_length(request), request.is_retracted or request.finished())
                for request in batch.reqs
            ]
            recorder.charge(now() - began_ns)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self.fail(error)
            return None
        return before

    def _after_results(self, batch: Any, result: Any, before: list[tuple[Any, int, bool]]) -> None:
        recorder = self._recorder
        try:
            if recorder.timing:
                recorder.mark(Ph.SCHEDULE)
            began_ns = now()
            correct = getattr(result, engine.CORRECT_DRAFTS, None)
            if correct is None or len(correct) != len(before):
                correct = [None] * len(before)
            recorder.results(
                batch.forward_iter,
                [
                    (request.rid, drafts, max(0, _output_length(request) - length), ended)
                    for (request, length, ended), drafts in zip(before, correct)  # noqa: B905 - same length, and strict= costs
                ],
                engine.HEALTH_CHECK_PREFIX,
            )
            recorder.charge(now() - began_ns)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self.fail(error)

    def _wrap_idle(self, original: Function) -> Function:
        recorder = self._recorder

        def on_idle(*args: Any, **kwargs: Any) -> Any:
            if self._active:
                calls = self._idle_calls = self._idle_calls + 1
                due = recorder.open or not calls % _IDLE_CALLS_BETWEEN_CLOCKS
                if due or self._ring.words[Word.COMMAND]:
                    self._on_idle(now())
            return original(*args, **kwargs)

        return on_idle

    def _on_idle(self, time_ns: int) -> None:
        try:
            if self._recorder.open:
                self._recorder.end(time_ns, CycleFlag.ENDED_IDLE)
            self._ring.words[Word.IDLE_CALLS] = self._idle_calls
            if self._asked_to_leave(time_ns):
                self._finish(time_ns)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self.fail(error)

    def _asked_to_leave(self, time_ns: int) -> bool:
        words = self._ring.words
        return (
            words[Word.COMMAND] == Command.DETACH
            or time_ns - words[Word.HEARTBEAT_NS] > ABANDONED_NS
        )

    def _finish(self, time_ns: int) -> None:
        """Leaves at a cycle boundary; where no reader is left it also removes its file."""
        if self._recorder.open:
            self._recorder.end(time_ns)
        abandoned = time_ns - self._ring.words[Word.HEARTBEAT_NS] > QUIET_NS
        path = self._ring.path() if abandoned else ""
        self._leave(State.DETACHED)
        if path:
            Path(path).unlink(missing_ok=True)

    def _tell(self) -> None:
        self._ring.info({**self._info, "hooks": self._hooked, "missing": self._missing})

    def _leave(self, state: int) -> None:
        """Restores the functions, says so, and lets go of everything; never raises.

        Each step is taken even if one before it failed: nothing is worth an exception in
        the server.
        """
        self._active = False
        self._recorder.open = self._recorder.timing = False
        with suppress(Exception):
            self._info["foreign"] = self._patches.restore()
        with suppress(Exception):
            self._tell()
        with suppress(Exception):
            self._forget()
        with suppress(Exception):
            self._ring.words[Word.STATE] = state
        with suppress(Exception):
            self._ring.close()


def _output_length(request: Any) -> int:
    """Tokens of a request's output, without what came behind its end."""
    length = getattr(request, engine.FINISHED_LENGTH, None)
    return len(request.output_ids) if length is None else length


def _follow(start: Any, path: str) -> Any:
    """The value at a dotted path of attributes from `start`, None where it breaks off."""
    for name in path.split("."):
        start = getattr(start, name, None)
    return start
