"""Puts together what can be said of one run: the verdict, and everything that it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from spectrace.analysis.acceptance import (
    CONFIDENCE,
    PLAIN,
    Acceptance,
    Setting,
    acceptance,
    blocks_of,
    kept_of,
    per_verify,
)
from spectrace.analysis.baseline import Baseline, Source, baseline_of
from spectrace.analysis.bubbles import Bubbles, bubbles
from spectrace.analysis.costs import Stratum, strata
from spectrace.analysis.intervals import Estimate
from spectrace.analysis.made_of import MadeOf, made_of
from spectrace.analysis.rank_skew import Skew, skew
from spectrace.analysis.run_settings import SettingDifference, looks_up, server_differences
from spectrace.analysis.verdict import Change, Verdict, by_batch, verdict
from spectrace.analysis.verify_cost import (
    GraphStep,
    Shape,
    VerifyFit,
    VerifyPoint,
    fit,
    graph_steps,
)
from spectrace.analysis.what_if import (
    Known,
    Point,
    WhatIf,
    best,
    crossover,
    points,
    pooled_chances,
)
from spectrace.hidden import command_without_secrets
from spectrace.kernels import KernelLook
from spectrace.measures import KINDS, MODES, NONE, Columns, LeftOut, Measures
from spectrace.model import CycleKind, Lane, Run, TimingMode

_FEW_WINDOWS = 5
_FIXED = 0.5  # share of verify from which on its fixed part is what matters
_LOOKED_INTO = "sglang"  # of this engine's servers `spectrace kernels` sees the kernels
_SPECULATIVE = KINDS.index(CycleKind.SPECULATIVE)
_ByBatch: TypeAlias = dict[tuple[Setting, int], Estimate]


class Gap(str, Enum):
    """What is not known, and why.

    `no_speculation`: no cycle speculated. `too_few`: too few cycles to give times. `few_windows`:
    so few stretches that intervals are wide. `no_baseline`: plain decode was not measured.
    `baseline_elsewhere`: it was, at other batch sizes alone. `no_device`: there is no device lane.
    `waits_in_verify`: by the host's clock alone, on a host that runs ahead. `one_width`: verify was
    seen with one number of tokens alone. `one_batch`: one batch size alone. `tree`: drafts form
    trees, of which other shapes cannot be predicted. `sampled`: cycles in between are missing.
    `sync_left_out`: cycles in sync timing are in none of the times. `no_results`: of some cycles
    no results came. `no_counts`: of none that speculated did, as in a trace that has only times.
    `verify_inside`: verify on a device can bring most or is mostly a fixed cost, and nobody looked
    of what it is made.
    """

    NO_SPECULATION = "no_speculation"
    TOO_FEW = "too_few"
    FEW_WINDOWS = "few_windows"
    NO_BASELINE = "no_baseline"
    BASELINE_ELSEWHERE = "baseline_elsewhere"
    NO_DEVICE = "no_device"
    WAITS_IN_VERIFY = "waits_in_verify"
    ONE_WIDTH = "one_width"
    ONE_BATCH = "one_batch"
    TREE = "tree"
    SAMPLED = "sampled"
    SYNC_LEFT_OUT = "sync_left_out"
    NO_RESULTS = "no_results"
    NO_COUNTS = "no_counts"
    VERIFY_INSIDE = "verify_inside"


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said of one run.

    Attributes:
        run: The run.
        confidence: Of every interval.
        cycles: Cycles that count, of any kind.
        cycles_by_kind: The same by kind.
        duration_s: From the first sampled cycle to the last.
        sampled_cycles: Cycles that were read in full.
        windows: Stretches of them that follow each other.
        modes: How cycles were timed.
        verdict: Whether speculation pays, and what to change.
        acceptance: By setting, the one with the most verifies first.
        strata: Cycles that are alike and what they take, the largest first.
        baseline: Of plain decode; None where that is not known.
        baseline_differs: In what the server of which it was recorded differs from this one (first
            this run's, then the other's).
        verify: Its cost at each batch size.
        graph_steps: Where it costs more because a batch needs the next graph.
        what_if: Other numbers of steps.
        gaps: What is not known.
        left_out: What is in none of the figures.
        bubbles: When the device of the first rank ran nothing, and why.
        skew: How far the ranks of the first group lie apart.
        made_of: Of what phases are made, where somebody looked at kernels; None elsewhere.
        groups: Groups of ranks that have cycles: each throughput is that of one of them.
        sentences: All that in plain words.
    """

    run: Run
    confidence: float
    cycles: int
    cycles_by_kind: dict[str, int]
    duration_s: float
    sampled_cycles: int
    windows: int
    modes: tuple[TimingMode, ...]
    verdict: Verdict
    acceptance: tuple[Acceptance, ...]
    strata: tuple[Stratum, ...]
    baseline: Baseline | None
    verify: tuple[VerifyFit, ...]
    graph_steps: tuple[GraphStep, ...]
    what_if: WhatIf
    gaps: tuple[Gap, ...]
    left_out: LeftOut
    bubbles: Bubbles = Bubbles()
    skew: Skew = Skew()
    made_of: MadeOf | None = None
    groups: int = 1
    baseline_differs: tuple[SettingDifference, ...] = ()
    sentences: tuple[str, ...] = ()


