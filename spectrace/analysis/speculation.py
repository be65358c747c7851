"""What speculation must reach to pay, what it brings, and what a change can bring at most.

t0 is the time of a plain decode, C that of a cycle, both of the same batch size, L the tokens that
a request gets from a cycle. Plain decode gives it one, or a little less where the scheduler notices
the end of a request one cycle late.
"""

from __future__ import annotations

from spectrace.analysis.estimates import exact, mapped, product
from spectrace.analysis.intervals import Estimate

_MS_PER_S = 1e3


def break_even(cycle_ms: float, plain_decode_ms: float) -> float:
    """The accept length from which on a speculative cycle is faster than plain decode.

    One cycle gives as many tokens as the accept length, plain decode one in its time: the two
    are equal at L* = C / t0. With a cycle of 29.9 ms and plain decode of 11.1 ms that is 2.69.

    Args:
        cycle_ms: Time of a cycle, C.
        plain_decode_ms: Time of a plain decode of the same batch, t0.

    Raises:
        ValueError: Plain decode takes no time.
    """
    if plain_decode_ms <= 0:
        raise ValueError(f"a plain decode of {plain_decode_ms} ms cannot be compared with")
    return cycle_ms / plain_decode_ms


def speed_up(
    accept_length: Estimate,
    cycle_ms: Estimate,
    plain_decode_ms: Estimate,
    plain_tokens: float = 1.0,
) -> Estimate:
    """How many times faster than plain decode: S = L t0 / C, over the tokens that this gives.

    Raises:
        ValueError: A value is not positive.
    """
    return product([accept_length, plain_decode_ms], [cycle_ms, exact(plain_tokens)])


def plain_tokens(late: float) -> float:
    """Tokens that a request gets from a plain decode.

    Args:
        late: Cycles behind the ends of requests for each token that they get: as many as with
            speculation, since it is the scheduler that notices an end late.
    """
    return 1 / (1 + late)


def throughput(accept_length: Estimate, cycle_ms: Estimate, batch: int) -> Estimate:
    """Tokens per second of all requests together: b L / C.

    Raises:
        ValueError: A value is not positive.
    """
    return mapped(product([accept_length], [cycle_ms]), lambda value: value * batch * _MS_PER_S)


def wasted_verify(tokens_per_cycle: float, draft_tokens: int) -> float:
    """The share of verified tokens that nobody got: 1 - L / n, from 0 to 1."""
    return 1 - tokens_per_cycle / draft_tokens


def padding_waste(batch: int, padded_batch: int) -> float:
    """The share of a graph that ran for nobody, its batch being smaller than it was made for."""
    return (padded_batch - batch) / padded_batch


def cap(cycle_ms: float, saved_ms: float) -> float | None:
    """The gain in throughput where a cycle takes so much less, as a share: D / (C - D).

    None where nothing of the cycle would be left.
    """
    rest_ms = cycle_ms - saved_ms
    return saved_ms / rest_ms if rest_ms > 0 else None
