"""Checks what an author hands in: a mistake is raised at the call, whether anybody reads or not.

Nothing on a device is read: what has the wrong type is refused for its type alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from numbers import Integral
from typing import NoReturn, Protocol

from spectrace.probe.layout import MIN_UNITS, UNIT_BYTES, Kind, Ph

KINDS = {
    "speculative": Kind.SPECULATIVE,
    "decode": Kind.DECODE,
    "extend": Kind.EXTEND,
    "mixed": Kind.MIXED,
    "idle": Kind.IDLE,
    "other": Kind.OTHER,
}
PHASES = {
    "resolve": Ph.RESOLVE,
    "forward": Ph.FORWARD,
    "draft": Ph.DRAFT,
    "verify": Ph.VERIFY,
    "verify.prepare": Ph.VERIFY_PREPARE,
    "verify.forward": Ph.VERIFY_FORWARD,
    "verify.sample": Ph.VERIFY_SAMPLE,
    "verify.commit": Ph.VERIFY_COMMIT,
    "draft.step": Ph.DRAFT_STEP,
    "draft_extend": Ph.DRAFT_EXTEND,
    "wait": Ph.WAIT,
    "result": Ph.RESULT,
    "schedule": Ph.SCHEDULE,
}
MAX_RING_BYTES = 1 << 30
NOBODY: tuple[str, ...] = ()
_MIN_RING_BYTES = MIN_UNITS * UNIT_BYTES
_MAX_TEXT = 100  # characters: all texts of a loop must fit into one page
_MAX_WHOLE = 1 << 48

Row = tuple[str, int | None, int, bool]  # request id, correct drafts, output tokens, ended


class Device(Protocol):
    """What we use of `torch.device`: the type is of no interest to a loop without torch."""

    @property
    def type(self) -> str:
        """Such as `cuda`."""


def text(what: str, value: object) -> str:
    """A short text.

    Raises:
        TypeError: It is none.
        ValueError: It is too long.
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {_type(value)}.")
    if len(value) > _MAX_TEXT:
        raise ValueError(f"{what} must have {_MAX_TEXT} characters at most, not {len(value)}.")
    return value


def device_name(value: str | Device) -> str:
    """The name of a device that is given as such or as a `torch.device`.

    Raises:
        TypeError: It is neither.
        ValueError: Its name is too long.
    """
    if isinstance(value, str) or isinstance(getattr(value, "type", None), str):
        return text("device", str(value))
    raise TypeError(f"device must be a str such as 'cuda', or a torch.device, not {_type(value)}.")


def ring_units(ring_bytes: object) -> int:
    """Size of a ring in units of `layout.UNIT_BYTES`.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is too small or too big.
    """
    return whole("ring_bytes", ring_bytes, _MIN_RING_BYTES, MAX_RING_BYTES) // UNIT_BYTES


def whole(what: str, value: object, least: int = 0, most: int = _MAX_WHOLE) -> int:
    """A whole number, also one of numpy's.

    Raises:
        TypeError: It is none, or on a device.
        ValueError: It is too small or too big.
    """
    if not isinstance(value, Integral):
        raise TypeError(f"{what} must be an int, not {_type(value)}.")
    number = int(value)
    if not least <= number <= most:
        raise ValueError(f"{what} must be from {least} to {most}, not {number}.")
    return number


def size(steps: object, topk: object, draft_tokens: object) -> tuple[int, int, int]:
    """How much a cycle drafts and verifies.

    Raises:
        TypeError: One of them is no whole number.
        ValueError: One of them is negative.
    """
    return (
        whole("steps", steps),
        whole("topk", topk),
        whole("draft_tokens", draft_tokens),
    )


def kind_code(kind: object) -> int:
    """The number of a kind of cycle.

    Raises:
        TypeError: It is no str.
        ValueError: There is no such kind.
    """
    code = KINDS.get(text("kind", kind))
    if code is None:
        raise ValueError(f"There is no kind {kind!r}: it is one of {', '.join(KINDS)}.")
    return code


def refuse_phase(name: object) -> NoReturn:
    """Says why a name is no phase.

    Raises:
        TypeError: It is no str.
        ValueError: There is no such phase.
    """
    known = ", ".join(PHASES)
    raise ValueError(f"There is no phase {text('The phase', name)!r}: it is one of {known}.")


def refuse_ids(what: str, ids: object) -> NoReturn:
    """Says why something is no collection of request ids.

    Raises:
        TypeError: Always.
    """
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Collection):
        raise TypeError(f"{what} must be a list or tuple of request ids, not {_type(ids)}.")
    wrong = next((request for request in ids if not isinstance(request, str)), None)
    raise TypeError(f"A request id in {what} must be a str, not {_type(wrong)}: give str(id).")


def check_ids(what: str, ids: Collection[str]) -> None:
    """Sees to it that something is a collection of request ids.

    Raises:
        TypeError: It is none, or an id is no str.
    """
    try:
        len(ids)
        "".join(ids)  # the quickest way to see that all are
    except TypeError:
        refuse_ids(what, ids)
    if type(ids) is str:
        refuse_ids(what, ids)


def check_counts(what: str, counts: Mapping[str, int | None], *, none: bool) -> None:
    """Sees to it that something maps request ids to ints that are there already.

    Args:
        what: Its name.
        counts: What is checked.
        none: None may stand for a count.

    Raises:
        TypeError: It does not, or a count would have to be read from a device.
        ValueError: A count is negative.
    """
    try:
        items = counts.items()
    except AttributeError:
        raise TypeError(
            f"{what} must map request ids to counts, as {{id: 2}} does, not {_type(counts)}."
        ) from None
    for request, count in items:
        if type(request) is not str:
            check_ids(what, (request,))
        if (type(count) is not int or count < 0) and not (none and count is None):
            whole(f"A count in {what}", count)


def check_output(counts: Mapping[str, int], requests: Iterable[str]) -> None:
    """Sees to it that something gives each request its tokens.

    Raises:
        TypeError: As `check_counts`.
        ValueError: A count is negative, or one is missing.
    """
    check_counts("output_tokens", counts, none=False)
    for request in requests:
        if request not in counts:
            raise ValueError(f"output_tokens lacks request {request[:_MAX_TEXT]!r}.")


def _type(value: object) -> str:
    return type(value).__name__