def report(  # noqa: PLR0913 - each is a fact of its own
    measures: Measures,
    *,
    baseline: Baseline | None = None,
    baseline_run: Run | None = None,
    plain_ms: float | None = None,
    looks: Sequence[KernelLook] = (),
    confidence: float = CONFIDENCE,
) -> RunReport:
    """Everything that can be said of a run.

    Args:
        measures: What was read of it.
        baseline: Plain decode of another run.
        baseline_run: That run.
        plain_ms: A plain decode at the batch size that took most of the time, as a person says.
        looks: At kernels of the run, the oldest first.
        confidence: Of every interval.
    """
    measures = _settled(measures)
    found = strata(measures, confidence)
    chosen = _baseline(found, baseline, plain_ms)
    lengths = _lengths(measures, confidence)
    accepted = acceptance(measures, confidence) if _speculates(measures) else ()
    verdicts = by_batch(found, lengths.got, chosen, lengths.late)
    fits = _fits(found, chosen)
    judged = {(one.setting, one.batch) for one in verdicts}
    usable = [one for one in found if (one.setting, one.batch) in judged]
    what_if = _what_if(usable, lengths, accepted, fits, chosen)
    counts, cycles = measures.cycle_counts, measures.cycles
    whole = verdict(verdicts, found, what_if)
    inside = made_of(looks)
    gaps = _gaps(measures, found, chosen, whole, fits)
    if inside is None and _is_verify_to_mend(measures.run, found, whole, fits):
        gaps.append(Gap.VERIFY_INSIDE)
    return RunReport(
        run=without_secrets(measures.run),
        confidence=confidence,
        cycles=measures.total_cycles,
        cycles_by_kind={
            kind.value: int(counts["cycles"][counts["kind"] == at].sum())
            for at, kind in enumerate(KINDS)
            if (counts["kind"] == at).any()
        },
        duration_s=float(np.ptp(cycles["start_ns"])) / 1e9 if len(cycles["start_ns"]) else 0.0,
        sampled_cycles=len(cycles["number"]),
        windows=len(np.unique(cycles["window"])),
        modes=tuple(mode for at, mode in enumerate(MODES) if (counts["mode"] == at).any()),
        verdict=whole,
        acceptance=accepted,
        strata=found,
        baseline=chosen,
        verify=fits,
        graph_steps=graph_steps(_verify_points(found)),
        what_if=what_if,
        gaps=tuple(gaps),
        left_out=measures.left_out,
        bubbles=bubbles(measures),
        skew=skew(measures),
        made_of=inside,
        groups=len(measures.groups),
        baseline_differs=()
        if baseline_run is None or chosen is not baseline
        else server_differences(measures.run, baseline_run),
    )


def without_secrets(run: Run) -> Run:
    """The same run without what its command line keeps secret: a report is pasted elsewhere."""
    return msgspec.structs.replace(run, command=command_without_secrets(run.command))


def _settled(measures: Measures) -> Measures:
    """The same with what is known of how drafts were made, and with nothing else.

    Where they are looked up, what the server calls steps are none: a lookup costs the same however
    many drafts it finds, and it need not find any. A trace, or a loop of one's own, may not say how
    many tokens verify looks at: of a chain they are the steps and one, of anything else `NONE`,
    which no plain decode has.
    """
    by_lookup = looks_up(measures.run)

    def settled(table: Columns) -> Columns:
        speculates = table["kind"] == _SPECULATIVE
        steps = np.where(speculates & by_lookup, 0, table["steps"])
        tokens = np.where((table["topk"] == 1) & (steps > 0), steps + 1, NONE)
        unsaid = speculates & (table["draft_tokens"] == 0)
        return {
            **table,
            "steps": steps,
            "draft_tokens": np.where(unsaid, tokens, table["draft_tokens"]),
        }

    return msgspec.structs.replace(
        measures,
        cycle_counts=settled(measures.cycle_counts),
        row_counts=settled(measures.row_counts),
        cycles=settled(measures.cycles),
        overshoot_counts=settled(measures.overshoot_counts) if measures.overshoot_counts else {},
    )


