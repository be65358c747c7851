"""What all tests have in common, and the real SGLang servers that they trace, one at a time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from examples.sglang_cpu.load import Answer, generate
from examples.sglang_cpu.server import CpuServer, ServerOptions
from spectrace.probe.engines import sglang_releases, sglang_rows
from tests.helpers import command
from tests.newest_gdb import with_newest

if TYPE_CHECKING:
    from collections.abc import Iterator

sglang_rows.DIGEST.update(sglang_releases.digest())  # as a probe is given it

os.environ["PATH"] = with_newest(os.environ["PATH"])

# How long an example takes, or making it up, says how busy the machine is. The same examples each
# time, so that a change is not refused for what another one did; `make soak` tries new ones.
hypothesis.settings.register_profile(
    "untimed",
    hypothesis.settings(),
    deadline=None,
    derandomize="SPECTRACE_NEW_EXAMPLES" not in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("untimed")

REQUESTS = 24
TOKENS = 24
UNIT_TESTS = Path(__file__).with_name("unit")


@dataclass(frozen=True)
class Served:
    """A running server and what it answers without the tracer.

    Attributes:
        server: The server.
        baseline: Its answers to `REQUESTS` requests, four at a time, never traced.
    """

    server: CpuServer
    baseline: list[Answer]

    @property
    def ranks(self) -> int:
        """Scheduler processes that it has."""
        return self.server.options.tp


CONFIGURATIONS = {
    "plain": ServerOptions(),
    "overlap": ServerOptions(scheduler="overlap"),
    "tp2": ServerOptions(tp=2),
}


@pytest.fixture(scope="session", params=CONFIGURATIONS)
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """A real EAGLE-3 server of each configuration; tests are grouped so that one runs at a time.

    Who needs a certain one says so: `@pytest.mark.parametrize("served", ["tp2"], indirect=True)`.
    They find it without a tracer, and leave it so.
    """
    with CpuServer(CONFIGURATIONS[request.param]) as server:
        baseline = generate(
            server.url, requests=REQUESTS, concurrency=4, max_new_tokens=TOKENS, tag="baseline"
        )
        yield Served(server, baseline)


@pytest.fixture(autouse=True)
def commands_end() -> Iterator[None]:
    """No command that a test started outlives it."""
    yield
    command.end_all()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of these servers come last: one that idles takes a core from all that follow.

    Unit tests may run beside others.
    """
    for item in items:
        if item.path.parent == UNIT_TESTS:
            item.add_marker(pytest.mark.beside_others)
    items.sort(key=lambda item: "served" in getattr(item, "fixturenames", ()))
