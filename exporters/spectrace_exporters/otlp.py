"""Sends cycles as OTLP traces, to Jaeger, to another spectrace or to any other backend."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from spectrace.errors import SpectraceError
from spectrace.model import Cycle, Run
from spectrace.otlp.shape import Trace, trace_of
from spectrace.otlp.silent_grpc import silent
from spectrace.shown import address, words
from spectrace_exporters import ExportStats
from spectrace_exporters._counts import Counts
from spectrace_exporters._endpoint import GRPC, TRACES, endpoint_of, protocol_of
from spectrace_exporters._outcome import NO_ANSWER, Outcome
from spectrace_exporters._patience import Patience
from spectrace_exporters._sampling import Sampler, Sampling
from spectrace_exporters._settings import Settings, read_settings, switched_off
from spectrace_exporters._variables import Variables
from spectrace_exporters._waiting import Waiting, WaitingCycles

MAX_BATCH_SPANS = Settings().batch_spans
"""So many spans go into one request, unless the environment says otherwise."""

_GRACE = 0.2  # this part of the time to close is left for the worker to notice that it is over
_STUCK = 0.15  # and no more than this part is waited for one answer, unless the last took longer
_FIRST_BACKOFF_S = 0.5
_LAST_BACKOFF_S = 8.0
_LONGEST_WAIT_S = 60.0  # whatever the other side asks for
_JITTER = 0.2  # so that many senders do not come back together
_POLL_S = 0.02
_ENDED_S = 0.05


class Sender(Protocol):
    """What speaks one of the protocols."""

    def encode(self, run: Run, traces: Sequence[Trace], /) -> Any:
        """A request."""

    def send(self, request: Any, /) -> Outcome:
        """Tries once."""

    def close(self) -> None:
        """Lets go of the connection; may be called again, and from any thread."""


class OtlpExporter:
    """Sends the cycles of one run, from a thread of its own in spectrace's own process.

    A request that may be tried again is, until the time that OTEL_BSP_EXPORT_TIMEOUT gives has
    passed. Meanwhile cycles wait, up to a bound, and then the oldest are dropped and counted.

    Args:
        endpoint: URL, see `_endpoint.endpoint_of`; None leaves it to the environment.
            `_settings` and the official exporters read the other OTEL_* variables.
        run: The run; assign `run` anew when more of it is known.
        protocol: One of `_endpoint.PROTOCOLS`; None leaves it to the environment.
        sample_every: Cycles whose number it divides are sent; None for what the environment
            says, or for none but the slow ones where these are asked for.
        slow_s: Cycles that take so long, in s, are sent whatever their number.
        slow_quantile: And those that take longer than this part of the last of their kind.
        hold_s: So long a cycle waits for its results, in s.
        interval_s: So long cycles are gathered before a request, in s, like the next one None
            for what the environment says.
        max_spans: So many spans wait at most; then the oldest cycles are dropped and counted.

    Attributes:
        endpoint: The URL.
        protocol: What is spoken there.
        notices: Sentences on what of the environment could not be followed.

    Raises:
        SpectraceError: The endpoint is no http URL, or the environment wants another protocol.
    """

    def __init__(  # noqa: PLR0913 - each is a part that a person or a test may choose
        self,
        endpoint: str | None,
        run: Run,
        *,
        protocol: str | None = None,
        sample_every: int | None = None,
        slow_s: float | None = None,
        slow_quantile: float | None = None,
        hold_s: float = 2.0,
        interval_s: float | None = None,
        max_spans: int | None = None,
    ) -> None:
        _silence_libraries()
        settings = read_settings(os.environ)
        variables = Variables(TRACES, os.environ)
        spoken = self.protocol = protocol_of(protocol, variables)
        off = "" if endpoint else switched_off(os.environ)
        self.endpoint = endpoint_of(endpoint, variables, spoken)
        self.notices = (off,) if off else settings.notices
        self.run = run
        self._counts = Counts()
        self._settings = settings
        self._interval_s = settings.interval_s if interval_s is None else interval_s
        sampling = Sampling.of(sample_every, slow_s, slow_quantile) or settings.sampling
        self._sampler = Sampler(Sampling(every=0) if off else sampling)
        self._waiting = WaitingCycles(hold_s, max_spans or settings.queue_spans)
        self._sender = _sender(self.endpoint, spoken, settings)
        self._in_flight = 0, 0  # cycles and spans taken, and not settled
        self._patience = Patience()
        self._nobody_there = False  # at the last try
        self._paused_s = 0.0  # until then the other side asked for a pause, 0 if it did not
        self._news = threading.Condition()
        self._closing = threading.Event()
        self._over = threading.Event()
        self._worker = threading.Thread(target=self._work, name="otlp-exporter", daemon=True)
        self._worker.start()

    def add(self, cycles: Sequence[Cycle]) -> None:
        """Takes cycles, new or amended; returns at once, whatever the other side does.

        After `close` they are neither taken nor counted.
        """
        if self._closing.is_set():
            return
        chosen = [cycle for cycle in cycles if self._sampler.wants(cycle)]
        self._counts.leave_out(len(cycles) - len(chosen))
        now_s = time.monotonic()
        with self._news:
            if not self._closing.is_set():
                gone = [one for cycle in chosen for one in self._waiting.put(cycle, now_s)]
                self._counts.drop(len(gone), sum(one.spans for one in gone))
                self._news.notify()

    @property
    def stats(self) -> ExportStats:
        """What became of the cycles so far."""
        return self._counts.stats

    def close(self, timeout_s: float = 2.0) -> ExportStats:
        """Sends what waits and gives up what is not gone after `timeout_s` seconds.

        Where nobody answers as fast as before, or the other side has asked for a pause that is
        longer, it is given up in a fraction of a second.

        Returns:
            The final counts: what was given up is among the dropped.
        """
        if not self._over.is_set():
            deadline_s = time.monotonic() + timeout_s
            self._finish(deadline_s - timeout_s * _GRACE, timeout_s * _STUCK)
            self._over.set()
            self._sender.close()  # which ends what is under way, where the protocol can
            self._worker.join(max(0.0, min(deadline_s - time.monotonic(), _ENDED_S)))
            self._give_up()
        return self.stats

    def _finish(self, until_s: float, stuck_s: float) -> None:
        """Lets the worker send what waits, as long as that has any prospect."""
        self._nobody_there = False  # who waits to try again does so at once
        with self._news:
            self._closing.set()
            self._news.notify()
        since_s = time.monotonic()
        while self._worker.is_alive() and time.monotonic() < until_s:
            stuck = self._patience.is_over(since_s, stuck_s)
            if self._nobody_there or stuck or self._paused_s > until_s:
                return
            self._worker.join(_POLL_S)

    def _give_up(self) -> None:
        """Counts as dropped what is not known to have arrived."""
        with self._news:
            cycles, spans = self._in_flight
            if cycles and not self.stats.last_error:
                self._counts.note(NO_ANSWER)
            rest = self._waiting.drain()
            self._counts.drop(cycles + len(rest), spans + sum(one.spans for one in rest))
            self._counts.freeze()

    def _work(self) -> None:
        try:
            while self._await_cycles():
                while cycles := self._take():
                    self._deliver(cycles)
        finally:
            self._sender.close()  # again: a try that was under way may have connected anew

    def _await_cycles(self) -> bool:
        """Waits until there is something to send; False when there never will be."""
        with self._news:
            self._news.wait_for(lambda: len(self._waiting) or self._closing.is_set())
        self._closing.wait(self._interval_s)
        with self._news:
            done = self._closing.is_set() and not len(self._waiting)
            return not done and not self._over.is_set()

    def _take(self) -> list[Waiting]:
        with self._news:
            if self._over.is_set():
                return []
            taken = self._waiting.take(
                time.monotonic(), self._settings.batch_spans, everything=self._closing.is_set()
            )
            self._in_flight = len(taken), sum(waiting.spans for waiting in taken)
            return taken

    def _deliver(self, cycles: Sequence[Waiting]) -> None:
        """Sends cycles in one request; a cycle alone may need several."""
        try:
            traces = [self._settings.limits.apply(trace_of(one.cycle)) for one in cycles]
            requests = [
                (self._sender.encode(self.run, part), sum(len(trace.spans) for trace in part))
                for part in _parts(traces, self._settings.batch_spans)
            ]
        except Exception as error:  # noqa: BLE001  # the worker outlives whatever a cycle holds
            self._deliver_singly(cycles, error)
            return
        outcomes = [self._deliver_request(request, spans) for request, spans in requests]
        self._settle(len(cycles), sent=all(outcomes))

    def _deliver_singly(self, cycles: Sequence[Waiting], error: Exception) -> None:
        """One of the cycles cannot be encoded: the others can."""
        if len(cycles) > 1:
            for one in cycles:
                self._deliver([one])
            return
        self._counts.note(f"{type(error).__name__}: {error}")
        self._settle_spans(cycles[0].spans, Outcome(taken=False))
        self._settle(1, sent=False)

    def _deliver_request(self, request: Any, spans: int) -> bool:
        outcome = self._try(request)
        self._counts.note(outcome.reason)
        self._settle_spans(spans, outcome)
        return outcome.taken

    def _settle_spans(self, spans: int, outcome: Outcome) -> None:
        rejected = min(max(0, outcome.rejected), spans)  # the other side may say anything
        with self._news:
            self._counts.settle_spans(spans, sent=outcome.taken, rejected=rejected)
            cycles, left = self._in_flight
            self._in_flight = cycles, left - spans

    def _settle(self, cycles: int, *, sent: bool) -> None:
        with self._news:
            self._counts.settle(cycles, sent=sent)
            left, spans = self._in_flight
            self._in_flight = left - cycles, spans

    def _try(self, request: Any) -> Outcome:
        """Tries until somebody takes the request, refuses it for good, or it has taken too long."""
        until_s = time.monotonic() + self._settings.patience_s
        backoff_s = _FIRST_BACKOFF_S
        while True:
            outcome = self._try_once(request)
            if not outcome.again or self._over.is_set() or time.monotonic() > until_s:
                return outcome
            self._counts.note(outcome.reason)
            self._pause(outcome, backoff_s)
            if self._over.is_set():
                return outcome
            backoff_s = min(2 * backoff_s, _LAST_BACKOFF_S)

    def _try_once(self, request: Any) -> Outcome:
        self._patience.begin()
        try:
            outcome = self._sender.send(request)
        except Exception as error:  # noqa: BLE001  # the worker outlives whatever a library raises
            outcome = Outcome(taken=False, reason=f"{type(error).__name__}: {error}")
        if self._over.is_set() and not outcome.taken:  # its reason may be that we hung up
            outcome = replace(outcome, reason=self.stats.last_error or NO_ANSWER)
        self._patience.end(answered=outcome.answered)
        self._nobody_there = not outcome.answered
        return outcome

    def _pause(self, outcome: Outcome, backoff_s: float) -> None:
        """Waits for as long as the other side asks for, else no longer than until the end."""
        if outcome.wait_s is not None:
            pause_s = min(max(outcome.wait_s, backoff_s), _LONGEST_WAIT_S)
            self._paused_s = time.monotonic() + pause_s
            self._over.wait(pause_s)
            self._paused_s = 0.0
            return
        spread = 1 + _JITTER * (2 * random.random() - 1)  # noqa: S311 - no secret
        (self._over if self._closing.is_set() else self._closing).wait(backoff_s * spread)


def _parts(traces: Sequence[Trace], most: int) -> Iterator[list[Trace]]:
    """The traces together if they have at most `most` spans; of a longer one, its pieces."""
    if sum(len(trace.spans) for trace in traces) <= most:
        yield list(traces)
        return
    for trace in traces:
        for start in range(0, len(trace.spans), most):
            yield [Trace(trace.trace_id, trace.spans[start : start + most])]


def _sender(endpoint: str, protocol: str, settings: Settings) -> Sender:
    """What speaks the protocol; gRPC is imported by those alone who want it."""
    try:
        if protocol == GRPC:
            with silent():
                from spectrace_exporters._grpc import GrpcSender  # noqa: PLC0415 - see above

                return GrpcSender(endpoint, settings)
        from spectrace_exporters._http import HttpSender  # noqa: PLC0415 - likewise

        return HttpSender(endpoint, protocol, settings)
    except (ValueError, RuntimeError) as error:  # what it makes of a variable
        raise SpectraceError(
            f"OTLP cannot be sent to {address(endpoint)}: {words(str(error))}", exit_code=2
        ) from error


def _silence_libraries() -> None:
    """Keeps what OpenTelemetry logs off the terminal; what matters is in the counts."""
    logger = logging.getLogger("opentelemetry")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
