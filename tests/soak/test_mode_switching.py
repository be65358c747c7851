"""Live servers are switched from mode to mode thousands of times.

SPECTRACE_SOAK_SWITCHES says how often each simulated one, at about 6 a second with cycles of
1 ms, and 2 with two ranks; real servers, with cycles of their own length, a fiftieth as often.
"""

from __future__ import annotations

import json
import os

import pytest

from examples.sglang_cpu.server import CpuServer, ServerOptions
from tests.helpers.switching import Switched, prove, prove_on_a_real_server, prove_on_ranks
from tests.helpers.unnoticed import answers_to

COUNT = int(os.environ.get("SPECTRACE_SOAK_SWITCHES", "10000"))
SCALE, LEAD_S = 0.035, 0.1
ON_A_REAL_SERVER = max(1, COUNT // 50)


def tell(what: str, switched: Switched) -> None:
    """Prints how many records were looked at."""
    records = {mode.value: count for mode, count in switched.records.items()}
    print(json.dumps({"server": what, "switches": len(switched.asked) - 1, "records": records}))


@pytest.mark.parametrize("shape", ["v1", "v2"])
def test_no_token_and_no_record_is_touched_by_switching(shape: str) -> None:
    """Each record is in the very mode that was asked for its cycle, and was taken that way."""
    tell(shape, prove(shape, COUNT, scale=SCALE, lead_s=LEAD_S))


def test_all_ranks_go_from_mode_to_mode_at_the_same_cycle() -> None:
    """No cycle is in one mode on one rank and in another on the other."""
    tell("two ranks", prove_on_ranks(2, COUNT))


REAL = {"plain": ServerOptions(), "overlap": ServerOptions(scheduler="overlap")}


@pytest.mark.parametrize("kind", REAL)
def test_a_real_server_gives_the_same_tokens_while_it_is_switched(kind: str) -> None:
    """Under load no request gets another token, and each cycle is as it was asked for."""
    with CpuServer(REAL[kind]) as server:
        expected = answers_to(server.url, "before")
        tell(kind, prove_on_a_real_server(server.url, server.pid, expected, ON_A_REAL_SERVER))
