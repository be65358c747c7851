"""Brings what a traced session finds to the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spectrace.attach.session import End, SessionFacts
from spectrace.model import Cycle, Run
from spectrace.server.hub import Hub
from spectrace.server.state import Life, Lost, RunFacts, Source

_ENDS = {
    None: (Life.DETACHED, "Tracing was ended."),
    End.SERVER_DIED: (Life.SERVER_GONE, ""),  # the page says so itself
    End.TAKEN_OUT: (Life.DETACHED, "The probe was taken out of the server by another command."),
    End.TAKEN_OVER: (Life.DETACHED, "Another process traces the server now."),
    End.PROBE_FAILED: (Life.DETACHED, "The probe met an error of its own and took itself out."),
}


class PageTap:
    """A tap on a session (`attach.tapped.Tap`) that fills the page.

    Args:
        hub: Where the cycles and facts go.
        export_lost: Cycles that an exporter could not deliver, shown beside the other losses.
    """

    def __init__(self, hub: Hub, export_lost: Callable[[], int] = lambda: 0) -> None:
        self._hub = hub
        self._export_lost = export_lost

    def tell(self, run: Run, facts: SessionFacts) -> None:
        """Puts the run and its facts on the page."""
        self._hub.put_run(run, Source.ATTACHED)
        self._hub.tell(run.run_id, facts_of(facts, self._export_lost()))

    def feed(self, cycles: Sequence[Cycle]) -> None:
        """Passes cycles on to the store and the live stream."""
        self._hub.feed(cycles)

    def end(self, run: Run, end: End | None) -> None:
        """Says on the page that the session is over, and why."""
        self._hub.end(run.run_id, *_ENDS[end])


def facts_of(facts: SessionFacts, export_lost: int = 0) -> RunFacts:
    """The same facts for the page."""
    return RunFacts(
        worker=facts.worker,
        algorithm=facts.algorithm,
        overlap=facts.overlap,
        device=facts.device,
        reporting=frozenset(
            rank.name for rank in facts.ranks if rank.alive and rank.state == "tracing"
        ),
        lost=Lost(records=facts.lost_records, missing=facts.missing_cycles, export=export_lost),
        message=_message(facts),
    )


def _message(facts: SessionFacts) -> str:
    sentences = list(facts.errors[-1:])
    if facts.untried:
        sentences.append(facts.untried)
    if facts.unhooked:
        sentences.append(f"Not seen in this release: {', '.join(facts.unhooked)}.")
    return " ".join(sentences)
