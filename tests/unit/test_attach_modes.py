"""The timing mode of a traced server is switched on all ranks of a group at one cycle."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spectrace.attach import discover, modes, readers, ring_file
from spectrace.attach.modes import Switch
from spectrace.cli.main import app
from spectrace.cli.mode import describe, the_only
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Rank, TimingMode
from spectrace.probe.layout import Mode, State, Word, mode_word, split_mode
from spectrace.probe.ring import RingWriter
from tests.helpers.anything import any_run
from tests.helpers.probe_ring import make_ring

NAMES = ("DP0 TP0", "DP0 TP1", "DP1 TP0")
PIDS = {name: pid for pid, name in enumerate(NAMES, 101)}
RUN = any_run(ranks=tuple(Rank(name=name, pid=pid) for name, pid in PIDS.items()))


@pytest.fixture
def rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, RingWriter]]:
    """The rings of three ranks of two groups; the ranks stand at different cycles."""
    monkeypatch.setattr(ring_file, "ring_path", lambda pid: tmp_path / str(pid))
    made = {name: make_ring(tmp_path / str(pid)) for name, pid in PIDS.items()}
    for ring, newest in zip(made.values(), (1000, 1003, 70), strict=True):
        ring.words[Word.STATE] = State.TRACING
        ring.words[Word.NEWEST_CYCLE] = newest
    yield made
    for ring in made.values():
        ring.close()


def asked(ring: RingWriter) -> tuple[int, int]:
    """Mode and cycle in the control word."""
    return split_mode(ring.words[Word.MODE])


def test_all_ranks_of_a_group_are_given_the_same_cycle(rings: dict[str, RingWriter]) -> None:
    """It lies 50 cycles beyond the rank that is furthest; other groups have their own."""
    switches = modes.switch(RUN, TimingMode.SYNC, lambda _: None)
    assert [asked(rings[name]) for name in NAMES] == [
        (Mode.SYNC, 1053),
        (Mode.SYNC, 1053),
        (Mode.SYNC, 120),
    ]
    assert [switch.ranks for switch in switches] == [NAMES[:2], NAMES[2:]]


def test_the_mode_that_was_asked_for_last_is_known(rings: dict[str, RingWriter]) -> None:
    """So that who switches a server that others read can give it back as it was."""
    modes.switch(RUN, TimingMode.SYNC, lambda _: None)
    assert modes.asked_of(RUN) is TimingMode.SYNC
    rings[NAMES[0]].words[Word.MODE] = 99
    assert modes.asked_of(RUN) is None


@pytest.mark.parametrize(
    ("names", "together"),
    [
        (["TP0", "TP1"], 1),
        (["PP0 TP0", "PP1 TP0"], 1),
        (["DP0", "DP1"], 2),
        (["DP0 TP0", "DP0 TP1", "DP1 TP0", "DP1 TP1"], 2),
        (["DP0 TP0", "DP0 TP1", "DP1 TP2", "DP1 TP3"], 1),
        (["TP0", "ENGINE2 TP0"], 2),
        (["DP0 TP0", "DP1 TP1", "ENGINE2 DP0", "ENGINE2 DP1"], 3),
    ],
)
def test_replicas_step_together_with_dp_attention_alone(names: list[str], together: int) -> None:
    """Then their TP ranks are numbered through; two engines never step together."""
    assert len(set(modes.in_step(names).values())) == together


def test_a_fast_server_is_given_a_second(rings: dict[str, RingWriter]) -> None:
    """At 400 cycles a second the switch lies 400 cycles ahead."""

    def sleep(seconds: float) -> None:
        for ring in rings.values():
            ring.words[Word.CYCLES] += round(400 * seconds)

    first, _ = modes.switch(RUN, TimingMode.OFF, sleep)
    assert (first.from_cycle, first.cycles_per_s) == (1403, 400)


def test_a_server_that_was_idle_since_it_is_traced_switches_at_once(
    rings: dict[str, RingWriter],
) -> None:
    """Its number is not known yet; its ranks begin their next cycle together."""
    for ring in rings.values():
        ring.words[Word.NEWEST_CYCLE] = 0
    modes.switch(RUN, TimingMode.HOST, lambda _: None)
    assert {asked(ring) for ring in rings.values()} == {(Mode.HOST, 0)}


def test_where_one_rank_is_not_traced_none_is_asked(rings: dict[str, RingWriter]) -> None:
    """The error names the rank and what to do."""
    rings["DP1 TP0"].words[Word.STATE] = State.DETACHED
    with pytest.raises(SpectraceError, match=r"DP1 TP0 \(process 103\).*spectrace attach 103"):
        modes.switch(RUN, TimingMode.SYNC, lambda _: None)
    assert asked(rings["DP0 TP0"]) == (Mode.HOST, 0)


def test_a_rank_without_a_ring_is_not_traced(rings: dict[str, RingWriter], tmp_path: Path) -> None:
    """The same where nothing was ever put in."""
    assert rings
    (tmp_path / "102").unlink()
    with pytest.raises(SpectraceError, match="is not traced"):
        modes.switch(RUN, TimingMode.SYNC, lambda _: None)


def test_the_command_says_from_which_cycle_on(
    rings: dict[str, RingWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line a group."""
    assert rings
    monkeypatch.setattr(discover, "find_by_pid", lambda _: RUN)
    result = CliRunner().invoke(app, ["mode", "host", "100"])
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "DP0 TP0, DP0 TP1: host from cycle 1053 on (50 cycles ahead, the server is idle).",
        "DP1 TP0: host from cycle 120 on (50 cycles ahead, the server is idle).",
    ]


