"""What an author of a loop may get wrong: it is told at the call, or does no harm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import groupby
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spectrace.loop import Tracer
from spectrace.model import Cycle, RequestRow
from tests.helpers.own_loop import all_of, attached, phases, turn


class OnDevice:
    """A value on a device: reading it would make the loop wait."""

    def _read(self, *_: object) -> Any:
        raise AssertionError("read on the host")

    __int__ = __index__ = __bool__ = __float__ = __eq__ = __lt__ = __gt__ = _read
    __add__ = __radd__ = __array__ = __repr__ = __str__ = tolist = item = cpu = _read
    __hash__ = object.__hash__

    def __len__(self) -> int:
        """As a tensor: its shape is on the host."""
        return 1

    def __iter__(self) -> Iterator[OnDevice]:
        """As a tensor, which gives tensors."""
        yield OnDevice()


def accepted(tracer: Any, *args: Any, **kwargs: Any) -> None:
    """Hands in what a cycle of request `a` brought."""
    with tracer.cycle("speculative", ["a"], steps=1, topk=1, draft_tokens=2) as cycle:
        cycle.accepted(*args, **kwargs)


ID_OF_INT = "must be a str, not int: give str"
MISTAKES: dict[str, tuple[Callable[[Any], object], type[Exception], str]] = {
    "unknown kind": (lambda t: t.cycle("guess", ["a"]), ValueError, "'guess'.*speculative"),
    "kind on a device": (lambda t: t.cycle(OnDevice(), ["a"]), TypeError, "kind.*OnDevice"),
    "int ids": (lambda t: t.cycle("decode", [1]), TypeError, ID_OF_INT),
    "ids from a generator": (
        lambda t: t.cycle("decode", (name for name in "ab")),
        TypeError,
        "requests must be a list.*not generator",
    ),
    "a str as ids": (lambda t: t.cycle("decode", "abc"), TypeError, "requests must be.*not str"),
    "ids on a device": (lambda t: t.cycle("decode", OnDevice()), TypeError, "requests.*OnDevice"),
    "no steps": (lambda t: t.cycle("decode", ["a"], steps=None), TypeError, "steps.*NoneType"),
    "negative steps": (lambda t: t.cycle("decode", ["a"], steps=-1), ValueError, "steps.*not -1"),
    "half a branch": (lambda t: t.cycle("decode", ["a"], topk=0.5), TypeError, "topk.*float"),
    "draft tokens on a device": (
        lambda t: t.cycle("decode", ["a"], draft_tokens=OnDevice()),
        TypeError,
        "draft_tokens.*OnDevice",
    ),
    "number 0": (lambda t: t.cycle("decode", ["a"], number=0), ValueError, "number.*not 0"),
    "number as text": (lambda t: t.cycle("decode", ["a"], number="7"), TypeError, "number.*str"),
    "unknown phase": (lambda t: t.phase("drafft"), ValueError, "'drafft'.*draft.step"),
    "phase on a device": (lambda t: t.phase(OnDevice()), TypeError, "phase.*OnDevice"),
    "phase in a list": (lambda t: t.phase(["draft"]), TypeError, "phase.*list"),
    "of no cycle": (lambda t: t.phase("wait", of_cycle="last"), TypeError, "of_cycle.*str"),
    "counts as a list": (lambda t: accepted(t, [2]), TypeError, "correct_drafts must map.*list"),
    "counts from a generator": (
        lambda t: accepted(t, (count for count in [2])),
        TypeError,
        "correct_drafts must map.*generator",
    ),
    "counts by int ids": (lambda t: accepted(t, {1: 2}), TypeError, ID_OF_INT),
    "negative count": (lambda t: accepted(t, {"a": -1}), ValueError, "correct_drafts.*not -1"),
    "count on a device": (lambda t: accepted(t, {"a": OnDevice()}), TypeError, "OnDevice"),
    "counts on a device": (lambda t: accepted(t, OnDevice()), TypeError, "OnDevice"),
    "tokens on a device": (
        lambda t: accepted(t, {"a": 1}, output_tokens={"a": OnDevice()}),
        TypeError,
        "output_tokens.*OnDevice",
    ),
    "no tokens": (
        lambda t: accepted(t, {"a": 1}, output_tokens={"a": None}),
        TypeError,
        "output_tokens.*NoneType",
    ),
    "tokens of somebody else": (
        lambda t: accepted(t, {"a": 1}, output_tokens={"b": 2}),
        ValueError,
        "output_tokens lacks request 'a'",
    ),
    "ended from a generator": (
        lambda t: accepted(t, {"a": 1}, ended=(name for name in "a")),
        TypeError,
        "ended must be.*generator",
    ),
    "ended as a str": (lambda t: accepted(t, {"a": 1}, ended="a"), TypeError, "ended.*not str"),
}


@pytest.mark.parametrize("awake", [False, True])
@pytest.mark.parametrize(("call", "error", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_raised_at_the_call_whether_anybody_reads_or_not(
    tracer: Tracer, call: Callable[[Any], object], error: type[Exception], words: str, awake: bool
) -> None:
    """In words, without reading a device; the tracer goes on with the next cycle."""
    with attached() if awake else nullcontext() as session:
        turn(tracer, "draft")
        assert tracer.traced is awake
        with pytest.raises(error, match=words):
            call(tracer)
        turn(tracer, "draft")
        assert tracer.problem == ""
        if session is not None:
            assert all_of(session)[-1].requests == all_of_turn()


def all_of_turn() -> tuple[RequestRow, ...]:
    """What `turn` hands in."""
    return (RequestRow(request_id="a", correct_drafts=2, output_tokens=3),)


def test_a_number_must_grow(tracer: Tracer) -> None:
    """A loop that counts from the start again is told so, with the least number there may be."""
    with tracer.cycle("decode", ["a"], number=7):
        pass
    with pytest.raises(ValueError, match=r"number must be from 8 .* not 7"):
        tracer.cycle("decode", ["a"], number=7)


WRONG_TRACERS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"name": 7}, TypeError, "name must be a str, not int"),
    ({"name": "x" * 101}, ValueError, "name must have 100 characters at most, not 101"),
    ({"rank": 0}, TypeError, "rank must be a str, not int"),
    ({"algorithm": None}, TypeError, "algorithm must be a str, not NoneType"),
    ({"device": 0}, TypeError, "device must be a str such as 'cuda', or a torch.device, not int"),
    ({"device": OnDevice()}, TypeError, "not OnDevice"),
    ({"ring_bytes": "2 MB"}, TypeError, "ring_bytes must be an int, not str"),
    ({"ring_bytes": 2047}, ValueError, "ring_bytes must be from 2048 to 1073741824, not 2047"),
    ({"ring_bytes": -1}, ValueError, "from 2048"),
    ({"ring_bytes": 1 << 60}, ValueError, "from 2048 to 1073741824"),
]


@pytest.mark.parametrize(("arguments", "error", "words"), WRONG_TRACERS)
def test_a_tracer_that_cannot_be_is_refused(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    """At its construction, in words; it takes no file."""
    with pytest.raises(error, match=words):
        Tracer(**{"name": "a loop", **arguments})
    tracer = Tracer("a loop")
    assert tracer.problem == ""
    tracer.close()


class TorchDevice(SimpleNamespace):
    """As `torch.device`: a type and an index, and the name as its text."""

    def __str__(self) -> str:
        """As torch names it."""
        return f"{self.type}:{self.index}"


def test_a_device_may_be_given_as_torch_has_it() -> None:
    """A `torch.device` is as good as its name."""
    tracer = Tracer("a loop", device=TorchDevice(type="cuda", index=1))
    with attached() as session:
        turn(tracer, "draft")
        assert len(all_of(session)) == 1
    assert tracer.problem == ""
    tracer.close()


def test_the_smallest_ring_holds_a_cycle() -> None:
    """With the least size that is accepted a cycle and its counts arrive."""
    tracer = Tracer("a loop", ring_bytes=2048)
    with attached() as session:
        turn(tracer, "draft")
        (cycle,) = all_of(session)
    assert cycle.requests == all_of_turn()
    tracer.close()


def test_counts_of_numpy_are_ints(tracer: Tracer) -> None:
    """They are on the CPU already, as are the sizes of a cycle."""
    sizes = np.array([3, 1, 4])
    with attached() as session:
        with tracer.cycle(
            "speculative", ["a"], steps=sizes[0], topk=sizes[1], draft_tokens=sizes[2]
        ) as cycle:
            cycle.accepted({"a": np.int64(2)}, output_tokens={"a": np.int32(3)})
        (seen,) = all_of(session)
    assert (seen.steps, seen.topk, seen.draft_tokens) == (3, 1, 4)
    assert seen.requests == all_of_turn()


def order(cycle: Cycle) -> list[str]:
    """The phases of a cycle; one that follows itself counts once."""
    return [name for name, _ in groupby(phases(cycle))]


def test_a_phase_within_itself_ends_with_the_outer_one(tracer: Tracer) -> None:
    """As in a recursive draft: what follows is not taken for the phase."""
    with attached() as session:
        with tracer.cycle("decode", ["a"]):
            with tracer.phase("draft"), tracer.phase("draft"):
                turn_away()
            turn_away()
        (cycle,) = all_of(session)
    assert order(cycle) == ["resolve", "draft", "schedule"]


def turn_away() -> None:
    """Takes some microseconds, so that the phase that runs has a length."""
    sum(range(1000))


def test_a_phase_that_is_never_left_ends_with_its_cycle(tracer: Tracer) -> None:
    """The next cycle knows nothing of it."""
    with attached() as session:
        with tracer.cycle("decode", ["a"]):
            tracer.phase("draft").__enter__()
        turn(tracer, "verify")
        last = all_of(session)[-1]
    assert order(last) == ["resolve", "verify", "schedule"]


def drafting(tracer: Tracer) -> Iterator[None]:
    """Drafts a part, and the rest when it is asked again."""
    with tracer.phase("draft"):
        turn_away()
        yield
        turn_away()


def test_a_generator_that_was_given_up_disturbs_no_later_phase(tracer: Tracer) -> None:
    """When it is closed, a cycle later, the phase that runs goes on, as it does after another."""
    with attached() as session:
        half = drafting(tracer)
        with tracer.cycle("decode", ["a"]):
            next(half)
        with tracer.cycle("decode", ["a"]), tracer.phase("verify"):
            turn_away()
            half.close()  # type: ignore[attr-defined]  # it is a generator
            turn_away()
        assert order(all_of(session)[-1]) == ["resolve", "verify", "schedule"]


def test_a_generator_that_ends_within_another_phase_leaves_that_one_running(
    tracer: Tracer,
) -> None:
    """The phase that runs at that time goes on; behind it nothing is left of the generator's."""
    with attached() as session:
        with tracer.cycle("decode", ["a"]):
            half = drafting(tracer)
            next(half)
            with tracer.phase("verify"):
                next(half, None)
                turn_away()
            turn_away()
        (cycle,) = all_of(session)
    assert order(cycle) == ["resolve", "draft", "verify", "schedule"]


