"""Says in plain words what a comparison of timing modes found, and what it leaves open."""

from __future__ import annotations

from collections.abc import Iterator

from spectrace.analysis.intervals import Estimate, negated
from spectrace.analysis.timing_report import (
    Comparison,
    Cost,
    Moved,
    Verdict,
)
from spectrace.cli import numbers
from spectrace.cli.figures import listed
from spectrace.model import Lane, PhaseName, TimingMode

_CLOCKS = {
    TimingMode.HOST: "the host's clock",
    TimingMode.SYNC: "sync timing",
    TimingMode.DEVICE: "the host's clock in mode device",  # as of every mode, its host lane
}
_TO = "\u2013"  # an en dash


def sentences(found: Comparison, cut_off: str = "", *, stopped: bool = False) -> tuple[str, ...]:
    """The comparison as sentences, which make one paragraph.

    Args:
        found: The comparison.
        cut_off: Why it ended early, a sentence or two; empty where it did not.
        stopped: Somebody ended it.
    """
    return tuple(_sentences(found, cut_off, stopped))


def _sentences(found: Comparison, cut_off: str, stopped: bool) -> Iterator[str]:
    if len(found.modes) < 2:  # noqa: PLR2004 - a pair
        yield from _too_little(found, cut_off, stopped)
        return
    yield from _lacking(found)
    if found.runs_ahead:
        yield (
            "The host runs ahead of the device: host times of phases are the times of their "
            "launches and of waits with a name, not what the device does in them."
        )
    on_device = found.reference is not None and found.reference.lane is Lane.DEVICE
    yield from (_moved(one, on_device=on_device) for one in found.moved)
    for mode in (TimingMode.HOST, TimingMode.SYNC):
        yield from _differences(found, mode)
    yield from map(_cost, found.costs)
    if found.reference is None:
        yield "The phases cannot be held against anything: neither device nor sync was timed."
    if cut_off:
        yield f"{cut_off} All this is of what came until then."


def _too_little(found: Comparison, cut_off: str, stopped: bool) -> Iterator[str]:
    """Why nothing can be said; of what is known to have ended it nothing is guessed."""
    if not found.modes and not sum(found.left_out.values()):
        yield "Nothing can be said: no cycle came in a block."
        if stopped and not cut_off:
            yield "It was stopped before the first one."
        else:
            yield cut_off or "It ended before the first one, or the server is idle."
        return
    if not found.modes:
        yield (
            "Nothing can be said: too few cycles came that can be compared. Two blocks of each "
            "mode are the least."
        )
    else:
        only = found.modes[0].mode.value
        yield f"Nothing can be compared: only mode {only} has two blocks of cycles that count."
    if cut_off:
        yield cut_off


def _lacking(found: Comparison) -> Iterator[str]:
    """What was to be compared and cannot be."""
    device = found.of(TimingMode.DEVICE)
    if found.device_timing and device is None:
        yield f"There is no device timing here. {found.device_timing}"
    elif found.device_timing:
        yield f"Device timing has ended before the comparison did. {found.device_timing}"
    elif device is not None and not device.device:
        yield "Mode device gave no times of the device: no cycle has a whole lane of it."
    explained = {TimingMode.DEVICE} if found.device_timing else set()
    names = [mode.value for mode in found.without_data if mode not in explained]
    if names:
        yield (
            f"Of mode {listed(names)} nothing can be said: too few of its cycles count."
            if len(names) == 1
            else f"Of modes {listed(names)} nothing can be said: too few of their cycles count."
        )


def _moved(moved: Moved, *, on_device: bool) -> str:
    where = "on the device" if on_device else "by sync timing"
    hidden = (
        f"{_CLOCKS[moved.mode].capitalize()} hides {_ms(moved.hidden_ms)} of "
        f"{label(moved.hidden_in)}'s time {where}"
    )
    if moved.charged_to is None or moved.charged_ms is None:
        return f"{hidden}; no phase of it is longer by as much beside."
    way = f"({label(moved.hidden_in)} \u2192 {label(moved.charged_to)})"
    if moved.as_wait:
        return f"{hidden}; it shows up in {label(moved.charged_to)} {way}."
    return f"{hidden}, and charges {label(moved.charged_to)} with {_ms(moved.charged_ms)} {way}."


