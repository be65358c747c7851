"""Where cycles come together: from their source into the store, the live stream and the state."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from spectrace import __version__
from spectrace.analysis.summary import summarize
from spectrace.errors import SpectraceError
from spectrace.kernels import Seen
from spectrace.metrics.meter import Meter
from spectrace.model import Cycle, OtherSpan, Run
from spectrace.otlp.join import JoinStats
from spectrace.otlp.receive import reasons_of
from spectrace.server.control import Control
from spectrace.server.live import Live, cycles_event, requests_event, state_event
from spectrace.server.recorder import Recorder
from spectrace.server.requests import MAX_REQUESTS, Requests
from spectrace.server.state import (
    LOST_AFTER_S,
    Digest,
    Life,
    LostCycles,
    LostSpans,
    RecordingState,
    RunFacts,
    RunState,
    ServerState,
    Source,
    life_of,
    names_of,
    ranks_of,
    span_s,
    stored_of,
)
from spectrace.server.wire import encode_cycle
from spectrace.store.source import CycleSource, Stats
from spectrace.store.store import CycleStore

WINDOW_S = 10.0  # that the summary is made of
GREETING_CYCLES = 200  # of each run, when a browser joins
_PASS_ON_S = 0.1
_PASSES_ON_WITHIN_S = 10.0  # however busy the machine is
_REFRESH_S = 0.5
_REST = 4  # times as long as a refresh took nothing is refreshed: a fifth of a CPU at most
_WAITING_CYCLES = 20_000
_WAITING_SPANS = 100_000
_REMEMBERED_SPANS = 100_000  # that are looked at for requests when a store is opened
_RUNS = 64
_NS_PER_S = 1_000_000_000
_LOG = logging.getLogger(__name__)


class _Entry:
    """What the hub knows about one run."""

    def __init__(self, run: Run, source: Source) -> None:
        self.run = run
        self.source = source
        self.facts = RunFacts()
        self.ended: tuple[Life, str] | None = None
        self.fed_s = self.seen_s = -math.inf
        self.is_stale = True
        self.digest = Digest()
        self.stats = Stats(
            cycles=0, bytes=0, first_ns=None, last_ns=None, first_n=None, last_n=None
        )

    @property
    def is_traced_here(self) -> bool:
        """Whether a session in this process follows it."""
        return self.source is Source.ATTACHED and self.ended is None


class Hub:
    """Takes cycles from any thread and passes them on from the event loop.

    Args:
        store: What the page reads from.
        sink: The same store, where cycles are to be added; None for a recording.
        meter: Has the metrics; one of its own if not given.
        clock_s: A clock that never goes back, in s.

    Attributes:
        store: What the page reads from.
        live: The browsers that listen.
        requests: What other people's spans say, also those that the store holds already; on the
            event loop only.
        meter: The metrics. Cycles that are received reach it through here, those of a session
            that is traced here by a tap of their own, which also works without a page.
        otlp_endpoint: Where spans can be sent to by HTTP; None where nothing is received.
        grpc_endpoint: The same by gRPC.
        attaches: Whether the page may have servers of this machine attached to.
        recorder: Records runs into files, where somebody on the page asked for it.
    """

    def __init__(
        self,
        store: CycleSource,
        *,
        sink: CycleStore | None = None,
        meter: Meter | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.live = Live()
        self.requests = Requests()
        self.requests.add(store.other_spans(_REMEMBERED_SPANS))
        self.meter = meter or Meter()
        self.otlp_endpoint: str | None = None
        self.grpc_endpoint: str | None = None
        self.attaches = False
        self._controls: dict[str, Control] = {}  # of servers that are traced here, or were
        self.recorder = Recorder()
        self._sink = sink
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._waiting: list[Cycle] = []
        self._waiting_spans: list[OtherSpan] = []
        self._when_passed_on: list[threading.Event] = []
        self._lost_cycles = self._lost_spans = 0
        self._joined = JoinStats()
        self._refused: Counter[str] = Counter()
        self._retain_s = store.stats().retain_s
        source = Source.FILE if sink is None else Source.RECEIVED
        self._entries = {run.run_id: _Entry(run, source) for run in store.runs()}

    @property
    def receives(self) -> bool:
        """Whether cycles can come in."""
        return self._sink is not None

    @property
    def lost_spans(self) -> LostSpans:
        """Spans that were sent here and are not stored."""
        sink = self._sink
        with self._lock:
            return LostSpans(
                stored=self._lost_spans + (0 if sink is None else sink.lost_spans),
                problem="" if sink is None else sink.spans_problem,
                refused=self._refused.total(),
                reasons=reasons_of(self._refused),
                unjoined=self._joined.lost,
                evicted=self._joined.evicted,
                partial=self._joined.partial,
            )

    @property
    def lost_cycles(self) -> LostCycles:
        """Cycles that came here and are not stored; never waits."""
        sink = self._sink
        if sink is None:
            return LostCycles(self._lost_cycles)
        return LostCycles(self._lost_cycles + sink.lost_cycles, sink.problem)

    @property
    def is_behind(self) -> bool:
        """Whether whoever can wait should: half of what can wait here or at the store does."""
        is_full = len(self._waiting) > _WAITING_CYCLES // 2
        return is_full or (self._sink is not None and self._sink.is_behind)

    def put_run(self, run: Run, source: Source) -> bool:
        """Takes in what is known about a run, in place of what was known before.

        A run that had been declared ended goes on. Beyond 64 runs the one that was silent for
        longest goes.

        Returns:
            False where the run is traced from here, and somebody else sends it too: that of
            the sender is not wanted.
        """
        with self._lock:
            entry = self._entries.get(run.run_id)
            if entry is not None and entry.is_traced_here and source is not Source.ATTACHED:
                return False
            is_news = entry is None or entry.run != run
            if entry is None or entry.source is not source:
                entry = self._entries[run.run_id] = _Entry(run, source)
            entry.run, entry.ended, entry.seen_s = run, None, self._clock_s()
            self._make_room(entry)
        if source is Source.RECEIVED:
            self.meter.put_run(run)
        if is_news and self._sink is not None:
            self._sink.put_run(run)
            self.recorder.put_run(run)
        return True

    def _make_room(self, newcomer: _Entry) -> None:
        others = (one for one in self._entries.values() if one is not newcomer)
        idle = sorted((one for one in others if not one.is_traced_here), key=lambda one: one.seen_s)
        for one in idle[: max(0, len(self._entries) - _RUNS)]:
            self._forget(one.run.run_id)

    def _forget(self, run_id: str) -> None:
        del self._entries[run_id]
        self._controls.pop(run_id, None)
        self.meter.forget(run_id)

    def tell(self, run_id: str, facts: RunFacts) -> None:
        """Takes in what a source knows about its run beside the cycles."""
        with self._lock:
            if run_id in self._entries:
                self._entries[run_id].facts = facts

    def end(self, run_id: str, life: Life, message: str) -> None:
        """Declares a run ended: what was collected stays, and the page says why.

        Args:
            run_id: The run.
            life: `SERVER_GONE` or `DETACHED`.
            message: A sentence for people.
        """
        with self._lock:
            if run_id in self._entries:
                self._entries[run_id].ended = life, message

    def feed(self, cycles: Iterable[Cycle]) -> None:
        """Takes in cycles, new or amended, of runs that were put before.

        It never waits; when nothing is passed on for long, the oldest are lost.
        """
        now_s = self._clock_s()
        received = []
        with self._lock:
            for cycle in cycles:
                entry = self._entries.get(cycle.run_id)
                if entry is not None and cycle.ranks:
                    entry.fed_s = entry.seen_s = now_s
                    self._waiting.append(cycle)
                    if entry.source is Source.RECEIVED:
                        received.append(cycle)
            self._lost_cycles += max(0, len(self._waiting) - _WAITING_CYCLES)
            del self._waiting[:-_WAITING_CYCLES]
        if received:
            self.meter.add(received)

    def feed_spans(self, spans: Iterable[OtherSpan]) -> None:
        """Takes in spans of other people; when nothing is passed on, the oldest are lost."""
        with self._lock:
            self._waiting_spans += spans
            self._lost_spans += max(0, len(self._waiting_spans) - _WAITING_SPANS)
            del self._waiting_spans[:-_WAITING_SPANS]

    def add_look(self, run_id: str, seen: Seen) -> None:
        """Stores a look at the kernels of a run, behind the cycles that were fed; waits for that.

        Not to be called on the event loop.

        Raises:
            SpectraceError: It cannot be stored.
        """
        if self._sink is None:
            return
        passed_on = threading.Event()
        with self._lock:
            self._when_passed_on.append(passed_on)
        passed_on.wait(_PASSES_ON_WITHIN_S)
        self._sink.add_look(run_id, seen)
        with self._lock:
            if run_id in self._entries:
                self._entries[run_id].is_stale = True
        try:
            self.recorder.add_look(run_id, seen)
        except SpectraceError as error:  # it is on the page, and the recording goes on
            _LOG.warning("%s", error)

    def refuse_spans(self, refused: Counter[str]) -> None:
        """Counts spans that were sent here and refused, by reason."""
        with self._lock:
            self._refused += refused

    def tell_joined(self, stats: JoinStats) -> None:
        """Takes in what has become of the spans of cycles so far."""
        with self._lock:
            self._joined = msgspec.structs.replace(stats)

    async def run(self) -> None:
        """Passes on and keeps the state fresh until it is cancelled."""
        await asyncio.gather(self._pass_on_forever(), self._refresh_forever())

    async def _pass_on_forever(self) -> None:
        while True:
            try:
                self.pass_on()
            except Exception:  # noqa: BLE001 - one bad batch must not end the live stream
                _LOG.exception("Cycles could not be passed on; the next ones will be tried.")
            await asyncio.sleep(_PASS_ON_S)

    def pass_on(self) -> None:
        """Gives what was fed to the store and to the browsers; on the event loop only."""
        with self._lock:
            cycles, self._waiting = self._waiting, []
            spans, self._waiting_spans = self._waiting_spans, []
            passed_on, self._when_passed_on = self._when_passed_on, []
        if spans:
            self._pass_on_spans(spans)
        if cycles:
            self._pass_on_cycles(cycles)
        for event in passed_on:
            event.set()

    def _pass_on_cycles(self, cycles: Sequence[Cycle]) -> None:
        if self._sink is not None:
            self._sink.add(cycles, wait=False)
            self.recorder.add(cycles)
        with self._lock:  # only now: a refresh meanwhile could not have seen them
            for run_id in {cycle.run_id for cycle in cycles} & self._entries.keys():
                self._entries[run_id].is_stale = True
        if self.live.listeners:
            self.live.publish([encode_cycle(cycle) for cycle in _by_start(cycles)])

    def _pass_on_spans(self, spans: Iterable[OtherSpan]) -> None:
        taken = self.requests.add(spans)
        if self._sink is not None:
            self._sink.add_spans(taken.fresh)
            self.recorder.add(spans=taken.fresh)
        self.live.publish_requests(taken.changed)

    async def _refresh_forever(self) -> None:
        while True:
            began_s = time.monotonic()
            try:
                await asyncio.to_thread(self.refresh)
                self._forget_requests()
                self.live.publish_state(self.encoded_state())
            except SpectraceError as error:  # as where the store is damaged
                _LOG.warning("%s", error)
            except Exception:  # noqa: BLE001 - the same holds for the state
                _LOG.exception("The state could not be refreshed; it will be tried again.")
            took_s = time.monotonic() - began_s
            await asyncio.sleep(max(_REFRESH_S - took_s, _REST * took_s))

    def refresh(self) -> None:
        """Sums up the runs of which something new has come; forgets those of which all is gone."""
        self._forget_expired()
        with self._lock:
            stale = [entry for entry in self._entries.values() if entry.is_stale]
            for entry in stale:
                entry.is_stale = False
            quiet = not self._waiting
            ended = {run_id for run_id, one in self._entries.items() if one.ended and quiet}
        self.recorder.refresh(ended)
        for entry in stale:
            entry.stats = self.store.stats(entry.run.run_id)
            entry.digest = digest(self.store.recent(entry.run.run_id, WINDOW_S))

    def _forget_expired(self) -> None:
        if self._sink is None:
            return
        held = {run.run_id for run in self.store.runs()}
        before_s = self._clock_s() - LOST_AFTER_S
        with self._lock:
            for run_id, entry in list(self._entries.items()):
                is_quiet = entry.seen_s < before_s and not entry.is_traced_here
                if is_quiet and entry.stats.cycles and run_id not in held:
                    self._forget(run_id)

    def _forget_requests(self) -> None:
        """Forgets requests of a time whose slices the store forgets; on the event loop only."""
        if self._retain_s is not None:
            with self._lock:
                last = [entry.stats.last_ns or 0 for entry in self._entries.values()]
            newest_ns = max([self.requests.changed_ns, *last])
            kept_ns = min(newest_ns, time.time_ns()) - round(self._retain_s * _NS_PER_S)
            self.requests.forget(kept_ns)

    def encoded_state(self) -> bytes:
        """The JSON of the state."""
        return msgspec.json.encode(self.state())

    def state(self) -> ServerState:
        """What the page knows at once, with the figures of the last `refresh`."""
        with self._lock:
            entries = list(self._entries.values())
        return ServerState(
            version=__version__,
            runs=tuple(self._run_state(entry) for entry in entries),
            otlp_endpoint=self.otlp_endpoint,
            grpc_endpoint=self.grpc_endpoint,
            lost_spans=self.lost_spans,
            attaches=self.attaches,
        )

    def _run_state(self, entry: _Entry) -> RunState:
        run, facts = entry.run, entry.facts
        life, message = entry.ended or life_of(
            entry.source, run.host, self._clock_s() - entry.fed_s
        )
        control = self._controls.get(run.run_id)
        sentences = (message, facts.message, entry.stats.problem)
        reporting = facts.reporting
        return RunState(
            run=run.run_id,
            host=run.host,
            server_pid=run.server_pid,
            command=run.command,
            engine=run.engine,
            source=entry.source,
            state=life,
            message=" ".join(filter(None, sentences)),
            ranks=ranks_of(run, entry.digest.ranks if reporting is None else reporting),
            modes=entry.digest.modes,
            steerable=self.control_of(run.run_id) is not None,
            worker=facts.worker,
            algorithm=facts.algorithm,
            overlap=facts.overlap,
            device=facts.device,
            lost=msgspec.structs.replace(facts.lost, stored=self._lost_cycles + entry.stats.lost),
            timing=facts.timing,
            sample_every=facts.sample_every,
            skipped=facts.skipped,
            notes=facts.notes,
            summary=entry.digest.summary,
            stored=stored_of(entry.stats),
            recording=self.recorder.state(run.run_id),
            looking=None if control is None else control.looking,
            looks=entry.stats.looks,
        )

    def record(self, run_id: str, name: str, max_bytes: int) -> RecordingState:
        """Records what comes of a run from now on, as `Recorder.start`.

        Raises:
            SpectraceError: Nothing comes of it, or it cannot be recorded.
        """
        with self._lock:
            entry = self._entries.get(run_id)
            run = None if entry is None or entry.ended or self._sink is None else entry.run
        if run is None:
            raise SpectraceError(
                "Nothing comes from this run any more: save what is collected instead."
            )
        return self.recorder.start(run, name, max_bytes)

    def control_of(self, run_id: str) -> Control | None:
        """What can be asked of the server of a run; None where it is not traced from here."""
        entry = self._entries.get(run_id)
        return self._controls.get(run_id) if entry is not None and entry.is_traced_here else None

    def steer(self, control: Control) -> None:
        """Takes in what can be asked of a server that is traced here, or is about to be."""
        self._controls[control.run_id] = control

    def is_traced_here(self, run_id: str) -> bool:
        """Whether a session in this process follows a run, or is about to."""
        entry = self._entries.get(run_id)
        return run_id in self._controls if entry is None else entry.is_traced_here

    def first_ns(self, run_id: str) -> int | None:
        """When the oldest stored cycle of a run began, UNIX ns, as of the last `refresh`."""
        entry = self._entries.get(run_id)
        return None if entry is None else entry.stats.first_ns

    def knows(self, run_id: str) -> bool:
        """Whether there is such a run."""
        return run_id in self._entries

    async def greeting(self) -> list[bytes]:
        """The events for a browser that joins: state, requests, the newest cycles of each run."""
        newest = await asyncio.to_thread(self._newest_of_all)
        requests = self.requests.newest(MAX_REQUESTS)
        return [
            state_event(self.encoded_state()),
            *([requests_event(requests)] if requests else []),
            *(cycles_event(map(encode_cycle, cycles)) for cycles in newest if cycles),
        ]

    def _newest_of_all(self) -> list[list[Cycle]]:
        with self._lock:
            runs = list(self._entries)
        return [self._newest(run_id) for run_id in runs]

    def _newest(self, run_id: str) -> list[Cycle]:
        if self._sink is not None and (newest := self._sink.newest(run_id, GREETING_CYCLES)):
            return newest
        groups = self.store.groups(run_id)
        pages = [self.store.cycles(run_id, group=one, limit=GREETING_CYCLES) for one in groups]
        return _by_start([cycle for page in pages for cycle in page])[-GREETING_CYCLES:]


def digest(cycles: Sequence[Cycle]) -> Digest:
    """What the newest cycles of a run show; they span `WINDOW_S` at most."""
    if not cycles:
        return Digest()
    modes, ranks = names_of(cycles)
    summary = summarize(cycles, span_s(cycles, WINDOW_S))
    return Digest(modes=modes, ranks=ranks, summary=msgspec.Raw(msgspec.json.encode(summary)))


def _by_start(cycles: Iterable[Cycle]) -> list[Cycle]:
    return sorted(cycles, key=lambda cycle: cycle.start_ns)
