"""Chooses the rows of the tables of releases for one server.

The tables stay outside: who puts the probe in gives it their digest, so that a server reads the
one row that it needs. `attach/payload.py` puts it behind this text, and the plugin fills it in.
"""

from __future__ import annotations

from marshal import loads
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from . import sglang as engine

if TYPE_CHECKING:
    Version = tuple[int, int, int, int]  # the last number is that of a post release

OLDEST: Version = (0, 4, 6, 0)
NEWEST: Version = (0, 5, 23, 0)
SCHEDULER, UNKNOWN, UNKNOWN_VERIFYING = "", "unknown", "unknown-verifying"
UNCOUNTED = (engine.RESULT, "", 0)
PLAIN = "TpModelWorker"

# By kind of worker, and of the scheduler: `marshal.dumps` of pairs, newest first, of a release
# and of `marshal.dumps` of the attributes of a row of `sglang_releases.py` from then on.
DIGEST: dict[str, bytes] = {}


def choose(text: str, worker: type, *, speculates: bool) -> Any:
    """The rows for a release and a kind of worker: a `sglang_releases.Chosen`.

    Args:
        text: The release as `sglang.__version__` spells it.
        worker: The worker's class.
        speculates: Whether the server does; a worker that derives from the plain one is then
            not taken for it.
    """
    found = parsed(text)
    version = min(max(found or NEWEST, OLDEST), NEWEST)
    kinds = [kind.__name__ for kind in worker.__mro__]
    if speculates and kinds[0] != PLAIN and PLAIN in kinds:
        kinds.remove(PLAIN)
    kinds.append(UNKNOWN_VERIFYING if hasattr(worker, "verify") else UNKNOWN)
    chosen = SimpleNamespace(**_row(SCHEDULER, version))
    found_row = next(filter(None, (_row(kind, version) for kind in kinds)))
    vars(chosen).update(found_row)
    settle(chosen)
    chosen.untried = _doubt(text, found, version, chosen)
    return chosen


def _row(kind: str, version: Version) -> dict[str, Any]:
    """The attributes of the row that holds for a release; none if there is none."""
    if kind in DIGEST:
        for since, row in loads(DIGEST[kind]):  # noqa: S302 - our own
            if since <= version:
                return dict(loads(row))  # noqa: S302 - the same
    return {}


def settle(chosen: Any) -> None:
    """Finds out what two rows make together: where the counts are, and how they are called."""
    if not chosen.counted:
        chosen.counts = UNCOUNTED
    elif chosen.early and chosen.counter:
        chosen.counts = (engine.REQUEST, chosen.counter, 0)
    since = spelled(max(chosen.release, chosen.since))
    chosen.name = f"{chosen.worker or 'unknown worker'} since {since}"


def _doubt(text: str, found: Version | None, version: Version, chosen: Any) -> str:
    """Why the rows may not fit, a sentence, or nothing."""
    if found != version:
        return (
            f"SGLang {text or 'of unknown release'} is none of the releases {spelled(OLDEST)} to "
            f"{spelled(NEWEST)} that spectrace knows: traced as {spelled(version)}, untried."
        )
    if chosen.worker and version not in chosen.tried:
        return (
            f"Untried: {chosen.worker} of SGLang {text} was checked against its sources, "
            "but never traced while it ran."
        )
    return ""


def spelled(version: Version) -> str:
    """A release as SGLang names it."""
    *numbers, post = version
    return ".".join(map(str, numbers)) + (f".post{post}" if post else "")


def parsed(text: str) -> Version | None:
    """The numbers of a release; None if there are none.

    A release candidate and a development version count as the release that they lead to.
    """
    numbers = []
    post = 0
    for part in text.partition("+")[0].split("."):
        digits = part.removeprefix("post")
        number = digits[: len(digits) - len(digits.lstrip("0123456789"))]
        if number and digits != part:
            post = int(number)
        elif number:
            numbers.append(int(number))
    if len(numbers) < 3 or not any(numbers):  # noqa: PLR2004 - major, minor, patch
        return None
    return numbers[0], numbers[1], numbers[2], post
