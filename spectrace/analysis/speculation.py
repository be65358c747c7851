"""What speculation must reach to pay."""

from __future__ import annotations


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