def _differences(found: Comparison, mode: TimingMode) -> Iterator[str]:
    """What `_moved` does not tell: phases that are longer or shorter, as long, or unknown."""
    own = [one for one in found.differences if one.mode is mode]
    reference = found.reference
    if not own or reference is None:
        return
    against = "the device" if reference.lane is Lane.DEVICE else "sync timing"
    moved = [one for one in found.moved if one.mode is mode]
    told = {one.charged_to for one in moved} | {one.hidden_in for one in moved}
    clock = _CLOCKS[mode].capitalize()
    for one in own:
        excess = one.difference_ms
        if one.verdict is Verdict.DIFFERS and excess is not None and one.phase not in told:
            longer = excess.value > 0
            apart = excess if longer else negated(excess)
            yield (
                f"{clock} shows {label(one.phase)} {'longer' if longer else 'shorter'} than "
                f"{against}, by {_ms(apart)}{_why_longer(mode) if longer else ''}."
            )
    same = [one.phase for one in own if one.verdict is Verdict.SAME]
    if same:
        within = numbers.milliseconds(found.margin_ms)
        names = listed([label(phase) for phase in same])
        yield f"{clock} shows {names} as {against} does, within {within}."
    unknown = [one for one in own if one.verdict is Verdict.OPEN]
    if unknown:
        names = listed([f"{label(one.phase)} ({_reach(one.difference_ms)})" for one in unknown])
        shown = f"{clock[0].lower()}{clock[1:]} shows it otherwise than {against}"
        yield f"Whether {shown} cannot be said of {names}."


def _why_longer(mode: TimingMode) -> str:
    if mode is TimingMode.SYNC:
        return ": what is launched while the device works elsewhere is waited for here"
    return ""


def _reach(estimate: Estimate | None) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return "too few blocks"
    low, high = (numbers.milliseconds_cell(limit) for limit in (estimate.low, estimate.high))
    return f"{low} to {high} ms"


def _cost(cost: Cost) -> str:
    name = {
        TimingMode.SYNC: "Sync timing",
        TimingMode.DEVICE: "Device timing",
        TimingMode.HOST: "Host timing",
    }[cost.mode]
    ratio = cost.throughput_ratio
    if ratio is None or ratio.low is None or ratio.high is None:
        return f"What {name.lower()} costs cannot be said: there are too few blocks."
    if ratio.half_width > 1:
        return f"What {name.lower()} costs cannot be said: cycles differ too much by themselves."
    reach = f"{percent(ratio.low - 1)} to {percent(ratio.high - 1)}"
    if cost.verdict is Verdict.SAME:
        return f"{name} costs nothing that matters: {_at_most(ratio.high - 1)}."
    if cost.verdict is Verdict.OPEN:
        return (
            f"What {name.lower()} costs cannot be said, {reach} of a cycle: with a smaller "
            "--precision it takes longer and says more."
        )
    word = "slower" if ratio.value > 1 else "faster"
    return (
        f"{name} makes the server {percent(abs(ratio.value - 1))} {word} "
        f"({reach}): throughput without it over that with it is {ratio.value:.3f}."
    )


def _at_most(share: float) -> str:
    if share <= 0:
        return "cycles are not longer than without"
    return f"cycles are {numbers.share(share)} longer than without at most"


def _ms(estimate: Estimate) -> str:
    """A time with its interval."""
    if estimate.low is None or estimate.high is None:
        return numbers.milliseconds(estimate.value)
    low, high = (numbers.milliseconds_cell(limit) for limit in (estimate.low, estimate.high))
    return f"{numbers.milliseconds(estimate.value)} ({low}{_TO}{high})"


def percent(fraction: float) -> str:
    """A share in % with one decimal and a real minus sign."""
    return f"{numbers.two_decimals(round(fraction * 100, 1))[:-1]} %"


def host_lane(mode: TimingMode) -> str:
    """The host's phases in a mode: of mode `device` they are not what its name says."""
    return "host, in mode device" if mode is TimingMode.DEVICE else mode.value


def label(phase: PhaseName) -> str:
    """A phase as people read it."""
    return phase.value.replace("_", " ")
