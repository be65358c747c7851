"""Says in plain words what is known of a run, and what is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spectrace.analysis.acceptance import PLAIN, Setting
from spectrace.analysis.baseline import Source
from spectrace.analysis.costs import SLOWEST, PhaseTimes, Stratum
from spectrace.analysis.intervals import Estimate
from spectrace.analysis.run_report import Gap, RunReport
from spectrace.analysis.verdict import Advice, Answer, BatchVerdict, Change
from spectrace.analysis.verify_cost import Shape, VerifyFit
from spectrace.analysis.what_if import Best, Doubt, Point, flags
from spectrace.cli import made_of_words, numbers
from spectrace.cli.figures import listed
from spectrace.cli.timing_words import label
from spectrace.model import Lane

_NARROW = 0.025
_TAIL = 0.05  # so much do mean and median differ where it is said
TO = "\u2013"  # an en dash
_TIMES = "\u00d7"  # a multiplication sign

GAPS = {
    Gap.NO_SPECULATION: "No cycle speculated: there is nothing to judge. Is the server started "
    "with --speculative-algorithm?",
    Gap.TOO_FEW: "Too few cycles count to give their times: record for longer, while requests run.",
    Gap.FEW_WINDOWS: "The run is short, so that intervals are wide or missing: record for longer.",
    Gap.NO_BASELINE: "Plain decode was never measured: record the server without "
    "--speculative-algorithm for half a minute and name that file with --baseline, or say what it "
    "takes with --baseline-ms.",
    Gap.BASELINE_ELSEWHERE: "Plain decode was measured at other batch sizes alone than the one "
    "that took most of the time.",
    Gap.NO_DEVICE: "There is no device lane: phases are as the host's clock saw them, and one that "
    "only launches looks cheap.",
    Gap.WAITS_IN_VERIFY: "The host runs ahead of the device and only its clock was there: its "
    "named waits are counted as verify.",
    Gap.ONE_WIDTH: "Verify was seen with one number of tokens alone: how its time depends on that "
    "is not identifiable. Record a run with other steps.",
    Gap.ONE_BATCH: "Only one batch size was seen.",
    Gap.TREE: "Drafts form trees, which are judged as they ran: which drafts a tree of another "
    "shape would have kept was never seen, so that none is predicted. Measure some with `spectrace "
    "sweep --topk`.",
    Gap.SAMPLED: (
        "Sampling left cycles out: windows are not of cycles that follow each other, and where it "
        "was switched, each stretch counts by the cycles that were recorded of it."
    ),
    Gap.SYNC_LEFT_OUT: "Cycles in sync timing are in none of the times: it slows the server.",
    Gap.NO_RESULTS: "Of some cycles no results came; their times count, their acceptance cannot.",
    Gap.NO_COUNTS: "Of no cycle that speculated did results come that count, as in a trace that "
    "has only times: what was accepted is not known.",
    Gap.VERIFY_INSIDE: "Nobody looked of what verify is made: `spectrace kernels PID` shows it, on "
    "the running server.",
}
DOUBTS = {
    Doubt.DEEPER: "drafts so deep were never made: the last measured position stands for them",
    Doubt.VERIFY_SPAN: "verify was seen with one number of tokens: the interval reaches from "
    "no dependence on it to full dependence",
    Doubt.VERIFY_BEYOND: "verify is extrapolated beyond the measured numbers of tokens",
    Doubt.DRAFT_SHARE: "each draft step is taken to cost as much as any other",
    Doubt.CUTS: "requests are short: what their ends cut off is computed from what they did",
}
MARKS = dict(zip(Doubt, "abcde", strict=True))
DEFINITIONS = {
    "accept length": "(correct drafts + verifies) / verifies, over requests in speculative cycles, "
    "without overshoot and health checks. vLLM's mean acceptance length is the same.",
    "SGLang's accept length": "spec_accept_length: completion tokens / verifies. It counts the "
    "token of the prefill and the cut at the token limit.",
    "tokens per cycle": "What a request really got from a cycle: the accept length less what was "
    "cut, and less the cycles that came behind its end (the overlap scheduler runs one too far). "
    "Throughput is made of it.",
    "tokens per verify": "The same without the cycles behind the end.",
    "conditional acceptance": "How often the draft at a position is correct where all before it "
    "were. A verify that was cut counts up to the cut.",
    "drafts accepted": "Correct drafts / drafts, vLLM's draft acceptance rate.",
    "adaptive steps": "The steps among which SGLang's adaptive speculation chooses at this batch "
    "size.",
    "break-even": "Mean time of a cycle / that of a plain decode of the same batch: the tokens per "
    "cycle from which on speculation pays. Less where plain decode would run too far as well.",
    "speed-up": "Tokens per cycle / break-even.",
    "most that it can bring": "Throughput gained if this cost nothing: D / (C \u2212 D).",
    "interval": "95 %, between windows of cycles that follow each other, since cycles of one "
    "window are alike.",
}
_SOURCES = {
    Source.RUN: "measured in this run",
    Source.RECORDING: "measured in another run",
    Source.GIVEN: "as given",
    Source.BETWEEN: "between the batch sizes that were measured",
}
_SHOWN_RUNS = 5
_CHANGES = {
    Change.DRAFT: "a faster draft",
    Change.VERIFY: "a verify as cheap as plain decode",
    Change.OVERHEAD: "less overhead between the phases",
}


def sentences(found: RunReport) -> tuple[str, ...]:
    """The report as sentences: the answer, what it rests on, what to change, what is not known."""
    return (
        lead(found),
        *_basis(found),
        *_other_server(found),
        *_tails(found),
        *_phases(found),
        *_first(found),
        *_verify(found),
        *made_of_words.sentences(found.made_of),
        *_crossover(found),
        *(GAPS[gap] for gap in found.gaps),
    )


def of_other_runs(
    run_ids: Sequence[str], name: str = "The recording", option: str = "--run"
) -> Iterator[str]:
    """That a recording has more runs than the one that was looked at.

    Args:
        run_ids: Of the others.
        name: How the recording is called.
        option: Which chooses one.
    """
    if run_ids:
        names = ", ".join(run_id[:8] for run_id in run_ids[:_SHOWN_RUNS])
        more = " and more" if len(run_ids) > _SHOWN_RUNS else ""
        yield (
            f"{name} has {numbers.count(len(run_ids))} other "
            f"run{'' if len(run_ids) == 1 else 's'} ({names}{more}), of which nothing is said "
            f"here: choose one with {option}."
        )


def lead(found: RunReport) -> str:
    """The answer in one sentence."""
    gained = found.verdict.speed_up
    if Gap.NO_SPECULATION in found.gaps:
        return "Nothing was speculated in this run."
    if gained is None:
        return "Whether speculation pays cannot be said."
    shown = f"{gained.value:.2f} {_TIMES} plain decode{_reach(gained, 2)}"
    return {
        Answer.PAYS: f"Speculation pays: {shown}.",
        Answer.LOSES: f"Speculation does not pay: {shown}.",
        Answer.SAME: f"Speculation makes no difference that matters: {shown}.",
        Answer.OPEN: f"Whether speculation pays cannot be said yet: {shown}.",
        Answer.UNKNOWN: "Whether speculation pays cannot be said.",
    }[found.verdict.answer]


def _reach(estimate: Estimate, decimals: int) -> str:
    """The interval in brackets, with a space before it; nothing where there is none."""
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return ""
    low, high = (_rounded(limit, decimals) for limit in (estimate.low, estimate.high))
    return f" ({low}{TO}{high})"


def _rounded(number: float, decimals: int) -> str:
    """A number with a real minus sign, unless it rounds to 0."""
    shown = f"{abs(number):,.{decimals}f}"
    return f"\u2212{shown}" if number < 0 and shown.strip("0.") else shown


def value(estimate: Estimate | None, decimals: int = 2) -> str:
    """A value and its interval."""
    if estimate is None:
        return numbers.MISSING
    return f"{_rounded(estimate.value, decimals)}{_reach(estimate, decimals)}"


def percent(estimate: Estimate | None) -> str:
    """A share in % and its interval, with one decimal where it is narrower than 5 %."""
    if estimate is None:
        return numbers.MISSING
    decimals = 1 if estimate.half_width < _NARROW else 0
    scaled = Estimate(
        value=estimate.value * 100,
        low=None if estimate.low is None else estimate.low * 100,
        high=None if estimate.high is None else estimate.high * 100,
    )
    return f"{_rounded(scaled.value, decimals)} %{_reach(scaled, decimals)}"


def setting(found: Setting) -> str:
    """A setting in words: `plain decode`, `5 steps`, `3 steps, topk 4, 8 tokens`."""
    if found == PLAIN:
        return "plain decode"
    known = found.draft_tokens > 0
    if not found.steps:  # drafts that are looked up, as NGRAM's, or of which nothing was said
        return f"{found.draft_tokens} draft tokens" if known else "drafts of unknown length"
    steps = f"{found.steps} step{'' if found.steps == 1 else 's'}"
    if found.topk == 1 and found.draft_tokens == found.steps + 1:
        return steps
    branches = [f"topk {found.topk}"] if found.topk > 0 else []
    return ", ".join([steps, *branches, *([f"{found.draft_tokens} tokens"] if known else [])])


def _basis(found: RunReport) -> Iterator[str]:
    if not found.verdict.by_batch:
        return
    main = found.verdict.by_batch[0]
    size = f"At batch size {main.batch}, {setting(main.setting)},"
    gives = (
        f"{size} a cycle takes {numbers.milliseconds(main.cycle_ms.value)}"
        f"{_reach(main.cycle_ms, 2)} and gives a request {value(main.tokens_per_cycle)} tokens"
    )
    if main.break_even is None or main.plain_ms is None or main.plain_source is None:
        yield f"{gives}: {value(main.tokens_per_s, 1)} tokens/s{_of_one_group(found)}."
        return
    yield (
        f"{gives}; break-even is {value(main.break_even)}, against a plain decode of "
        f"{numbers.milliseconds(main.plain_ms.value)} ({_SOURCES[main.plain_source]}). That is "
        f"{_difference(main)}{_of_one_group(found)}."
    )
    yield from _needed(main)
    if found.verdict.covered < 0.995:  # noqa: PLR2004 - what rounds to all of it
        yield (
            f"The factor is of {numbers.share(found.verdict.covered)} of the time in speculative "
            "cycles: for the other batch sizes plain decode is not known, or too few cycles are."
        )


def _other_server(found: RunReport) -> Iterator[str]:
    """That the baseline is of another server, in what differs."""
    if found.baseline_differs:
        named = listed([f"{one.what} {one.other}, not {one.one}" for one in found.baseline_differs])
        yield (
            f"Plain decode was recorded of another server ({named}): the verdict holds only if "
            "that makes no difference to it."
        )


def _of_one_group(found: RunReport) -> str:
    return "" if found.groups < 2 else f" per group, of which there are {found.groups}"  # noqa: PLR2004 - several


def _needed(main: BatchVerdict) -> Iterator[str]:
    """What break-even would need where it is not reached."""
    if main.answer is not Answer.LOSES or main.break_even is None or main.setting.topk != 1:
        return
    if main.break_even.value > main.setting.steps + 1:
        yield "No acceptance reaches break-even with so few steps at this cost."
    elif main.needed_chance is not None and main.chance is not None:
        yield (
            f"Break-even needs each draft accepted in {numbers.share(main.needed_chance)} of all "
            f"cases, where now it is {numbers.share(main.chance)}."
        )


def _difference(main: BatchVerdict) -> str:
    now = numbers.rate(main.tokens_per_s.value)
    plain = main.tokens_per_s.value / main.speed_up.value if main.speed_up else None
    return f"{now} tokens/s in place of {numbers.rate(plain)}"


def _tails(found: RunReport) -> Iterator[str]:
    """Where the mean, of which throughput is made, is not what a cycle usually takes."""
    main = main_stratum(found)
    if main is None:
        return
    for one in found.strata:
        if one is main or (one.setting == PLAIN and one.batch == main.batch):
            yield from _tail(one)


def _tail(one: Stratum) -> Iterator[str]:
    if one.mean_ms is None or one.cycle is None or one.slowest_share is None:
        return
    mean_ms, median_ms = one.mean_ms.value, one.cycle.p50_ms.value
    if abs(mean_ms - median_ms) > _TAIL * median_ms:
        yield (
            f"A cycle of {setting(one.setting)} takes {numbers.milliseconds(mean_ms)} in the mean, "
            f"of which throughput is made, and {numbers.milliseconds(median_ms)} at the median: "
            f"the slowest {numbers.share(SLOWEST)} of those sampled take "
            f"{numbers.share(one.slowest_share)} of their time."
        )


def _phases(found: RunReport) -> Iterator[str]:
    main = main_stratum(found)
    if main is None or main.parts is None:
        return
    phases = [phase for phase in main.phases if phase.lane is main.parts.lane]
    largest = sorted(phases, key=lambda phase: -phase.share.value)[:3]
    clock = "On the device" if main.parts.lane is Lane.DEVICE else "By the host's clock"
    names = listed([f"{label(p.name)} {numbers.share(p.share.value)}" for p in largest])
    yield f"{clock} a cycle is {names}."


def main_stratum(found: RunReport) -> Stratum | None:
    """The cycles that the verdict names first."""
    if not found.verdict.by_batch:
        return None
    main = found.verdict.by_batch[0]
    return next(
        one for one in found.strata if (one.setting, one.batch) == (main.setting, main.batch)
    )


def phases_of(found: Stratum, lane: Lane) -> list[PhaseTimes]:
    """The phases of one lane."""
    return [phase for phase in found.phases if phase.lane is lane]


def _first(found: RunReport) -> Iterator[str]:
    first = found.verdict.first
    if first is None:
        return
    if first.change is Change.NOTHING:
        yield from _nothing(found, first)
        return
    yield f"Change first: {advice(first)}."
    if first.change is Change.STEPS:
        yield from _against_others(found, first)


def _nothing(found: RunReport, first: Advice) -> Iterator[str]:
    """That nothing is to be changed first, as far as is known."""
    if not first.at_most:
        yield "No single change that the data show would bring more than 1 %."
        return
    largest = _CHANGES[found.verdict.caps[0].change]
    yield (
        f"What to change first cannot be said without plain decode: {largest} can bring "
        f"{percent(first.gain)} at most, and what a cheaper verify would bring is not known."
    )


def _against_others(found: RunReport, first: Advice) -> Iterator[str]:
    """How sure it is that the setting to change to is the best."""
    for best in found.what_if.best:
        if best.batch != first.batch:
            continue
        if best.setting != first.setting:
            yield (
                f"{setting(best.setting).capitalize()} may bring more, but that lies beyond what "
                "was measured: measure it."
            )
        elif not best.clear:
            yield "It is not clear of all others: measure it before you trust it."


def advice(found: Advice) -> str:
    """A change, and what it brings."""
    brings = percent(found.gain)
    if found.at_most:
        return f"{_CHANGES[found.change]}, which can bring {brings} at most"
    if found.change is Change.OFF:
        return f"turn speculation off at batch size {found.batch}, {brings} more tokens/s"
    assert found.setting is not None  # noqa: S101 - of another number of steps there is a setting
    doubts = f"; {listed([DOUBTS[doubt] for doubt in found.doubts])}" if found.doubts else ""
    return (
        f"{setting(found.setting)} ({'measured' if found.measured else 'predicted'} at batch size "
        f"{found.batch}: {brings} more tokens/s{doubts}): {' '.join(flags(found.setting))}"
    )


def _verify(found: RunReport) -> Iterator[str]:
    main = main_stratum(found)
    for one in found.verify:
        if main is not None and one.batch == main.batch:
            yield from _fit(one)
    for step in found.graph_steps:
        yield (
            f"From batch size {step.from_batch} to {step.to_batch} verify of {step.tokens} tokens "
            f"takes {numbers.milliseconds(step.step_ms.value)} longer: the graph for "
            f"{step.from_padded} no longer fits, the one for {step.to_padded} runs."
        )


def _fit(one: VerifyFit) -> Iterator[str]:
    """What verify costs at one batch size."""
    at = f"At batch size {one.batch} verify takes"
    if one.shape is Shape.LINE and one.fixed_ms and one.per_token_ms:
        if one.per_token_ms.excludes(0.0):
            yield f"{at} {value(one.fixed_ms)} ms and {value(one.per_token_ms)} ms for each token."
        else:
            yield (
                f"{at} {value(one.fixed_ms)} ms whatever the number of tokens: each costs "
                f"{value(one.per_token_ms)} ms."
            )
        if one.jump_ms is not None and one.jump_ms.value > 0 and one.jump_ms.excludes(0.0):
            yield (
                f"With one token that would be {value(one.jump_ms)} ms more than plain decode "
                "takes: a verify is another graph or path, and this jump is paid by any number "
                "of steps."
            )
    elif one.shape is not Shape.UNKNOWN:
        r_squared = f" (R\u00b2 {one.r_squared:.2f})" if one.r_squared is not None else ""
        yield (
            f"{at} no fixed time and so much per token: it is {one.shape.value}{r_squared}, and "
            "other numbers of tokens are told only between those that were measured."
        )


def _crossover(found: RunReport) -> Iterator[str]:
    batch = found.what_if.crossover_batch
    if batch is not None and len({one.batch for one in found.verdict.by_batch}) > 1:
        sure = "" if found.what_if.crossover_clear else ", as far as the intervals tell"
        slower = f"speculation, as it is, is slower than plain decode{sure}."
        yield f"From batch size {batch} on {slower}"


def known_from(point: Point) -> str:
    """How a point is known: measured, given, or predicted, with the marks of its doubts."""
    if point.plain_source is not None:
        return _SOURCES[point.plain_source]
    if point.measured:
        return "measured"
    marks = ", ".join(MARKS[doubt] for doubt in Doubt if doubt in point.doubts)
    return f"predicted ({marks})" if marks else "predicted"


def best_words(best: Best) -> str:
    """The best setting of a batch size, and how sure that is."""
    sure = "clear of all others" if best.clear else "no clear winner"
    return f"{setting(best.setting)} ({sure})"