class _Lengths(NamedTuple):
    """By setting and batch size.

    Attributes:
        got: Tokens of a request per cycle, those behind its end among them.
        kept: The share of verify's tokens that it got, without these.
        late: How many of these there are for each token that requests got.
    """

    got: _ByBatch
    kept: _ByBatch
    late: dict[tuple[Setting, int], float]


def _speculates(measures: Measures) -> bool:
    rows = measures.row_counts
    return bool(((rows["kind"] == _SPECULATIVE) & (rows["correct"] != NONE)).any())


def _baseline(
    found: Sequence[Stratum], other: Baseline | None, plain_ms: float | None
) -> Baseline | None:
    """What a person said counts before another run, and that before the run itself."""
    if plain_ms is not None:
        main = next((one for one in found if one.setting != PLAIN), None)
        batch = 1 if main is None else main.batch
        given = Estimate(value=plain_ms, low=plain_ms, high=plain_ms)
        return Baseline(source=Source.GIVEN, times_ms={batch: given})
    return other or baseline_of(found, Source.RUN)


def _lengths(measures: Measures, confidence: float) -> _Lengths:
    """Tokens that a request gets from a cycle, and where the others go.

    A cycle that comes behind the end of a request takes its time, and gives it nothing.
    """
    rows, over = measures.row_counts, measures.overshoot_counts
    here = (rows["kind"] == _SPECULATIVE) & (rows["correct"] != NONE)
    names = ("steps", "topk", "draft_tokens", "batch")
    keys = np.stack([rows[name] for name in names], axis=1)
    found = _Lengths({}, {}, {})
    for key in np.unique(keys[here], axis=0).tolist():
        same = here & (keys == key).all(axis=1)
        part = {name: column[same] for name, column in rows.items()}
        behind = _like(over, dict(zip(names, key, strict=True)) | {"kind": _SPECULATIVE})
        both = {
            name: np.concatenate([part[name], behind[name]]) if behind else part[name]
            for name in ("group", "block", "rows")
        }
        tokens = np.zeros_like(both["rows"])
        tokens[: len(part["rows"])] = part["delivered"]
        given = int((part["rows"] * part["delivered"]).sum())
        at = Setting(steps=key[0], topk=key[1], draft_tokens=key[2]), key[3]
        found.got[at] = per_verify(tokens, both, blocks_of(both), confidence)
        found.kept[at] = kept_of(part, blocks_of(part), confidence)
        found.late[at] = float(behind["rows"].sum() / given) if behind and given else 0.0
    return found


def _like(table: Columns, wanted: Mapping[str, int]) -> Columns:
    """The rows of a table that hold these values; nothing of an empty one."""
    if not table:
        return {}
    here = np.all([table[name] == value for name, value in wanted.items()], axis=0)
    return {name: column[here] for name, column in table.items()}


def _verify_points(found: Sequence[Stratum]) -> list[VerifyPoint]:
    return [
        VerifyPoint(
            tokens=one.setting.draft_tokens,
            batch=one.batch,
            verify_ms=one.parts.verify_p50_ms,
            padded_batch=one.padded_batch,
        )
        for one in found
        if one.setting.draft_tokens > 0 and one.parts is not None
    ]


def _fits(found: Sequence[Stratum], baseline: Baseline | None) -> tuple[VerifyFit, ...]:
    """The cost of verify at each batch size; of settings with as many tokens the largest counts."""
    by_size: dict[int, dict[int, VerifyPoint]] = {}
    for point in _verify_points(found):
        by_size.setdefault(point.batch, {}).setdefault(point.tokens, point)
    fits = []
    for batch, tokens in sorted(by_size.items()):
        plain = _plain_forward(found, batch)
        if plain is None and baseline is not None and (known := baseline.at(batch)) is not None:
            plain = known[0]
        fits.append(fit(list(tokens.values()), plain))
    return tuple(fits)