def in_a_thread(work: Callable[[], object]) -> None:
    """Runs it in another thread, to its end."""
    thread = Thread(target=work)
    thread.start()
    thread.join()


def test_what_a_second_thread_does_within_a_cycle_is_passed_over(tracer: Tracer) -> None:
    """The first thread's cycle stays its own, and the reader is told."""
    with attached() as session:
        with tracer.cycle("speculative", ["a"], steps=3, topk=1, draft_tokens=4) as first:
            with tracer.phase("draft"):
                turn_away()
                in_a_thread(lambda: turn(tracer, "verify"))
                in_a_thread(lambda: first.accepted({"a": 0}))
            first.accepted({"a": 2})
        told = " ".join(session.facts().unhooked)
        (cycle,) = all_of(session)
    assert order(cycle) == ["resolve", "draft", "schedule"]
    assert cycle.requests == all_of_turn()
    for what in ("cycles", "phases", "counts"):
        assert f"{what} that a second thread" in told


def test_threads_may_take_turns(tracer: Tracer) -> None:
    """A loop whose steps run in one thread after the other loses nothing."""
    with attached() as session:
        for _ in range(3):
            in_a_thread(lambda: turn(tracer, "draft"))
        assert session.facts().unhooked == ()
        assert [cycle.requests for cycle in all_of(session)] == [all_of_turn()] * 3
