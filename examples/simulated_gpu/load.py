"""The requests of a simulated server: they come, get their tokens, and go.

Nothing here looks at a clock. With the same seed the same requests come at the same cycles and
get the same tokens, however fast the server is and whoever looks on.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from random import Random

VOCABULARY = 32_000
_PROMPT_TOKENS = (50, 400)
_OUTPUT_TOKENS = (48, 192)
_COMES_EVERY = 12  # cycles, where there is room
_CARDS = 100
_KEPT_TOKENS = 1000  # of a request without end


class ForwardMode(IntEnum):
    """The names that matter of SGLang's enum."""

    EXTEND = 1
    DECODE = 2


@dataclass
class Request:
    """One request, under the names that SGLang's has.

    Attributes:
        rid: Its id.
        limit: Tokens after which it ends; None for a request without end.
        origin_input_ids: Its prompt.
        output_ids: What it got.
        finished_reason: Why it has ended, None while it runs.
        is_retracted: It was put back into the queue.
        finished_len: Where its output was cut, if it was.
        spec_verify_ct: Verifies it took part in.
        spec_num_correct_drafts: Drafts that they found correct.
    """

    rid: str
    limit: int | None = None
    origin_input_ids: list[int] = field(default_factory=lambda: [0] * _PROMPT_TOKENS[0])
    output_ids: list[int] = field(default_factory=list)
    finished_reason: str | None = None
    is_retracted: bool = False
    finished_len: int | None = None
    spec_verify_ct: int = 0
    spec_num_correct_drafts: int = 0

    def finished(self) -> bool:
        """Whether it has ended."""
        return self.finished_reason is not None

    def take(self, tokens: int) -> None:
        """Gives it so many tokens, or as many as it may still get."""
        for _ in range(tokens):
            if self.finished():
                return
            self.output_ids.append(token(self.rid, len(self.output_ids)))
            if len(self.output_ids) == self.limit:
                self.finished_reason = "length"


def token(rid: str, place: int) -> int:
    """What a request gets at a place of its output."""
    return zlib.crc32(f"{rid} {place}".encode()) % VOCABULARY


@dataclass
class Batch:
    """What `run_batch` is given."""

    reqs: list[Request]
    forward_mode: ForwardMode = ForwardMode.DECODE
    forward_iter: int = 0


class Deck:
    """How many drafts are correct: cards, dealt in an order that the seed decides.

    One after the other they are correct with the same probability, up to the first that is not.
    The mean of a whole deck is the accept length to a hundredth.

    Args:
        accept_length: (Correct drafts + verifies) / verifies, from 1 to `steps` + 1.
        steps: Drafts of a cycle.
        seed: Of the order.
    """

    def __init__(self, accept_length: float, steps: int, seed: int) -> None:
        self._cards = cards(accept_length, steps)
        self._random = Random(seed)
        self._left: list[int] = []

    def deal(self, count: int) -> list[int]:
        """The next so many cards."""
        return [self._next() for _ in range(count)]

    def _next(self) -> int:
        if not self._left:
            self._left = self._random.sample(self._cards, len(self._cards))
        return self._left.pop()


def cards(accept_length: float, steps: int) -> list[int]:
    """A deck of a hundred cards with the mean `accept_length` - 1.

    Raises:
        ValueError: No drafts of so many steps have that accept length.
    """
    if not 1 <= accept_length <= steps + 1:
        raise ValueError(f"{steps} steps cannot have an accept length of {accept_length}")
    each = acceptance(accept_length, steps)
    reached = [round(_CARDS * each**place) for place in range(1, steps + 1)]
    reached[0] += round(_CARDS * (accept_length - 1)) - sum(reached)
    return [sum(card < count for count in reached) for card in range(_CARDS)]


def acceptance(accept_length: float, steps: int) -> float:
    """The probability of each draft by the prefix form: accept length = 1 + a + a^2 + … + a^steps.

    Leviathan et al., arXiv 2211.17192.
    """
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        too_low = sum(middle**place for place in range(steps + 1)) < accept_length
        low, high = (middle, high) if too_low else (low, middle)
    return (low + high) / 2


class Visitors:
    """Requests that come, are prefilled, decoded together, and go.

    Args:
        most: So many run at a time.
        seed: Of when they come, and of how long they are.

    Attributes:
        running: Those that have come and not yet gone.
        on_leaving: Is told each that goes.
    """

    def __init__(self, most: int, seed: int) -> None:
        self._most = most
        self._random = Random(seed)
        self._came = 0
        self.running: list[Request] = []
        self.on_leaving: Callable[[Request], None] = lambda _: None

    @property
    def gone(self) -> int:
        """How many have gone."""
        return self._came - len(self.running)

    def batch(self) -> Batch:
        """What to run next: who has just come alone, else all that have not ended."""
        for request in self.running:
            if request.finished():
                self.on_leaving(request)
        self.running = [request for request in self.running if not request.finished()]
        if not self._somebody_comes():
            return Batch(list(self.running))
        self._came += 1
        new = Request(
            rid=f"request-{self._came:05d}",
            limit=self._random.randint(*_OUTPUT_TOKENS),
            origin_input_ids=[0] * self._random.randint(*_PROMPT_TOKENS),
        )
        self.running.append(new)
        return Batch([new], ForwardMode.EXTEND)

    def _somebody_comes(self) -> bool:
        if not self.running:
            return True
        return len(self.running) < self._most and self._random.randrange(_COMES_EVERY) == 0


class Residents:
    """Requests without end, so that all cycles are alike.

    Args:
        count: How many.
    """

    def __init__(self, count: int) -> None:
        self.running = [Request(f"request-{place}") for place in range(count)]

    def batch(self) -> Batch:
        """All of them."""
        for request in self.running:
            if len(request.output_ids) > _KEPT_TOKENS:
                request.output_ids.clear()
        return Batch(list(self.running))
