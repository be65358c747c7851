"""What requests get from a cycle where their ends cut off tokens, and cost cycles of their own.

A request ends somewhere among the tokens of its last verify, and what lies behind is lost. Ends
fall into long verifies more often, as many times as they are longer, and anywhere within one: a
verify of T tokens loses (T - 1) / 2 of them in the mean, so that an end loses
E[T (T - 1)] / (2 E[T]), the mean excess of a renewal process (Cox, Renewal Theory, 1962, chapter
5). Requests of R tokens then get the share R / (R + excess) of what verify gives. R is told from
that share at another number of steps.

The overlap scheduler notices an end one cycle late: what verify gives there is lost too, as many
tokens as it gives in the mean.
"""

from __future__ import annotations

from collections.abc import Sequence


def excess(chances: Sequence[float]) -> float:
    """Tokens that the end of a request cuts off in the mean.

    Args:
        chances: Acceptance at each position, given all before. With P_j the product of the first j
            of them, E[T] is 1 + Σ P_j and E[T (T - 1)] is 2 Σ j P_j.
    """
    reached, lost, length = 1.0, 0.0, 1.0
    for place, chance in enumerate(chances, 1):
        reached *= chance
        lost += place * reached
        length += reached
    return lost / length


def kept_share(
    kept: float, measured: Sequence[float], wanted: Sequence[float], late: float = 0.0
) -> float:
    """The share of verify's tokens that requests get at a number of steps that was not measured.

    Args:
        kept: The same where it was measured, from 0 to 1, without cycles behind their ends.
        measured: Acceptance at each position there.
        wanted: Acceptance at each position of the other number of steps.
        late: Cycles behind the ends of requests for each token that they get, which depends on
            how long requests are alone.
    """
    if kept <= 0:
        return 0.0
    before = excess(measured)
    cut = excess(wanted) / before * max(0.0, 1 / kept - 1) if before > 0 else 0.0
    return 1 / (1 + cut + late * _length(wanted))


def _length(chances: Sequence[float]) -> float:
    reached = length = 1.0
    for chance in chances:
        reached *= chance
        length += reached
    return length
