"""Hooks wrap exactly the functions asked for and give back the very objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spectrace.probe.hooks import Patches, boundary, holder_of
from spectrace.probe.layout import Kind, Ph
from spectrace.probe.recorder import Recorder
from tests.helpers.probe_ring import make_ring

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Base:
    """A worker whose methods are inherited."""

    def verify(self, value: int) -> int:
        """Doubles."""
        return value * 2

    @staticmethod
    def helper() -> int:
        """Is no plain function of the class."""
        return 1


class Derived(Base):
    """Has nothing of its own."""


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    """A recorder with a cycle under way."""
    ring = make_ring(tmp_path / "test.ring")
    recorder = Recorder(ring)
    recorder.begin(0, Kind.DECODE, 1)
    yield recorder
    ring.close()


def passing(original: Any) -> Any:
    """A wrapper that changes nothing."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    return wrapper


def test_the_class_that_has_the_function_is_found_through_the_mro() -> None:
    """An inherited method is wrapped where it stands, not in the subclass."""
    assert holder_of(Derived, "verify") is Base
    assert holder_of(Derived, "nothing") is None


def test_restoring_gives_back_the_very_object_and_adds_nothing() -> None:
    """After restoring, the class's dictionary is what it was."""
    before = dict(vars(Base))
    patches = Patches()
    assert patches.put(Base, "verify", passing)
    assert vars(Base)["verify"] is not before["verify"]
    assert Derived().verify(4) == 8
    assert patches.restore() == []
    assert dict(vars(Base)) == before
    assert vars(Base)["verify"] is before["verify"]


def test_what_others_read_off_a_function_stays_readable() -> None:
    """Name, documentation and attributes of the original are there on the wrapper."""

    def function() -> None:
        """Does nothing."""

    function.flag = 7  # type: ignore[attr-defined] # as decorators do
    holder = type("Holder", (), {"function": function})
    patches = Patches()
    patches.put(holder, "function", passing)
    wrapped = vars(holder)["function"]
    assert wrapped is not function
    assert (wrapped.__name__, wrapped.__doc__, wrapped.flag) == ("function", "Does nothing.", 7)
    patches.restore()


def test_a_function_wrapped_after_us_stays_wrapped_and_is_named() -> None:
    """Somebody else's wrapper stays theirs, and we say which one it is."""
    original = vars(Base)["verify"]
    patches = Patches()
    patches.put(Base, "verify", passing)
    theirs = passing(vars(Base)["verify"])
    Base.verify = theirs  # type: ignore[method-assign] # somebody else's doing
    try:
        assert patches.restore() == ["Base.verify"]
        assert vars(Base)["verify"] is theirs
        assert Derived().verify(4) == 8
    finally:
        Base.verify = original  # type: ignore[method-assign] # as it was


def test_what_is_no_plain_function_is_left_alone() -> None:
    """A staticmethod or a missing name is refused, with nothing changed."""
    before = dict(vars(Base))
    patches = Patches()
    assert not patches.put(Base, "helper", passing)
    assert not patches.put(Base, "nothing", passing)
    assert dict(vars(Base)) == before


def test_a_boundary_marks_at_the_call_and_at_the_return(recorder: Recorder) -> None:
    """Entering begins one phase, returning the next, and the result passes through."""
    wrapped = boundary(recorder, Ph.DRAFT, Ph.SCHEDULE)(Base.verify)
    assert wrapped(Base(), 5) == 10
    assert list(recorder._phases[1:3]) == [Ph.DRAFT, Ph.SCHEDULE]


def test_the_servers_own_exception_passes_unchanged(recorder: Recorder) -> None:
    """What the wrapped function raises reaches its caller as the same object."""
    error = ValueError("the server's own")

    def failing() -> None:
        raise error

    with pytest.raises(ValueError, match="the server's own") as caught:
        boundary(recorder, Ph.DRAFT, Ph.SCHEDULE)(failing)()
    assert caught.value is error


def test_without_a_cycle_nothing_is_marked(recorder: Recorder) -> None:
    """Between cycles a hook only calls the original."""
    recorder.end(10)
    count = recorder._count
    assert boundary(recorder, Ph.DRAFT, Ph.SCHEDULE)(Base.verify)(Base(), 5) == 10
    assert recorder._count == count
