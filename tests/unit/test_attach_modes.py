"""The timing mode of a traced server is switched on all ranks of a group at one cycle."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spectrace.attach import discover, modes, readers, ring_file
from spectrace.attach.modes import Switch, Wish
from spectrace.cli.main import app
from spectrace.cli.mode import describe, the_only
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Rank, TimingMode
from spectrace.probe.layout import (
    MAX_EVERY,
    Mode,
    State,
    Word,
    mode_word,
    sampling_word,
    split_mode,
    split_sampling,
)
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


def sampling(ring: RingWriter) -> tuple[int, int, int]:
    """Every how many cycles, from which on, and every how many until then."""
    return split_sampling(ring.words[Word.SAMPLING])


def ran(rings: dict[str, RingWriter], cycles: int) -> Callable[[float], None]:
    """A wait in which every rank runs so many cycles."""

    def sleep(_: float) -> None:
        for ring in rings.values():
            ring.words[Word.CYCLES] += cycles
            ring.words[Word.NEWEST_CYCLE] += cycles

    return sleep


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


@pytest.mark.parametrize("every", [1, 2, MAX_EVERY])
def test_a_word_of_sampling_says_all_that_it_was_made_of(every: int) -> None:
    """With cycles of two years at a thousand a second."""
    from_cycle = 2 * 365 * 86_400 * 1000
    assert split_sampling(sampling_word(every, from_cycle, MAX_EVERY)) == (
        every,
        from_cycle,
        MAX_EVERY,
    )
    assert sampling_word(every, from_cycle, MAX_EVERY) < 2**64


def test_all_ranks_of_a_group_are_told_the_same_cycle_of_another_sampling(
    rings: dict[str, RingWriter],
) -> None:
    """It lies as far ahead as that of a mode, which stays; the word says what holds until then."""
    for ring in rings.values():
        ring.words[Word.SAMPLING] = sampling_word(20)
    modes.switch(RUN, Wish(every=5), lambda _: None)
    assert [sampling(rings[name]) for name in NAMES] == [
        (5, 1053, 20),
        (5, 1053, 20),
        (5, 120, 20),
    ]
    assert {asked(ring) for ring in rings.values()} == {(Mode.HOST, 0)}


def test_mode_and_sampling_can_be_asked_for_together(rings: dict[str, RingWriter]) -> None:
    """Both from the same cycle on."""
    modes.switch(RUN, Wish(TimingMode.SYNC, 5), lambda _: None)
    assert asked(rings[NAMES[0]]) == (Mode.SYNC, 1053)
    assert sampling(rings[NAMES[0]]) == (5, 1053, 0)


def test_a_switch_that_is_near_comes_before_the_next_one(rings: dict[str, RingWriter]) -> None:
    """At 40 cycles a look the one at 1053 is waited for; what it brought holds until the next."""
    for name in NAMES[:2]:
        rings[name].words[Word.SAMPLING] = sampling_word(5, 1053, 20)
    modes.switch(RUN, Wish(every=7), ran(rings, 40))
    # 1003 + 2 * 40 are past it; 160 cycles a second lie ahead of 1083.
    assert sampling(rings[NAMES[0]]) == (7, 1243, 5)


def test_a_switch_that_is_far_ahead_is_replaced(rings: dict[str, RingWriter]) -> None:
    """All ranks read the new word before they would come to the old one."""
    for name in NAMES[:2]:
        rings[name].words[Word.SAMPLING] = sampling_word(5, 1153, 20)
    modes.switch(RUN, Wish(every=7), ran(rings, 2))
    assert sampling(rings[NAMES[0]]) == (7, 1055, 20)


def test_an_idle_server_waits_for_no_switch(rings: dict[str, RingWriter]) -> None:
    """Nothing runs that could come to it meanwhile: it is replaced, however near it is."""
    for name in NAMES[:2]:
        rings[name].words[Word.SAMPLING] = sampling_word(5, 1005, 20)
    modes.switch(RUN, Wish(every=7), lambda _: None)
    assert sampling(rings[NAMES[0]]) == (7, 1053, 20)


def test_a_long_cycle_may_be_the_one_that_switches(rings: dict[str, RingWriter]) -> None:
    """The one behind the newest may run since before: what it came with holds until the next."""
    for name in NAMES[:2]:
        rings[name].words[Word.NEWEST_CYCLE] = 1003
        rings[name].words[Word.SAMPLING] = sampling_word(5, 1004, 20)
    modes.switch(RUN, Wish(every=7), lambda _: None)
    assert sampling(rings[NAMES[0]]) == (7, 1053, 5)


def test_a_mode_waits_for_no_switch_of_sampling(rings: dict[str, RingWriter]) -> None:
    """It has a word of its own."""
    for name in NAMES[:2]:
        rings[name].words[Word.SAMPLING] = sampling_word(5, 1053, 20)
    modes.switch(RUN, TimingMode.SYNC, ran(rings, 20))
    assert asked(rings[NAMES[0]]) == (Mode.SYNC, 1103)
    assert sampling(rings[NAMES[0]]) == (5, 1053, 20)


def test_a_switch_that_does_not_come_is_not_waited_for_without_end(
    rings: dict[str, RingWriter],
) -> None:
    """Where one rank alone runs on, the other stands before it: it is said, and nothing asked."""
    word = sampling_word(5, 1053, 20)
    for name in NAMES[:2]:
        rings[name].words[Word.SAMPLING] = word
    with pytest.raises(SpectraceError, match="has not come to that cycle yet: one cycle in 7"):
        modes.switch(RUN, Wish(every=7), ran({"": rings[NAMES[1]]}, 40))
    assert rings[NAMES[0]].words[Word.SAMPLING] == word


def test_who_asks_for_another_sampling_meanwhile_has_the_say(
    rings: dict[str, RingWriter],
) -> None:
    """Over sampling; who asks for a mode in that moment is not in the way of it, nor it of them."""

    def sleep(_: float) -> None:
        rings[NAMES[0]].words[Word.SAMPLING] = sampling_word(3, 2000)

    with pytest.raises(
        SpectraceError,
        match=r"switched rank DP0 TP0 .* one cycle in 3 in full: every cycle in full",
    ):
        modes.switch(RUN, Wish(every=1), sleep)
    modes.switch(RUN, TimingMode.SYNC, sleep)
    assert asked(rings[NAMES[0]]) == (Mode.SYNC, 1053)


def test_the_command_says_from_which_cycle_on_which_are_recorded(
    rings: dict[str, RingWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line a group; what cannot be is refused with what can."""
    monkeypatch.setattr(discover, "find_by_pid", lambda _: RUN)
    result = CliRunner().invoke(app, ["sample", "10", "100"])
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"{ranks}: one cycle in 10 in full from cycle {first} on (50 cycles ahead, the server is "
        "idle)."
        for ranks, first in (("DP0 TP0, DP0 TP1", 1053), ("DP1 TP0", 120))
    ]
    assert sampling(rings[NAMES[2]]) == (10, 120, 0)
    for wrong in ("0", str(MAX_EVERY + 1), "many"):
        assert CliRunner().invoke(app, ["sample", wrong, "100"]).exit_code == 2
