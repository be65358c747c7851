"""Says in words of what a phase is made, and how far a look at kernels is to be trusted."""

from __future__ import annotations

from collections.abc import Iterator

from spectrace.analysis.made_of import MadeOf, PhaseParts, RankWork
from spectrace.cli import numbers
from spectrace.cli.figures import listed
from spectrace.cli.kernel_words import loss_sentences
from spectrace.kernels import KernelClass, LookSource

_NAMED = 0.02  # of the device's time: what takes less is named in the table alone
_CLASSES = {
    KernelClass.COMMUNICATION.value: "communication",
    KernelClass.MOE.value: "work of experts",
    KernelClass.ATTENTION.value: "attention",
    KernelClass.MATMUL.value: "matrix products",
    KernelClass.NORM.value: "norms",
    KernelClass.SAMPLING.value: "sampling",
    KernelClass.COPY.value: "copies and fills",
    KernelClass.OTHER.value: "kernels of no class",
}


def sentences(found: MadeOf | None) -> Iterator[str]:
    """What the target model's forward is made of, and how much of it all is communication.

    Args:
        found: As the report has it; None where nobody looked, of which nothing is said here.
    """
    if found is None:
        return
    yield _main(found.rank, found.main)
    own = found.of_rank
    yield (
        f"Communication is {numbers.share(own.communication)} of the time of all kernels that "
        f"{own.rank}'s phases launched."
    )


def notes(found: MadeOf) -> Iterator[str]:
    """What stands beside the table: how ranks differ, and what looking did to the times."""
    yield from _ranks(found)
    yield from _replay(found.main)
    yield from _watched(found)
    for loss in found.losses:
        yield from loss_sentences(loss)


def label_of(phase: PhaseParts) -> str:
    """A phase as people read it."""
    return phase.phase.replace("_", " ")


def _main(rank: str, phase: PhaseParts) -> str:
    if not phase.parts:
        return f"Of what {label_of(phase)} is made is not known."
    parts = [
        (part.time_ms, _CLASSES.get(part.kernel_class, part.kernel_class)) for part in phase.parts
    ]
    named = [part for part in parts if part[0] >= _NAMED * phase.device_ms]
    rest_ms = sum(time_ms for time_ms, _ in parts) - sum(time_ms for time_ms, _ in named)
    rest = [(rest_ms, "smaller ones")] if rest_ms >= _NAMED * phase.device_ms else []
    idle = [(phase.gap_ms, "nothing at all")] if phase.gap_ms > 0 else []
    whole = numbers.milliseconds(phase.device_ms)
    takes = f"{rank}'s device takes for {label_of(phase)} in a cycle"
    if phase.beside_ms < _NAMED * phase.device_ms:
        return f"Of the {whole} that {takes}, {_are([*named, *rest, *idle])}."
    told = f" ({numbers.milliseconds(phase.gap_ms)} of them nothing at all)" if idle else ""
    return (
        f"In the {whole} that {takes}{told}, its kernels take "
        f"{numbers.milliseconds(phase.busy_ms + phase.beside_ms)}, since some ran at once: "
        f"{_are([*named, *rest])}."
    )


def _are(parts: list[tuple[float, str]]) -> str:
    """`17.2 ms are matrix products and 4.10 ms attention`."""
    first, *others = [(numbers.milliseconds(time_ms), what) for time_ms, what in parts]
    return listed(
        [f"{first[0]} are {first[1]}", *(f"{time_text} {what}" for time_text, what in others)]
    )


def _ranks(found: MadeOf) -> Iterator[str]:
    if len(found.ranks) < 2:  # noqa: PLR2004 - there is nothing to compare
        return
    quickest = min(found.ranks, key=lambda one: one.own_ms)
    last = max(found.ranks, key=lambda one: one.own_ms)
    if found.slowest is None:
        yield (
            "The ranks' own kernels take about as long: "
            f"{numbers.milliseconds(quickest.own_ms)} to {numbers.milliseconds(last.own_ms)} of a "
            "cycle."
        )
        return
    yield (
        f"{last.rank}'s own kernels take {numbers.milliseconds(last.own_ms)} of a cycle, those of "
        f"{quickest.rank} {numbers.milliseconds(quickest.own_ms)}."
    )
    if quickest.communication_ms > last.communication_ms:
        yield _waiting(quickest, last)


def _waiting(quickest: RankWork, last: RankWork) -> str:
    return (
        f"{quickest.rank} spends {numbers.milliseconds(quickest.communication_ms)} in "
        f"communication, {last.rank} {numbers.milliseconds(last.communication_ms)}: a collective "
        "lasts until the last rank has come, so that the difference may be waiting."
    )


def _replay(phase: PhaseParts) -> Iterator[str]:
    if phase.replay_ms is None:
        return
    seen = f"{numbers.count(phase.replays_seen)} replay{'' if phase.replays_seen == 1 else 's'}"
    longer = "" if phase.stretched is None else f", {phase.stretched:.2f} times as much"
    yield (
        f"Seen whole, which disturbs little, a replay of its graph took "
        f"{numbers.milliseconds(phase.replay_ms)} (mean of {seen}); kernel by kernel, and with "
        f"what is launched around it, {label_of(phase)} takes "
        f"{numbers.milliseconds(phase.device_ms)}{longer}."
    )


def _watched(found: MadeOf) -> Iterator[str]:
    cycles = numbers.count(found.of_rank.cycles)
    if found.source is LookSource.TRACE:
        yield f"Over {cycles} cycles of a trace: whoever wrote it made the server slower."
        return
    cost = found.cost
    slower = ""
    if cost is not None and cost.before_ms is not None and cost.kernels_ms is not None:
        slower = (
            f": a cycle took {numbers.milliseconds(cost.kernels_ms)} while kernels were seen, and "
            f"{numbers.milliseconds(cost.before_ms)} before (medians)"
        )
    newest = f", the newest of {numbers.count(found.looks)} looks" if found.looks > 1 else ""
    yield (
        f"Over {cycles} cycles of a watched server{newest}{slower}. For how long phases take, "
        "the times of the report are the measure."
    )
