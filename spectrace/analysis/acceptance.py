"""What verify accepts: by position, batch size, context length and time, and of which requests.

A verify whose tokens were cut, by the token limit or an end token, tells of its positions up to
the cut and of none behind it: what the target model would have accepted there was never wanted.
This is the product-limit estimate of Kaplan and Meier, "Nonparametric Estimation from Incomplete
Observations", Journal of the American Statistical Association 53 (1958). Where nothing was cut it
is reached_(j+1) / reached_j.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import msgspec
import numpy as np
from numpy.typing import NDArray

from spectrace.analysis.estimates import product, total, wilson
from spectrace.analysis.intervals import Estimate, Values, ratio
from spectrace.analysis.student import t_quantile
from spectrace.measures import KINDS, NONE, Columns, Measures
from spectrace.model import CycleKind

CONFIDENCE = 0.95
_SPECULATIVE = KINDS.index(CycleKind.SPECULATIVE)
_PREFILL = (CycleKind.EXTEND, CycleKind.MIXED)
_FEWEST_VERIFIES = 30  # of a request that is called bad, and of anything that is told apart
_WORST = 5  # requests that are named
_PARTS = 3  # of context lengths
_MOST_BLOCKS = 25
_TIMES = 24  # stretches of a run, at most
_FEWEST_BLOCKS = 4  # of a stretch, so that it has limits that say something


class Setting(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """How a server speculates.

    Attributes:
        steps: Draft steps, 0 for plain decode.
        topk: Branches per draft step.
        draft_tokens: Tokens that verify looks at per request.
    """

    steps: int
    topk: int
    draft_tokens: int


PLAIN = Setting(steps=0, topk=0, draft_tokens=0)


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """One position of the drafts of a request.

    Attributes:
        place: From 1 on.
        reached: Verifies that came so far: all drafts before were correct, and wanted.
        accepted: In how many of them this draft was correct too.
        conditional: accepted / reached.
    """

    place: int
    reached: int
    accepted: int
    conditional: Estimate


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """The acceptance in a part of the run.

    Attributes:
        low: Lowest batch size, context length in tokens, or cycle number of it.
        high: The highest.
        verifies: How many.
        accept_length: As `Acceptance.accept_length`.
    """

    low: int
    high: int
    verifies: int
    accept_length: Estimate


class BadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose drafts are accepted less often than those of the others.

    Attributes:
        request_id: Its id.
        verifies: How many of it were sampled.
        accept_length: Of these.
        rate: Its share of accepted drafts among those that were reached, with an interval that
            holds for all requests together.
        others: The same share of the others.
    """

    request_id: str
    verifies: int
    accept_length: float
    rate: Estimate
    others: float


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """What verify accepted under one setting.

    Attributes:
        setting: The setting.
        verifies: Requests verified, cycle by cycle, without overshoot and health checks.
        correct_drafts: Drafts that the server counted as correct.
        delivered: Tokens that requests got.
        cut: Verifies of which a request got less than was correct.
        histogram: Place i counts the verifies with i correct drafts.
        accept_length: Ours, (correct drafts + verifies) / verifies.
        delivered_length: delivered / verifies; what throughput is made of.
        sglang_accept_length: Completion tokens / verifies, as SGLang's `spec_accept_length`: with
            its share of the tokens that prefills gave.
        draft_acceptance_rate: Correct drafts / drafts, as vLLM's; None where the drafts form a
            tree or come without steps.
        positions: One for each.
        by_batch: By batch size.
        by_context: By thirds of the mean context length of a batch, of sampled cycles.
        by_time: By stretches of the run; none where it is too short for two that have limits.
        bad_requests: The worst, of sampled cycles.
    """

    setting: Setting
    verifies: int
    correct_drafts: int
    delivered: int
    cut: int
    histogram: tuple[int, ...]
    accept_length: Estimate
    delivered_length: Estimate
    sglang_accept_length: float
    draft_acceptance_rate: float | None
    positions: tuple[Position, ...]
    by_batch: tuple[Slice, ...]
    by_context: tuple[Slice, ...]
    by_time: tuple[Slice, ...]
    bad_requests: tuple[BadRequest, ...]


