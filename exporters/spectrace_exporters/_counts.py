"""Counts what becomes of cycles, from the threads that add, send and close."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Sequence

import requests
from msgspec.structs import replace

from spectrace.model import Cycle
from spectrace.otlp.encode import span_count
from spectrace_exporters import ExportStats

NO_ANSWER = "no answer"
_SAYS_NO_WHY = re.compile("[Ss]hutdown")


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

    def drop(self, cycles: Sequence[Cycle]) -> None:
        """Cycles were given up before they were sent."""
        self._add(dropped_cycles=len(cycles), dropped_spans=sum(map(span_count, cycles)))

    def settle(self, cycles: int, spans: int, *, sent: bool) -> None:
        """Cycles were sent, or tried in vain."""
        if sent:
            self._add(sent_cycles=cycles, sent_spans=spans)
        else:
            self._add(failed_cycles=cycles, failed_spans=spans)

    def reject(self, spans: int, reason: str) -> None:
        """The other side took spans and did not store them."""
        self._add(rejected_spans=spans)
        self.note(reason)

    def note(self, error: str) -> None:
        """Something went wrong."""
        with self._lock:
            if not self._frozen:
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


class ErrorsOfThisThread(logging.Handler):
    """Keeps what a library logs on the thread that made this, instead of showing it.

    Args:
        counts: Where it is kept.
    """

    def __init__(self, counts: Counts) -> None:
        super().__init__(logging.WARNING)
        self._counts = counts
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the message as the last error, unless it only says that there was one."""
        if record.thread == self._thread and not _SAYS_NO_WHY.search(record.msg):
            errors = [one for one in record.args or () if isinstance(one, Exception)]
            self._counts.note(why(errors[0]) if errors else record.getMessage())


def why(error: BaseException) -> str:
    """The reason at the bottom of an error of `requests`, such as "connection refused"."""
    if isinstance(error, requests.Timeout):
        return NO_ANSWER
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror.lower()
        # `requests` and urllib3 hold the error below in an argument or an attribute.
        below = [getattr(inner, "reason", None), *inner.args, inner.__cause__, inner.__context__]
        inner = next((one for one in below if isinstance(one, BaseException)), None)
    return str(error)