def test_a_busy_server_is_told_how_long_it_takes() -> None:
    """50 cycles at 100 a second are half a second."""
    switch = Switch(ranks=("TP0",), from_cycle=150, newest_cycle=100, cycles_per_s=100)
    assert "in about 500.0 ms" in describe(switch, TimingMode.OFF)


def test_without_a_process_id_there_must_be_one_server() -> None:
    """None and several are refused, several with their numbers."""
    assert the_only([RUN]) is RUN
    with pytest.raises(SpectraceError, match="No SGLang server"):
        the_only([])
    with pytest.raises(SpectraceError, match="70, 70"):
        the_only([RUN, RUN])


def test_where_several_read_the_mode_is_not_switched_over_their_heads(
    rings: dict[str, RingWriter], tmp_path: Path
) -> None:
    """One reader is switched from beside it; with two it takes a flag of its own."""
    view = RingView(tmp_path / str(PIDS[NAMES[0]]))
    readers.sit_down(view)
    modes.switch(RUN, TimingMode.SYNC, lambda _: None)
    readers.sit_down(view)
    view.close()
    with pytest.raises(
        SpectraceError, match=f"by process {os.getpid()}, and another one reads.*--take-control"
    ):
        modes.switch(RUN, TimingMode.OFF, lambda _: None)
    assert asked(rings[NAMES[0]])[0] == Mode.SYNC
    modes.switch(RUN, TimingMode.OFF, lambda _: None, take_control=True)
    assert asked(rings[NAMES[0]])[0] == Mode.OFF


def taken_over(folder: Path, mode: int) -> Callable[[float], None]:
    """What somebody does who takes control just while the speed is measured."""

    def sleep(_: float) -> None:
        view = RingView(folder / str(PIDS[NAMES[0]]))
        readers.take_control(view, readers.sit_down(view))
        view.set_word(Word.MODE, mode_word(mode, 0))
        view.close()

    return sleep


def test_who_takes_control_meanwhile_is_left_alone(
    rings: dict[str, RingWriter], tmp_path: Path
) -> None:
    """It is named, and no rank is asked, not even with --take-control, which came before it."""
    first = RingView(tmp_path / str(PIDS[NAMES[0]]))
    readers.sit_down(first)
    with pytest.raises(SpectraceError, match=f"process {os.getpid()} controls.*left alone"):
        modes.switch(RUN, TimingMode.SYNC, taken_over(tmp_path, Mode.OFF), take_control=True)
    first.close()
    assert [asked(rings[name])[0] for name in NAMES] == [Mode.OFF, Mode.HOST, Mode.HOST]


def test_who_switches_meanwhile_has_the_say(rings: dict[str, RingWriter]) -> None:
    """The mode that was asked for in that moment stays, on all ranks."""

    def sleep(_: float) -> None:
        rings[NAMES[1]].words[Word.MODE] = mode_word(Mode.DEVICE, 2000)

    with pytest.raises(SpectraceError, match=r"rank DP0 TP1 of server 70 to device: sync was not"):
        modes.switch(RUN, TimingMode.SYNC, sleep)
    assert [asked(rings[name])[0] for name in NAMES] == [Mode.HOST, Mode.DEVICE, Mode.HOST]


def test_a_reader_that_has_lost_control_switches_nothing(rings: dict[str, RingWriter]) -> None:
    """Also where it lost it before the first look."""
    with pytest.raises(SpectraceError, match="nobody controls how"):
        modes.switch(RUN, TimingMode.SYNC, lambda _: None, controls=lambda: False)
    assert {asked(ring)[0] for ring in rings.values()} == {Mode.HOST}


def test_nobody_takes_control_between_the_last_look_and_the_word(
    rings: dict[str, RingWriter], tmp_path: Path
) -> None:
    """The seats of all ranks are locked at that look, and free again behind the switch."""
    assert rings
    held: list[bool] = []

    def look() -> bool:
        held.extend(is_locked(tmp_path / str(pid)) for pid in PIDS.values())
        return True

    modes.switch(RUN, TimingMode.SYNC, lambda _: None, controls=look)
    assert held == [True] * 3
    assert not any(is_locked(tmp_path / str(pid)) for pid in PIDS.values())


def is_locked(path: Path) -> bool:
    """Whether somebody keeps others away from the seats of a ring."""
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
