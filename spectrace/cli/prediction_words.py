"""Says in plain words what is expected of a setting, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator

from spectrace.analysis.prediction import Check, Checked, Held, Prediction, Quantity
from spectrace.cli.run_words import DOUBTS, setting, value

_NAMES = {
    Quantity.ACCEPT_LENGTH: ("the accept length", ""),
    Quantity.VERIFY_MS: ("verify", " ms"),
    Quantity.DRAFT_MS: ("the draft", " ms"),
    Quantity.REST_MS: ("the rest of the cycle", " ms"),
    Quantity.PLAIN_MS: ("plain decode", " ms"),
}
_WHOLE = {
    Held.HELD: "The prediction held",
    Held.FAILED: "The prediction failed",
    Held.OPEN: "Whether the prediction held cannot be said",
}


def expected(found: Prediction) -> Iterator[str]:
    """What is expected, and what it rests on."""
    yield (
        f"Expected of {setting(found.setting)} at batch size {found.batch}: "
        f"{value(found.tokens_per_s, 1)} tokens/s, from a cycle of {value(found.cycle_ms)} ms."
    )
    for name, estimate in found.assumptions.items():
        what, unit = _NAMES[name]
        said = ", as you said" if name in found.assumed else ""
        yield f"{what[0].upper()}{what[1:]}: {value(estimate)}{unit}{said}."
    for doubt in found.doubts:
        yield f"{DOUBTS[doubt][0].upper()}{DOUBTS[doubt][1:]}."


def became(found: Check) -> tuple[str, ...]:
    """What became of a prediction, assumption by assumption."""
    return tuple(_became(found))


def _became(found: Check) -> Iterator[str]:
    wanted = f"{setting(found.prediction.setting)} at batch size {found.prediction.batch}"
    if found.measured is None:
        yield f"This run says nothing of {wanted}: record one with that setting."
        return
    yield (
        f"{_WHOLE[found.held]}: {value(found.prediction.tokens_per_s, 1)} tokens/s were expected "
        f"of {wanted}, {value(found.measured, 1)} came."
    )
    failed = [one for one in found.assumptions if one.held is Held.FAILED]
    yield from map(_failure, failed)
    for one in found.assumptions:
        if one.held is Held.HELD and one.measured is not None:
            what, unit = _NAMES[one.quantity]
            came = f"{value(one.expected)}{unit} assumed and {value(one.measured)}{unit} measured"
            yield f"Held: {what}, {came}."
        elif one.held is Held.OPEN and one.measured is not None:
            what, unit = _NAMES[one.quantity]
            yield (
                f"Open: {what}, {value(one.expected)}{unit} assumed and "
                f"{value(one.measured)}{unit} measured: one of the runs is too short for an "
                "interval, record for longer."
            )
        elif one.held is Held.NOT_MEASURED:
            yield f"Not measured in this run: {_NAMES[one.quantity][0]}."


def _failure(one: Checked) -> str:
    assert one.measured is not None  # noqa: S101 - only what was measured can fail
    what, unit = _NAMES[one.quantity]
    better = one.effect is not None and one.effect > 1
    word = "Better than assumed" if better else "Failed"
    effect = (
        f"; this alone makes {abs(one.effect - 1) * 100:.0f} % {'more' if better else 'less'}"
        if one.effect is not None and one.quantity is not Quantity.PLAIN_MS
        else ""
    )
    return (
        f"{word}: {what} was assumed to be {value(one.expected)}{unit} and was "
        f"{value(one.measured)}{unit}{effect}."
    )
