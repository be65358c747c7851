"""Counts what becomes of cycles, from the threads that add, send and close."""

from __future__ import annotations

import threading

import requests
from msgspec.structs import replace

from spectrace.shown import MOST_WORDS, words
from spectrace_exporters import ExportStats
from spectrace_exporters._outcome import NO_ANSWER


class Counts:
    """The counts of one exporter; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frozen = False
        self._stats = ExportStats()

    @property
    def stats(self) -> ExportStats:
        """The counts so far."""
        return self._stats

    def drop(self, cycles: int, spans: int) -> None:
        """Cycles were given up before they were sent."""
        self._add(dropped_cycles=cycles, dropped_spans=spans)

    def leave_out(self, cycles: int) -> None:
        """Sampling left cycles out."""
        self._add(unsampled_cycles=cycles)

    def settle(self, cycles: int, *, sent: bool) -> None:
        """Cycles were sent, or tried in vain."""
        self._add(**{"sent_cycles" if sent else "failed_cycles": cycles})

    def settle_spans(self, spans: int, *, sent: bool, rejected: int = 0) -> None:
        """Spans were taken, some of which were rejected then, or were tried in vain."""
        name = "sent_spans" if sent else "failed_spans"
        self._add(**{name: spans, "rejected_spans": rejected})

    def note(self, error: str) -> None:
        """Something went wrong; what others say of it is in what an exception says, too."""
        error = words(error, 2 * MOST_WORDS)
        with self._lock:
            if error and not self._frozen:
                self._stats = replace(self._stats, last_error=error)

    def freeze(self) -> None:
        """Nothing counts from now on: what was under way has been counted as dropped."""
        with self._lock:
            self._frozen = True

    def _add(self, **more: int) -> None:
        with self._lock:
            if not self._frozen:
                sums = {name: getattr(self._stats, name) + count for name, count in more.items()}
                self._stats = replace(self._stats, **sums)


def why(error: BaseException | None) -> str:
    """The reason at the bottom of an error of `requests`, such as "connection refused"."""
    if error is None or isinstance(error, requests.Timeout):
        return NO_ANSWER
    reason = str(error)
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror.lower()
        reason = str(inner) or reason
        # `requests` and urllib3 hold the error below in an argument or an attribute.
        below = [getattr(inner, "reason", None), *inner.args, inner.__cause__, inner.__context__]
        inner = next((one for one in below if isinstance(one, BaseException)), None)
    return reason
