"""What the loader runs first makes the probe's modules, some of them only when first used."""

from __future__ import annotations

import marshal
import mmap
import sys
from typing import TYPE_CHECKING

import pytest

from spectrace.probe import bootstrap

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def package() -> Iterator[None]:
    """The probe's package, for a test."""
    bootstrap.make_module("", None)
    yield
    bootstrap.forget()


def late(source: str) -> tuple[mmap.mmap, int, int]:
    """Where the code of a module that is needed late lies."""
    code = marshal.dumps(compile(source, "<late>", "exec"))
    ring = mmap.mmap(-1, len(code) + 2)
    ring[1:-1] = code
    return ring, 1, len(code) + 1


def test_a_late_module_runs_when_something_of_it_is_first_used() -> None:
    """Not before, and once."""
    module = bootstrap.make_module("late", late("import sys\nsys.spectrace_runs.append(1)\nx = 3"))
    runs: list[int] = []
    sys.spectrace_runs = runs  # type: ignore[attr-defined]  # where the module can reach it
    assert runs == []
    assert (module.x, module.x, runs) == (3, 3, [1])
    with pytest.raises(AttributeError, match="late has no y"):
        _ = module.y


def test_a_late_module_that_a_signal_interrupted_runs_again() -> None:
    """Half of it is not taken for the whole."""
    source = (
        "a = 1\nimport sys\nif sys.spectrace_interrupt.pop():\n    raise KeyboardInterrupt\nb = 2"
    )
    module = bootstrap.make_module("late", late(source))
    sys.spectrace_interrupt = [False, True]  # type: ignore[attr-defined]  # as above
    with pytest.raises(KeyboardInterrupt):
        _ = module.b
    assert (module.a, module.b) == (1, 2)