def _plain_forward(found: Sequence[Stratum], batch: int) -> Estimate | None:
    """The forward of plain decode alone, by the same clock as verify."""
    return next(
        (
            one.parts.verify_p50_ms
            for one in found
            if one.setting == PLAIN and one.batch == batch and one.parts is not None
        ),
        None,
    )


def _what_if(
    usable: Sequence[Stratum],
    lengths: _Lengths,
    accepted: Sequence[Acceptance],
    fits: Sequence[VerifyFit],
    baseline: Baseline | None,
) -> WhatIf:
    every: list[Point] = []
    chosen = []
    now = []
    chances = pooled_chances(accepted)
    for one in fits:
        here = tuple(stratum for stratum in usable if stratum.batch == one.batch)
        if not here:
            continue
        plain = None if baseline is None else baseline.at(one.batch)
        known = Known(
            batch=one.batch,
            current=here[0].setting,
            strata=here,
            lengths={s.setting: lengths.got[s.setting, s.batch] for s in here},
            kept={s.setting: lengths.kept[s.setting, s.batch] for s in here},
            late={s.setting: lengths.late[s.setting, s.batch] for s in here},
            conditional=chances,
            fit=one,
            plain_ms=None if plain is None else plain[0],
            plain_source=None if plain is None else plain[1],
        )
        of_batch = points(known)
        every += of_batch
        now += [point for point in of_batch if point.setting == known.current]
        top = best(of_batch, known.current)
        chosen += [] if top is None else [top]
    batch, clear = crossover(now)
    return WhatIf(
        points=tuple(every), best=tuple(chosen), crossover_batch=batch, crossover_clear=clear
    )


def _gaps(
    measures: Measures,
    found: Sequence[Stratum],
    baseline: Baseline | None,
    whole: Verdict,
    fits: Sequence[VerifyFit],
) -> list[Gap]:
    speculative = [one for one in found if one.setting != PLAIN]
    known = [one for one in speculative if one.parts is not None]
    speculated = bool((measures.cycle_counts["kind"] == _SPECULATIVE).any())
    no_counts = speculated and not _speculates(measures)
    facts = {
        Gap.NO_SPECULATION: not speculated,
        Gap.NO_COUNTS: no_counts,
        Gap.TOO_FEW: bool(speculative) and not any(one.cycle for one in speculative),
        Gap.FEW_WINDOWS: len(np.unique(measures.cycles["window"])) < _FEW_WINDOWS,
        Gap.NO_BASELINE: baseline is None,
        Gap.BASELINE_ELSEWHERE: baseline is not None
        and bool(whole.by_batch)
        and whole.by_batch[0].plain_ms is None,
        Gap.NO_DEVICE: bool(known)
        and all(one.parts is not None and one.parts.lane is Lane.HOST for one in known),
        Gap.WAITS_IN_VERIFY: any(
            one.parts is not None and one.parts.waits_in_verify for one in known
        ),
        Gap.ONE_WIDTH: bool(fits) and all(one.shape is Shape.UNKNOWN for one in fits),
        Gap.ONE_BATCH: len({one.batch for one in speculative}) == 1,
        Gap.TREE: any(one.setting.topk > 1 for one in speculative),
        Gap.SAMPLED: measures.is_sampled,
        Gap.SYNC_LEFT_OUT: bool(
            (measures.cycle_counts["mode"] == MODES.index(TimingMode.SYNC)).any()
        ),
        Gap.NO_RESULTS: measures.left_out.unknown_cycles > 0 and not no_counts,
    }
    return [gap for gap, holds in facts.items() if holds]


def _is_verify_to_mend(
    run: Run, found: Sequence[Stratum], whole: Verdict, fits: Sequence[VerifyFit]
) -> bool:
    """Whether verify, on a device, can bring most, or is mostly a fixed cost."""
    if not whole.by_batch or not run.engine.startswith(_LOOKED_INTO):
        return False
    main = whole.by_batch[0]
    key = main.setting, main.batch
    parts = next(one.parts for one in found if (one.setting, one.batch) == key)
    if parts is None or parts.lane is Lane.HOST:
        return False
    fixed_ms = next((one.fixed_ms for one in fits if one.batch == main.batch), None)
    costs_most = bool(whole.caps) and whole.caps[0].change is Change.VERIFY
    is_fixed = fixed_ms is not None and fixed_ms.value >= _FIXED * parts.verify_p50_ms.value
    return costs_most or is_fixed
