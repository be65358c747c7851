"""Brings what a traced session finds to the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from spectrace.attach.session import End, SessionFacts, Stall, controller_of, standing_still
from spectrace.model import Cycle, Run
from spectrace.server.state import Life, Lost, RunFacts, Source

if TYPE_CHECKING:  # it takes long to import, and a session may have no page
    from spectrace.server.hub import Hub

ENDS = {
    None: (Life.DETACHED, "Tracing was ended."),
    End.SERVER_DIED: (Life.SERVER_GONE, ""),  # the page says so itself
    End.TAKEN_OUT: (Life.DETACHED, "The probe was taken out of the server by another command."),
    End.PROBE_FAILED: (Life.DETACHED, "The probe met an error of its own and took itself out."),
}
"""How a run is doing after its session, and a sentence for people, by why the session is over."""


class PageTap:
    """A tap on a session (`attach.tapped.Tap`) that fills the page.

    Args:
        hub: Where the cycles and facts go.
        export_lost: Cycles that an exporter could not deliver, shown beside the other losses.
    """

    def __init__(self, hub: Hub, export_lost: Callable[[], int] = lambda: 0) -> None:
        self._hub = hub
        self._export_lost = export_lost
        self._at_end: RunFacts | None = None

    def tell(self, run: Run, facts: SessionFacts, stalls: Sequence[Stall]) -> None:
        """Puts the run and its facts on the page."""
        self._hub.put_run(run, Source.ATTACHED)
        told = facts_of(facts, stalls, self._export_lost())
        self._at_end = msgspec.structs.replace(told, message=_problem(facts))
        self._hub.tell(run.run_id, told)

    def feed(self, cycles: Sequence[Cycle]) -> None:
        """Passes cycles on to the store and the live stream."""
        self._hub.feed(cycles)

    def end(self, run: Run, end: End | None) -> None:
        """Says on the page that the session is over, and why; what was so until then goes."""
        if self._at_end is not None:
            self._hub.tell(run.run_id, self._at_end)
        self._hub.end(run.run_id, *ENDS[end])


def facts_of(facts: SessionFacts, stalls: Sequence[Stall] = (), export_lost: int = 0) -> RunFacts:
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
        timing=facts.timing,
        sample_every=facts.sample_every,
        skipped=facts.skipped,
        notes=tuple(_notes(facts, stalls)),
    )


def _problem(facts: SessionFacts) -> str:
    """What went wrong: that stays true."""
    return " ".join(facts.errors[-1:])


def _message(facts: SessionFacts) -> str:
    sentences = [*facts.errors[-1:], *standing_still(facts)]
    if not facts.controls:
        sentences.append(f"Reading along: {controller_of(facts)} controls how it is timed.")
    return " ".join(sentences)


def _notes(facts: SessionFacts, stalls: Sequence[Stall]) -> Iterator[str]:
    if facts.untried:
        yield facts.untried
    if facts.unhooked:
        yield f"Not seen in this release: {', '.join(facts.unhooked)}."
    if facts.ranges:
        yield f"{facts.ranges.rstrip('.')}."
    for stall in stalls:
        rest = "" if stall.installed else " so far; its worker is hooked at its next cycle"
        yield f"Attaching held up {stall.rank} for {stall.total_ms:.2f} ms{rest}."
