"""One session with a loop after another: nothing of the first comes into the second."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import permutations

import pytest

from spectrace.attach.handle import Options
from spectrace.loop import Tracer
from spectrace.model import Cycle, TimingMode
from spectrace.probe.layout import Mode
from tests.helpers import scripted_torch
from tests.helpers.own_loop import all_of, attached, turn
from tests.helpers.scripted_torch import ScriptedTorch

MODES = {
    Mode.OFF: TimingMode.OFF,
    Mode.HOST: TimingMode.HOST,
    Mode.DEVICE: TimingMode.DEVICE,
    Mode.SYNC: TimingMode.SYNC,
}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> ScriptedTorch:
    """The torch of this process, with one device."""
    torch = ScriptedTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


@pytest.fixture
def on_device(device: ScriptedTorch) -> Iterator[Tracer]:
    """The tracer of a loop on that device."""
    tracer = Tracer("a loop", device=f"{scripted_torch.NAME}:0")
    assert tracer.problem == ""
    yield tracer
    tracer.close()
    assert not device.broken


def session_of(tracer: Tracer, options: Options, turns: int) -> list[Cycle]:
    """So many cycles under a session, and one more in which the loop notices its end."""
    with attached(options) as session:
        for _ in range(turns):
            turn(tracer, "draft", "verify")
        cycles = all_of(session)
    turn(tracer, "draft")
    assert not tracer.traced
    return cycles


@pytest.mark.parametrize(("first", "second"), list(permutations(MODES, 2)))
def test_every_cycle_has_the_mode_of_its_own_session(
    on_device: Tracer, device: ScriptedTorch, first: int, second: int
) -> None:
    """The first one too, and the device is waited for in sessions that ask for it alone."""
    for mode in (first, second):
        synchronized = device.synchronizes
        cycles = session_of(on_device, Options(mode=mode), turns=2)
        taken = {(cycle.ranks[0].mode, cycle.ranks[0].asked_mode) for cycle in cycles}
        assert len(cycles) == 2
        assert taken == {(MODES[mode], None)}  # None: as it was asked for
        assert (device.synchronizes > synchronized) is (mode == Mode.SYNC)


def test_a_loop_that_sleeps_within_a_cycle_waits_for_nothing(
    on_device: Tracer, device: ScriptedTorch
) -> None:
    """The reader leaves while a cycle runs and the loop looks: its phases then cost nothing."""
    with attached(Options(mode=Mode.SYNC)):
        turn(on_device, "draft")
        outer = on_device.cycle("decode", ["a"]).__enter__()
    turn(on_device)
    assert not on_device.traced
    synchronized = device.synchronizes
    with on_device.phase("verify"):
        pass
    outer.__exit__(None, None, None)
    assert device.synchronizes == synchronized


def test_sampling_ends_with_its_session(on_device: Tracer) -> None:
    """After a session that kept every fourth cycle the next one keeps all from its first."""
    sampled = session_of(on_device, Options(mode=Mode.HOST, every=4), turns=9)
    assert [cycle.number for cycle in sampled] == [4, 8]
    whole = session_of(on_device, Options(mode=Mode.HOST), turns=3)
    assert [cycle.number for cycle in whole] == [11, 12, 13]
