"""Reads what kernel windows left in a thread of its own, so that rings are read meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from spectrace.analysis.kernel_classes import KernelClasses
from spectrace.attach.kernel_look import KernelLooks
from spectrace.attach.kernel_windows import names_at
from spectrace.attach.session import TraceSession
from spectrace.importing.look import look_of, with_names
from spectrace.kernels import Seen, Written
from spectrace.model import Cycle, Run
from spectrace.server.reading_thread import ReadingThread


class WindowReader:
    """As `attach.kernel_look.Reader` wants it.

    Args:
        classes: The table of classes.
        keep: Is given the run's id and what a look has seen, in that thread; returns when it is
            kept, and raises what is to be said where it cannot be.
    """

    def __init__(self, classes: KernelClasses, keep: Callable[[str, Seen], None]) -> None:
        self._classes = classes
        self._keep = keep
        self._thread = ReadingThread("spectrace-kernels")

    def named(self, written: Sequence[Written]) -> Future[list[Written]]:
        """The same with the names of their kernels, as far as they can be read."""
        return self._thread.submit(lambda: [with_names(one, names_at) for one in written])

    def kept(
        self, run: Run, cycles: Sequence[Cycle], written: Sequence[Written], asked: int
    ) -> Future[None]:
        """Has what windows show been made and kept.

        Args:
            run: The server.
            cycles: Those around the windows, the newest version of each.
            written: What the windows left, with names.
            asked: How many cycles were asked for.
        """

        def make() -> None:
            self._keep(run.run_id, look_of(run, cycles, written, self._classes.of, asked))

        return self._thread.submit(make)

    def end(self) -> None:
        """Has the thread end after what is submitted."""
        self._thread.end()


def looks_of(session: TraceSession, keep: Callable[[str, Seen], None]) -> KernelLooks:
    """The looks at the kernels of a server that a page can ask for.

    Args:
        session: The session that traces it.
        keep: As for `WindowReader`.
    """
    return KernelLooks(session, WindowReader(KernelClasses(), keep))
