"""Trace and span ids, derived from what they stand for, so that ranks and machines need not talk.

A cycle that is sent again has the same ids, and a receiver sees at once that it is the same.

Trace id: 16 bytes hashed from (run id, group, cycle number). Root span id: 8 bytes hashed
from the trace id. Ids below a rank: 48 bits hashed from (trace id, rank), then 16 bits that
say which of the rank's spans it is, its *place*:

======================  =====================================================
place                   span
======================  =====================================================
0                       the rank itself
1 … 0x7FFF              the phase with index place - 1 of `RankCycle.phases`
0x8000 … 0xFFFD         drawn around the phases from index place - 0x8000 on
0xFFFE, 0xFFFF          the host lane, the device lane
======================  =====================================================
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from spectrace.model import Lane

MAX_PHASES = 0x7FFD
"""As many phases as one rank can have in one cycle."""

_PLACE_BITS = 16
_PLACE_MASK = (1 << _PLACE_BITS) - 1
_FIRST_PHASE = 1
_FIRST_PARENT = 0x8000
_LANES = {Lane.HOST: 0xFFFE, Lane.DEVICE: 0xFFFF}


def _digest(size: int, *parts: bytes) -> int:
    """A number of `size` bytes, never 0, that depends on each part and on where it ends."""
    digest = blake2b(digest_size=size)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return int.from_bytes(digest.digest(), "big") or 1


def trace_id(run_id: str, group: str, number: int) -> int:
    """The trace of a cycle, 128 bits, never 0."""
    texts = (run_id, group, str(number))
    return _digest(16, *(text.encode(errors="replace") for text in texts))


def root_span_id(trace: int) -> int:
    """The root span of a trace, 64 bits, never 0."""
    return _digest(8, trace.to_bytes(16, "big"))


@lru_cache(maxsize=4096)
def rank_span_id(trace: int, rank: str) -> int:
    """The span of a rank in a trace, 64 bits of which the last 16 are 0; never 0."""
    return _digest(6, trace.to_bytes(16, "big"), rank.encode(errors="replace")) << _PLACE_BITS


def lane_span_id(rank_span: int, lane: Lane) -> int:
    """The span of a lane, below the rank's span `rank_span`."""
    return rank_span | _LANES[lane]


def phase_span_id(rank_span: int, index: int) -> int:
    """The span of the phase with `index` in `RankCycle.phases`, below `MAX_PHASES`."""
    return rank_span | (_FIRST_PHASE + index)


def parent_span_id(rank_span: int, index: int) -> int:
    """The span drawn around phases of one parent, of which the first has `index`."""
    return rank_span | (_FIRST_PARENT + index)


def rank_span_of(span: int) -> int:
    """The rank's span to which a span below it belongs."""
    return span & ~_PLACE_MASK


def phase_index_of(span: int) -> int | None:
    """Which of its rank's phases a span is, None if it is none of them."""
    place = span & _PLACE_MASK
    return place - _FIRST_PHASE if _FIRST_PHASE <= place < _FIRST_PARENT else None
