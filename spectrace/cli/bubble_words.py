"""Says in words when and why the device of a server ran nothing."""

from __future__ import annotations

from collections.abc import Iterator

from spectrace.analysis.bubbles import MATTERS, Bound, Bubbles, Cause, GapFigures
from spectrace.analysis.intervals import Estimate
from spectrace.cli import numbers
from spectrace.cli.figures import listed
from spectrace.cli.timing_words import label

_SHOWN = 2
_CAUSES = {
    Cause.LATE_LAUNCH: "the host was still preparing or launching",
    Cause.SCHEDULER: "the host was still in the scheduler",
    Cause.WAITING: "the host had launched, and another stream or rank kept the device",
    Cause.UNCLEAR: "the times do not say why",
}
GAP_CAUSES = {
    Cause.LATE_LAUNCH: "late launch",
    Cause.SCHEDULER: "scheduler",
    Cause.WAITING: "other streams, ranks",
    Cause.UNCLEAR: "unclear",
}
_BOUNDS = {
    Bound.HOST: "The server is host-bound: the device waits for the host.",
    Bound.DEVICE: "The server is device-bound: its device has next to no gaps.",
    Bound.OTHERS: "The device waits for other streams or ranks more than for the host.",
    Bound.OPEN: "Whether host or device sets the pace cannot be said.",
}


def sentences(found: Bubbles) -> tuple[str, ...]:
    """What was found as sentences, which make one paragraph."""
    return tuple(_sentences(found))


def _sentences(found: Bubbles) -> Iterator[str]:
    if found.problem:
        yield found.problem
        return
    yield _BOUNDS[found.bound]
    if found.idle_share is not None:
        yield f"The device runs no phase in {share(found.idle_share)} of the time."
    causes = [
        f"{share(part)} while {_CAUSES[cause]}"
        for cause, part in sorted(found.causes.items(), key=lambda each: -each[1].value)
        if part.value >= MATTERS / 5
    ]
    if causes:
        yield f"Of all time that is {listed(causes)}."
    yield from map(_gap, [gap for gap in found.gaps if gap.share.value >= MATTERS / 5][:_SHOWN])
    if found.launch_share is not None and found.launch_share.value >= MATTERS / 5:
        yield (
            f"Within phases that run as CUDA graphs it may wait for the end of their launch in up "
            f"to {share(found.launch_share)} of the time."
        )
    if found.hidden_share is not None:
        yield (
            f"The scheduler's own work takes {numbers.milliseconds(found.own_work_ms)} of a cycle; "
            f"in {share(found.hidden_share)} of that the device is busy meanwhile."
        )
    if found.too_small:
        yield (
            f"{numbers.count(found.too_small)} gaps ({numbers.share(found.too_small_share)} of the "
            "time) are no longer than the error of the device's clock "
            f"({numbers.milliseconds(found.error_ms)}), and are not claimed."
        )


def _gap(gap: GapFigures) -> str:
    where = " of the next cycle" if gap.between_cycles else ""
    length, part = numbers.milliseconds(gap.length_ms.value), numbers.share(gap.share.value)
    return (
        f"Between {label(gap.before)} and {label(gap.after)}{where} it stands still for {length}, "
        f"{part} of the time."
    )


def share(estimate: Estimate) -> str:
    """A share with its interval."""
    if estimate.low is None or estimate.high is None:
        return numbers.share(estimate.value)
    low, high = (numbers.share_cell(max(0.0, limit)) for limit in (estimate.low, estimate.high))
    return f"{numbers.share(estimate.value)} ({low}\u2013{high})"
