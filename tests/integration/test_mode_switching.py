"""Switching a live server from mode to mode changes no token and leaves no record half in each.

The same many thousand times over is in `tests/soak/`.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from spectrace.model import TimingMode
from tests.conftest import Served
from tests.helpers.switching import ORDER, prove, prove_on_a_real_server, prove_on_ranks
from tests.helpers.tracing import token_ids

COUNT = 13  # from each mode to each other one
ON_A_REAL_SERVER = 4  # of a second each


def test_every_mode_follows_every_other() -> None:
    """In the order of the switches there are all twelve pairs, each once."""
    pairs = set(pairwise((*ORDER, ORDER[0])))
    assert pairs == {(a, b) for a in TimingMode for b in TimingMode if a is not b}
    assert len(ORDER) == len(pairs)


@pytest.mark.parametrize("shape", ["v1", "v2"])
def test_no_token_and_no_record_is_touched_by_switching(shape: str) -> None:
    """Each record is in the very mode that was asked for its cycle, and was taken that way."""
    prove(shape, COUNT)


def test_all_ranks_go_from_mode_to_mode_at_the_same_cycle() -> None:
    """No cycle is in one mode on one rank and in another on the other."""
    prove_on_ranks(2, COUNT)


def test_a_real_server_gives_the_same_tokens_while_it_is_switched(served: Served) -> None:
    """Under load no request gets another token, and each cycle is as it was asked for."""
    prove_on_a_real_server(
        served.server.url, served.server.pid, token_ids(served.baseline), ON_A_REAL_SERVER
    )