def acceptance(measures: Measures, confidence: float = CONFIDENCE) -> tuple[Acceptance, ...]:
    """What was accepted under each setting of a run, the one with the most verifies first."""
    rows = _verified(measures.row_counts)
    keys = np.stack([rows[name] for name in ("steps", "topk", "draft_tokens")], axis=1)
    found = []
    for steps, topk, draft_tokens in np.unique(keys, axis=0).tolist():
        here = (keys == (steps, topk, draft_tokens)).all(axis=1)
        setting = Setting(steps=steps, topk=topk, draft_tokens=draft_tokens)
        found.append(_of_setting(setting, _where(rows, here), measures, confidence))
    return tuple(sorted(found, key=lambda one: -one.verifies))


def _verified(rows: Columns) -> Columns:
    return _where(rows, (rows["kind"] == _SPECULATIVE) & (rows["correct"] != NONE))


def _where(columns: Columns, here: NDArray[np.bool_]) -> Columns:
    return {key: column[here] for key, column in columns.items()}


def _of_setting(
    setting: Setting, rows: Columns, measures: Measures, confidence: float
) -> Acceptance:
    counts = rows["rows"]
    verifies, correct = int(counts.sum()), int((counts * rows["correct"]).sum())
    depth = depth_of(setting, rows["correct"])
    delivered = int((counts * rows["delivered"]).sum())
    blocks = blocks_of(rows)
    batches = np.unique(rows["batch"]).tolist()
    sampled = _sampled(measures, setting)
    return Acceptance(
        setting=setting,
        verifies=verifies,
        correct_drafts=correct,
        delivered=delivered,
        cut=int(counts[rows["delivered"] <= rows["correct"]].sum()),
        histogram=tuple(
            np.bincount(rows["correct"], weights=counts, minlength=depth + 1).astype(int).tolist()
        ),
        accept_length=length_of(rows, blocks, depth, confidence),
        delivered_length=per_verify(rows["delivered"], rows, blocks, confidence),
        sglang_accept_length=delivered / verifies + _prefill_tokens(measures),
        draft_acceptance_rate=(
            correct / (verifies * setting.steps) if setting.topk == 1 and setting.steps else None
        ),  # no steps: a foreign recording can say so
        positions=positions(rows, depth, blocks, confidence),
        by_batch=tuple(
            _slice(_where(rows, rows["batch"] == batch), (batch, batch), depth, confidence)
            for batch in batches
        ),
        by_context=_by_context(measures, sampled, depth, confidence),
        by_time=_by_time(rows, measures, depth, confidence),
        bad_requests=bad_requests(sampled, depth, measures.request_ids, confidence),
    )


def _prefill_tokens(measures: Measures) -> float:
    """Tokens that prefills gave, for each verify of the run."""
    every = measures.row_counts
    prefill = np.isin(every["kind"], [KINDS.index(kind) for kind in _PREFILL])
    given = (every["rows"] * every["delivered"])[prefill].sum()
    return float(given / _verified(every)["rows"].sum())


def depth_of(setting: Setting, correct: NDArray[np.int64]) -> int:
    """How many drafts in a row can be correct."""
    most = int(correct.max()) if len(correct) else 0
    return max(setting.steps or setting.draft_tokens - 1, most)


