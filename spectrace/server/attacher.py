"""Attaches to servers of this machine where the page asks for it, follows and leaves them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence

from spectrace.attach import discover, prospect, ring_file
from spectrace.attach.handle import Options, TakenOut
from spectrace.attach.modes import MODES
from spectrace.attach.prospect import Prospect
from spectrace.attach.session import TraceSession
from spectrace.attach.tapped import Tap, TappedSession
from spectrace.errors import SpectraceError
from spectrace.model import Run, TimingMode
from spectrace.server.control import SessionControl
from spectrace.server.hub import Hub
from spectrace.server.kernel_reader import looks_of
from spectrace.server.metered import MeterTap
from spectrace.server.state import Life
from spectrace.server.traced import ENDS, PageTap

_POLL_S = 0.05
_LOG = logging.getLogger(__name__)


class Attacher:
    """The servers that were attached to from a page; from any thread.

    Each is followed by a thread of its own, as the command `attach` follows one in its main
    thread: what is found goes to the page and into the metrics.

    Args:
        hub: The page.
        note: Is told, in sentences, what becomes of servers.
        refusal: Why this page attaches to nothing, a sentence; empty where it does.
        session: Makes the session of a server; tests bring their own.
    """

    def __init__(
        self,
        hub: Hub,
        note: Callable[[str], None] = lambda _: None,
        *,
        refusal: str = "",
        session: Callable[[Run, Options], TraceSession] = lambda run, options: TraceSession(
            run, options=options
        ),
    ) -> None:
        self.refusal = refusal
        self._hub = hub
        self._note = note
        self._session = session
        self._one_at_a_time = threading.Lock()
        self._attaching_to = 0
        self._closed = False
        self._followed: list[_Followed] = []
        hub.attaches = not refusal

    def look(self) -> list[Prospect]:
        """The servers of this machine, also those that are traced from here."""
        return prospect.look()

    def attach(self, pid: int, *, run_id: str | None = None, mode: TimingMode | None = None) -> Run:
        """Puts the probe into a server, or reads along, until it is left, ends, or `close`.

        Args:
            pid: Any process of it.
            run_id: Which server the page means: process ids are used again.
            mode: How it is timed; as `Options` says if not given.

        Raises:
            SpectraceError: It cannot be attached to, it is traced here already, or another one
                is just being attached to. Nothing is left behind in it.
        """
        if not self._one_at_a_time.acquire(blocking=False):
            raise SpectraceError(
                f"Attaching to process {self._attaching_to} is under way: one at a time. Try "
                "again in a few seconds."
            )
        try:
            self._attaching_to = pid
            if self._closed:
                raise SpectraceError("spectrace is just ending: it attaches to nothing more.")
            return self._begin(pid, run_id, mode)
        finally:
            self._one_at_a_time.release()

    def _begin(self, pid: int, run_id: str | None, mode: TimingMode | None) -> Run:
        ring_file.sweep()  # what a killed spectrace and then a killed server left behind
        run = discover.find_by_pid(pid)
        if run_id not in {None, run.run_id}:
            raise SpectraceError(f"Process {pid} is of another server by now: look again.")
        if self._hub.is_traced_here(run.run_id):
            raise SpectraceError(f"Server {run.server_pid} is traced on this page already.")
        session = self._session(run, Options(mode=None if mode is None else MODES[mode]))
        looks = looks_of(session, self._hub.add_look)
        taps: list[Tap] = [PageTap(self._hub), MeterTap(self._hub.meter), looks]
        followed = _Followed(TappedSession(session, taps), self._hub, self._note)
        followed.start()
        self._followed = [one for one in self._followed if one.is_alive()] + [followed]
        self._hub.steer(SessionControl(session, looks, followed.stop, may_leave_others=True))
        ranks = ", ".join(f"{rank.name} (process {rank.pid})" for rank in run.ranks)
        self._note(f"Attached from the page to server {run.server_pid}: {ranks}.")
        return run

    def close(self) -> None:
        """Leaves all servers; returns when the probe is out of them."""
        with self._one_at_a_time:
            self._closed = True
        for one in self._followed:
            one.stop()
        for one in self._followed:
            one.join()


class _Followed(threading.Thread):
    """A session that is followed until somebody stops it, or nothing more is to come."""

    def __init__(self, session: TappedSession, hub: Hub, note: Callable[[str], None]) -> None:
        # Should the process end in another way than `close`, the probe leaves by itself.
        super().__init__(name=f"spectrace-{session.run.server_pid}", daemon=True)
        self._hub = hub
        self._note = note
        self._session = session
        self._stopped = threading.Event()

    def start(self) -> None:
        """Attaches, then follows.

        Raises:
            SpectraceError: The server cannot be attached to.
        """
        self._session.__enter__()
        try:
            super().start()
        except BaseException:
            self._session.detach()
            raise

    def stop(self) -> None:
        """Asks for the end; does not wait for it."""
        self._stopped.set()

    def run(self) -> None:
        """Follows, and leaves."""
        try:
            while not self._stopped.wait(_POLL_S) and self._session.end is None:
                self._session.poll()
                for sentence in self._session.news():
                    self._note(sentence)
        except Exception:  # noqa: BLE001 - whatever it is, the server is left as it was
            _LOG.exception(
                "Server %d could not be followed any more.", self._session.run.server_pid
            )
        finally:
            self._leave()

    def _leave(self) -> None:
        end, taken_out = self._session.end, self._session.detach()
        run = self._session.run  # with ranks that came late
        left = list(remains(run, taken_out))
        if end is None and left:
            self._hub.end(run.run_id, Life.DETACHED, " ".join((ENDS[None][1], *left)))
        for sentence in (ENDS[end][1] or "It has ended.", *left):
            self._note(f"Server {run.server_pid}: {sentence}")


def remains(run: Run, taken_out: Sequence[TakenOut]) -> Iterator[str]:
    """Where the probe still is after leaving, and why, a sentence or two for each reason.

    Args:
        run: The server.
        taken_out: What came of leaving its ranks, in their order.
    """
    kept: dict[str, list[str]] = {}
    for rank, out in zip(run.ranks, taken_out, strict=True):
        if not out.removed:
            kept.setdefault(out.reason, []).append(rank.name)
    for reason, names in kept.items():
        yield f"The probe stays in {', '.join(names)}. {reason}"
