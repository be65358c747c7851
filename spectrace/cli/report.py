"""What a screen is given: one report of a session, and how taking the probe out went."""

from __future__ import annotations

import msgspec

from spectrace.analysis.summary import Summary
from spectrace.attach.handle import TakenOut
from spectrace.attach.session import End, SessionFacts, Stall


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """How taking the probe out of one rank went.

    Attributes:
        rank: Name of the rank.
        removed: The probe is out.
        foreign: Functions that other code had wrapped after us.
        reason: Why the probe is still in, or what else there is to say.
        left_to: It was left to others, who read on.
    """

    rank: str
    removed: bool
    foreign: tuple[str, ...]
    reason: str
    left_to: bool = False


def removal_of(rank: str, out: TakenOut) -> Removal:
    """What came of leaving the rank of that name."""
    return Removal(
        rank=rank,
        removed=out.removed,
        foreign=out.foreign,
        reason=out.reason,
        left_to=out.left_to,
    )


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the cycles that an exporter was given.

    Attributes:
        sent_cycles: Cycles that arrived.
        sent_spans: Spans that arrived.
        lost_cycles: Cycles that did not.
        lost_spans: Spans that did not, or that the other side then did not store.
        unsampled_cycles: Cycles that sampling left out.
        last_error: What last went wrong, empty if nothing did.
    """

    sent_cycles: int = 0
    sent_spans: int = 0
    lost_cycles: int = 0
    lost_spans: int = 0
    unsampled_cycles: int = 0
    last_error: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown, or written as one JSON object.

    Attributes:
        final: The session has ended, and `summary` is of all of it.
        unix_ns: When the report was made, UNIX time in ns.
        run_id: The run, see `model.Run`.
        server_pid: Process id of the server's root process.
        session: What is known about the server and its ranks; a rank whose process has ended
            has the state `dead`.
        stall: For how long attaching held up each rank.
        summary: Of the last seconds, or of the whole session.
        export_lost: Cycles that an exporter could not deliver, None where there is none.
        exported: All that became of what it was given, likewise.
        end: Why the session ended, if not by this command: see `attach.session.End`.
        removals: How taking the probe out went, once the session has ended.
    """

    final: bool
    unix_ns: int
    run_id: str
    server_pid: int
    session: SessionFacts
    stall: tuple[Stall, ...]
    summary: Summary
    export_lost: int | None = None
    exported: Exported | None = None
    end: End | None = None
    removals: tuple[Removal, ...] = ()