def blocks_of(rows: Columns) -> NDArray[np.int64]:
    """A number for each of at most 25 stretches, of one group each as far as possible.

    Stretches are to be longer than requests live, and enough to tell a variance from.
    """
    every, places = np.unique(rows["group"] * (1 << 32) + rows["block"], return_inverse=True)
    return np.asarray(places.reshape(-1) * min(_MOST_BLOCKS, len(every)) // max(1, len(every)))


def per_verify(
    quantity: NDArray[np.int64], rows: Columns, blocks: NDArray[np.int64], confidence: float
) -> Estimate:
    """A quantity of rows over their number, with an interval by blocks."""
    _, places = np.unique(blocks, return_inverse=True)
    tops, bottoms = (
        np.bincount(places, weights=rows["rows"] * column).astype(np.float64)
        for column in (quantity, np.ones_like(quantity))
    )
    return ratio(tops, bottoms, confidence)


def kept_of(rows: Columns, blocks: NDArray[np.int64], confidence: float) -> Estimate:
    """The share of the tokens that verify gave which requests got; the others were cut."""
    _, places = np.unique(blocks, return_inverse=True)
    got, given = (
        np.bincount(places, weights=rows["rows"] * column).astype(np.float64)
        for column in (rows["delivered"], rows["correct"] + 1)
    )
    return ratio(got, given, confidence)


def length_of(rows: Columns, blocks: NDArray[np.int64], depth: int, confidence: float) -> Estimate:
    """The accept length, whose limits lie where it can be: from 1 to all drafts and one more."""
    found = per_verify(rows["correct"] + 1, rows, blocks, confidence)
    if found.low is None or found.high is None:
        return found
    return Estimate(value=found.value, low=max(1.0, found.low), high=min(depth + 1.0, found.high))


def at_risk(rows: Columns, place: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows tell of the draft at a position, and in which of them it was accepted."""
    wanted = np.minimum(rows["correct"], rows["delivered"])
    cut = rows["delivered"] <= rows["correct"]
    accepted = wanted >= place
    return accepted | ((wanted == place - 1) & ~cut), accepted


def positions(
    rows: Columns, depth: int, blocks: NDArray[np.int64], confidence: float
) -> tuple[Position, ...]:
    """The conditional acceptance at each position.

    Verifies of one request, and of one stretch of time, are alike: they count as fewer
    independent ones, as many as give the variance that is seen between blocks. Korn and Graubard,
    "Confidence Intervals for Proportions with Small Expected Number of Positive Counts Estimated
    from Survey Data", Survey Methodology 24 (1998).

    Args:
        rows: `correct`, `delivered` and `rows`, as `Measures.row_counts`.
        depth: How many positions there are.
        blocks: Of each row.
        confidence: Such as 0.95.
    """
    found = []
    _, places = np.unique(blocks, return_inverse=True)
    for place in range(1, depth + 1):
        risk, accepted = at_risk(rows, place)
        tops, bottoms = (
            np.bincount(places, weights=rows["rows"] * flags).astype(np.float64)
            for flags in (accepted, risk)
        )
        if not bottoms.sum():
            break
        found.append(
            Position(
                place=place,
                reached=int(bottoms.sum()),
                accepted=int(tops.sum()),
                conditional=_share(tops, bottoms, confidence),
            )
        )
    return tuple(found)


def _share(tops: Values, bottoms: Values, confidence: float) -> Estimate:
    tops, bottoms = tops[bottoms > 0], bottoms[bottoms > 0]
    trials, share = float(bottoms.sum()), float(tops.sum() / bottoms.sum())
    blocks = len(bottoms)
    if blocks < 2 or not 0 < share < 1:  # noqa: PLR2004 - a variance between blocks needs two
        return wilson(float(tops.sum()), trials, confidence)
    rests = tops - share * bottoms
    variance = blocks / (blocks - 1) * float((rests**2).sum()) / trials**2
    normal = NormalDist().inv_cdf(0.5 + confidence / 2)
    wider = (normal / t_quantile(0.5 + confidence / 2, blocks - 1)) ** 2
    counted = trials if not variance else share * (1 - share) / variance * wider
    counted = min(counted, trials)
    return wilson(share * counted, counted, confidence)


def prefix_length(conditional: Sequence[Estimate]) -> Estimate:
    """The accept length from the conditional acceptance at the positions from the first on.

    1 + Σ_i Π_{j≤i} p_j. Its limits are those of p_1 (1 + p_2 (1 + …)), term by term, since the
    estimates at different positions are uncorrelated.

    Args:
        conditional: One for each position; with none of them the length is 1.
    """
    inner = Estimate(value=1.0, low=1.0, high=1.0)
    for chance in reversed(conditional):
        if chance.value <= 0:
            inner = total((1.0, Estimate(value=1.0, low=1.0, high=1.0)), (inner.value, chance))
        else:
            inner = total((1.0, product([chance, inner])), (1.0, _ONE))
    return inner


_ONE = Estimate(value=1.0, low=1.0, high=1.0)


def fitted_chance(accept_length: float, steps: int) -> float:
    """The one probability that gives an accept length at so many steps.

    L = (1 - a^(k+1)) / (1 - a): Leviathan, Kalman and Matias, arXiv 2211.17192, section 3.1.

    Args:
        accept_length: From 1 to steps + 1.
        steps: At least 1.

    Raises:
        ValueError: The accept length is out of range.
    """
    if not 1 <= accept_length <= steps + 1:
        raise ValueError(f"{steps} steps cannot give an accept length of {accept_length}")
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        if sum(middle**place for place in range(steps + 1)) < accept_length:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _slice(rows: Columns, span: tuple[int, int], depth: int, confidence: float) -> Slice:
    return Slice(
        low=span[0],
        high=span[1],
        verifies=int(rows["rows"].sum()),
        accept_length=length_of(rows, blocks_of(rows), depth, confidence),
    )


def _sampled(measures: Measures, setting: Setting) -> Columns:
    """The rows that count of the sampled cycles of a setting, each one row."""
    rows, cycles = measures.rows, measures.cycles
    here = ~(rows["overshoot"] | rows["health_check"]) & (rows["correct"] != NONE)
    at = rows["cycle"]
    for name in ("steps", "topk", "draft_tokens"):
        here &= cycles[name][at] == getattr(setting, name)
    here &= cycles["kind"][at] == _SPECULATIVE
    found = dict(_where(rows, here))
    found["rows"] = np.ones(int(here.sum()), dtype=np.int64)
    found["group"] = np.zeros_like(found["rows"])
    found["block"] = cycles["window"][found["cycle"]]
    return found


def _by_context(
    measures: Measures, sampled: Columns, depth: int, confidence: float
) -> tuple[Slice, ...]:
    cycles = measures.cycles
    at = sampled["cycle"]
    known = cycles["context_sum"][at] != NONE
    rows = _where(sampled, known)
    at = rows["cycle"]
    if len(at) < _PARTS * _FEWEST_VERIFIES:
        return ()
    mean = cycles["context_sum"][at] // np.maximum(cycles["batch"][at], 1)
    edges = np.quantile(mean, np.linspace(0, 1, _PARTS + 1)[1:-1])
    part = np.searchsorted(edges, mean, side="left")
    return tuple(
        _slice(
            _where(rows, part == number),
            (int(mean[part == number].min()), int(mean[part == number].max())),
            depth,
            confidence,
        )
        for number in np.unique(part).tolist()
    )


def _by_time(rows: Columns, measures: Measures, depth: int, confidence: float) -> tuple[Slice, ...]:
    """Stretches of the run, as many as have enough blocks each to tell their limits from."""
    counts = measures.cycle_counts
    present = np.unique(rows["block"])
    parts = min(_TIMES, len(present) // _FEWEST_BLOCKS)
    found = []
    for blocks in np.array_split(present, parts) if parts > 1 else ():
        here = (rows["block"] >= blocks[0]) & (rows["block"] <= blocks[-1])
        span = (counts["block"] >= blocks[0]) & (counts["block"] <= blocks[-1])
        if span.any():
            numbers = int(counts["first_n"][span].min()), int(counts["last_n"][span].max())
            found.append(_slice(_where(rows, here), numbers, depth, confidence))
    return tuple(found)


def bad_requests(
    rows: Columns, depth: int, request_ids: Sequence[str], confidence: float
) -> tuple[BadRequest, ...]:
    """The requests that accept less than the others, beyond chance.

    Args:
        rows: Each one verify: `request`, `correct`, `delivered`.
        depth: How many positions there are.
        request_ids: Their ids.
        confidence: That no request is called bad by chance.
    """
    count = len(request_ids)
    reached, accepted, verifies, correct = (np.zeros(count) for _ in range(4))
    for place in range(1, depth + 1):
        risk, good = at_risk(rows, place)
        reached += np.bincount(rows["request"], weights=risk, minlength=count)
        accepted += np.bincount(rows["request"], weights=good, minlength=count)
    verifies += np.bincount(rows["request"], minlength=count)
    correct += np.bincount(rows["request"], weights=rows["correct"], minlength=count)
    tried = np.flatnonzero((verifies >= _FEWEST_VERIFIES) & (reached > 0))
    shared = 1 - (1 - confidence) / max(1, len(tried))
    found = []
    for request in tried.tolist():
        rest = reached.sum() - reached[request]
        if not rest:
            continue
        others = float((accepted.sum() - accepted[request]) / rest)
        rate = wilson(float(accepted[request]), float(reached[request]), shared)
        if rate.high is not None and rate.high < others:
            found.append(
                BadRequest(
                    request_id=request_ids[request],
                    verifies=int(verifies[request]),
                    accept_length=float(1 + correct[request] / verifies[request]),
                    rate=rate,
                    others=others,
                )
            )
    return tuple(sorted(found, key=lambda one: one.rate.value)[:_WORST])
