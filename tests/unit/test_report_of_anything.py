"""A report is made of whatever a sender sends, and says what it can."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from spectrace.analysis.run_report import RunReport, report
from spectrace.cli.run_page import page
from spectrace.cli.run_table import markdown, render
from spectrace.cli.run_words import sentences
from spectrace.errors import SpectraceError
from spectrace.model import Cycle, CycleKind, Lane, Phase, PhaseName, RankCycle, RequestRow
from spectrace.store.measured import measure_recording
from tests.helpers.recorded import T0_NS, cycle_of, record, run_of

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
SMALL = st.integers(-1, 9)
TIMES = st.sampled_from((0, 1, 5_000_000, -5, 1 << 61)) | INT64
PHASES = st.builds(
    Phase,
    name=st.sampled_from(PhaseName),
    start_ns=TIMES,
    end_ns=TIMES,
    of_cycle=INT64,
    lane=st.sampled_from(Lane),
    graph=st.none() | st.booleans(),
)
ROWS = st.builds(
    RequestRow,
    request_id=st.text(max_size=5),
    correct_drafts=st.none() | SMALL | INT64,
    output_tokens=SMALL | INT64,
    overshoot=st.booleans(),
    health_check=st.booleans(),
)
LIKE: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    kind=st.sampled_from((CycleKind.SPECULATIVE, CycleKind.DECODE, *CycleKind)),
    batch_size=st.just(1) | SMALL | INT64,
    steps=st.just(2) | SMALL | INT64,
    topk=st.just(1) | SMALL | INT64,
    draft_tokens=st.just(3) | SMALL | INT64,
    padded_batch=st.none() | SMALL | INT64,
    context_tokens_sum=st.none() | INT64,
    requests=st.none() | st.lists(ROWS, max_size=3).map(tuple),
)


@st.composite
def cycles(draw: st.DrawFn) -> list[Cycle]:
    """Some kinds of cycles, forty of each."""
    found = []
    number = draw(st.sampled_from((0, 1 << 62)))
    for like in draw(st.lists(LIKE, min_size=1, max_size=3)):
        took_ns = draw(TIMES)
        phases = tuple(draw(st.lists(PHASES, max_size=4)))
        for _ in range(40):
            number += 1
            base = cycle_of(number % 10_000, 1)
            start_ns = T0_NS + number % 10_000
            rank: RankCycle = replace(
                base.ranks[0],
                start_ns=start_ns,
                end_ns=max(-(1 << 63), min(start_ns + took_ns, (1 << 63) - 1)),
                phases=phases,
            )
            found.append(replace(base, number=number, ranks=(rank,), **like))
    return found


@settings(max_examples=30)
@given(cycles())
def test_whatever_is_sent_is_reported_on(sent: list[Cycle]) -> None:
    """In every form, and the JSON reads as it was written."""
    with tempfile.TemporaryDirectory() as folder:
        path = record(Path(folder) / "run.spectrace", sent, run_of(1))
        try:
            found = report(measure_recording(path))
        except SpectraceError:  # nothing of it counts
            return
    found = replace(found, sentences=sentences(found))
    raw = msgspec.json.encode(found)
    assert msgspec.json.decode(raw, type=RunReport).verdict.answer is found.verdict.answer
    assert markdown(found)
    assert page(found, raw)
    assert render(found)
