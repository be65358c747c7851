"""What several unit tests start from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spectrace.loop import Tracer


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    """The tracer of this very process."""
    tracer = Tracer("a loop", algorithm="EAGLE3")
    assert tracer.problem == ""
    yield tracer
    tracer.close()
