"""The kernel window in the probe: asks CUPTI in order, for its cycles alone, and never harms."""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from spectrace.importing.cupti import decoded, pieces_in
from spectrace.model import CycleKind
from spectrace.probe import kernels, layout
from spectrace.probe.layout import Command, State, Word, kernels_word, split_kernels
from spectrace.probe.layout_window import (
    DATA_OFFSET,
    FLUSHES,
    LONGEST_NS,
    MAGIC,
    TEXT_OFFSET,
    VERSION,
    Activity,
    Place,
    Refusal,
    Stage,
)
from tests.helpers import scripted_cupti, simulated_scheduler
from tests.helpers.cupti_records import Buffer, record
from tests.helpers.scripted_cupti import CuptiError, NotSupportedError, ScriptedCupti
from tests.helpers.simulated_scheduler import Batch, Request
from tests.unit.test_probe_tracer import Traced

pytestmark = pytest.mark.beside_others

FILE_BYTES = DATA_OFFSET + (1 << 16)
SINGLE = [
    Activity.KERNEL,
    Activity.MEMCPY,
    Activity.PEER_COPY,
    Activity.MEMSET,
    Activity.RUNTIME,
    Activity.DRIVER,
]


class Windowed(Traced):
    """A traced scheduler with a file for a window beside its ring."""

    def __init__(self, folder: Path, *, graph_cycles: int, size: int = FILE_BYTES) -> None:
        super().__init__(folder / "test.ring")
        ring = str(self.path).encode() + b"\0"
        with self.path.open("r+b") as file:
            file.seek(layout.PATH_OFFSET)
            file.write(ring)
        self.file = folder / "test.kernels"
        self._asked = 0
        content = bytearray(size)
        for place, value in {
            Place.MAGIC: MAGIC,
            Place.VERSION: VERSION,
            Place.GRAPH_CYCLES: graph_cycles,
        }.items():
            struct.pack_into("<Q", content, place * 8, value)
        self.file.write_bytes(content)

    def ask(self, first: int, cycles: int) -> None:
        """As the command does."""
        self._asked += 1
        self.view.set_word(Word.KERNELS, kernels_word(first, cycles, self._asked))

    def step(self, count: int = 1) -> None:
        """So many cycles."""
        for _ in range(count):
            self.scheduler.step(Batch([Request("a")]))

    def word(self, place: int) -> int:
        """A word of the window's file."""
        (value,) = struct.unpack_from("<Q", self.file.read_bytes(), place * 8)
        assert isinstance(value, int)
        return value

    def text(self) -> str:
        """What CUPTI said."""
        content = self.file.read_bytes()
        return content[TEXT_OFFSET : TEXT_OFFSET + self.word(Place.TEXT_LENGTH)].decode()


@pytest.fixture
def windowed(tmp_path: Path) -> Iterator[Windowed]:
    """Graphs are seen whole in the first of its cycles."""
    yield from _windowed(tmp_path)


def _windowed(folder: Path, graph_cycles: int = 1, size: int = FILE_BYTES) -> Iterator[Windowed]:
    for _ in simulated_scheduler.installed():
        it = Windowed(folder, graph_cycles=graph_cycles, size=size)
        yield it
        it.view.set_word(Word.COMMAND, Command.DETACH)
        it.scheduler.on_idle()
        it.view.close()
        it.assert_untouched()


@pytest.fixture
def cupti() -> Iterator[ScriptedCupti]:
    """CUPTI, which a test can have refuse."""
    scripted = ScriptedCupti()
    with scripted_cupti.installed(scripted):
        yield scripted


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushes follow each other without a pause."""
    monkeypatch.setattr(kernels, "FLUSH_EVERY_NS", 0)


def test_the_control_word_holds_what_was_asked_for() -> None:
    """The same wish again is another word, and means the same."""
    words = [kernels_word(0xFFFFFFFF, 0xFFFF, turn) for turn in (1, 2)]
    assert words[0] != words[1]
    assert {split_kernels(word) for word in words} == {(0xFFFFFFFF, 0xFFFF)}
    assert max(words) < 1 << 64


def test_without_a_wish_nothing_of_cupti_is_loaded(windowed: Windowed) -> None:
    """The package is not even looked for."""
    with scripted_cupti.installed(None):
        windowed.step(3)
    assert windowed.word(Place.STATE) == Stage.ASKED
    assert len(windowed.cycles()) == 2


def test_graphs_are_asked_for_first_then_single_kernels_then_nothing(
    windowed: Windowed, cupti: ScriptedCupti
) -> None:
    """Of four cycles from number 4 on the first shows graphs whole, the next three what is in them.

    Before and behind nothing is asked for.
    """
    windowed.step()
    windowed.ask(4, 4)
    enabled = []
    for _ in range(9):
        windowed.step()
        enabled.append(list(cupti.enabled))
    # The cycles 2 to 10.
    assert enabled == [[], [], [Activity.GRAPH, *SINGLE], SINGLE, SINGLE, SINGLE, [], [], []]
    places = (Place.BEGAN_CYCLE, Place.SPLIT_CYCLE, Place.ENDED_CYCLE)
    assert [windowed.word(place) for place in places] == [4, 5, 8]


@pytest.mark.usefixtures("at_once")
def test_what_is_done_is_asked_for_without_waiting(
    windowed: Windowed, cupti: ScriptedCupti
) -> None:
    """Flag 0; any other has CUPTI hand over what the device still works on."""
    windowed.ask(2, 2)
    windowed.step(4 + FLUSHES)
    flags = [argument for name, argument in cupti.calls if name == "activity_flush_all"]
    assert flags == [0] * FLUSHES
    assert windowed.word(Place.STATE) == Stage.DONE


def test_without_cycles_for_graphs_kernels_are_asked_for_at_once(
    tmp_path: Path, cupti: ScriptedCupti
) -> None:
    """GRAPH_TRACE would hide them."""
    for windowed in _windowed(tmp_path, graph_cycles=0):
        windowed.ask(2, 1)
        windowed.step(2)
        assert cupti.enabled == SINGLE
        assert windowed.word(Place.SPLIT_CYCLE) == windowed.word(Place.BEGAN_CYCLE) == 2


@pytest.mark.usefixtures("at_once")
def test_buffers_come_into_the_file_as_cupti_wrote_them(
    windowed: Windowed, cupti: ScriptedCupti
) -> None:
    """Also one that comes after the window, from what the device had still to do."""
    first = Buffer(
        record("api", start=1, end=2, correlation_id=7, thread_id=5),
        record("kernel13", start=3, end=4, correlation_id=7, name=99),
    )
    second = Buffer(record("memset5", start=5, end=6, correlation_id=8))
    windowed.ask(2, 2)
    windowed.step(3)
    cupti.hand_over(first)
    windowed.step()
    cupti.filled(second)
    windowed.step(2 + FLUSHES)
    found = pieces_in(windowed.file.read_bytes(), windowed.word(Place.HEAD))
    assert found.torn == 0
    # Of the last record of a buffer what is read of it, of the others all.
    assert [bytes(one.data) for one in found.whole] == [first.data[: 40 + 160], second.data[:80]]
    both = decoded(found.whole)
    assert both.works.correlation.tolist() == [7, 8]
    assert (windowed.word(Place.BUFFERS), windowed.word(Place.RECORDS)) == (2, 3)
    assert windowed.word(Place.LOST) == 0


def test_what_finds_no_room_is_counted_and_what_does_still_comes(
    tmp_path: Path, cupti: ScriptedCupti
) -> None:
    """The file has a bound: a small buffer behind a large one that did not fit is kept."""
    for windowed in _windowed(tmp_path, size=DATA_OFFSET + 512):
        windowed.ask(2, 2)
        windowed.step(3)
        large = Buffer(*[record("kernel13", start=1, end=2, correlation_id=n) for n in range(3)])
        cupti.hand_over(large)
        cupti.hand_over(Buffer(record("kernel13", start=1, end=2, correlation_id=9)))
        found = pieces_in(windowed.file.read_bytes(), windowed.word(Place.HEAD))
        assert decoded(found.whole).works.correlation.tolist() == [9]
        assert windowed.word(Place.LOST) == 3


def test_records_that_do_not_lie_in_one_buffer_are_not_touched(
    windowed: Windowed, cupti: ScriptedCupti
) -> None:
    """What lies between them may be no memory of ours: they are counted, and left alone."""
    windowed.ask(2, 2)
    windowed.step(3)
    one = record("kernel13", start=1, end=2, correlation_id=1)
    memory = ctypes.create_string_buffer(one * 2, 2 * len(one))
    address = ctypes.addressof(memory)
    near = scripted_cupti.Activity(address + len(one))
    far = SimpleNamespace(ptr=address + (1 << 40), kind=Activity.KERNEL)
    for pair in ([near, far], [near, scripted_cupti.Activity(address)]):  # the second, backwards
        cupti.hand_over_these(pair)
    assert windowed.word(Place.BROKEN) == 2
    assert windowed.word(Place.LOST) == 0
    assert windowed.word(Place.HEAD) == DATA_OFFSET


@pytest.mark.usefixtures("at_once")
def test_a_buffer_that_comes_after_the_end_is_left_alone(
    windowed: Windowed, cupti: ScriptedCupti
) -> None:
    """CUPTI keeps what was registered: it must do no harm for as long as the server lives."""
    windowed.ask(2, 1)
    windowed.step(3 + FLUSHES)
    before = windowed.file.read_bytes()
    cupti.hand_over(Buffer(record("kernel13", start=1, end=2, correlation_id=1)))
    assert windowed.file.read_bytes() == before


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (CuptiError(39), (Refusal.TAKEN, 39)),
        (CuptiError(35), (Refusal.NOT_PERMITTED, 35)),
        (CuptiError(40), (Refusal.NOT_PERMITTED, 40)),
        (CuptiError(14), (Refusal.TOO_OLD, 14)),
        (CuptiError(43), (Refusal.UNSUPPORTED, 43)),
        (CuptiError(999), (Refusal.OTHER, 999)),
        (NotSupportedError("CUDA driver is not found (libcuda.so.1: …)"), (Refusal.NO_DRIVER, 0)),
        (RuntimeError("Did not find cuInit symbol in libcuda.so.1"), (Refusal.NO_DRIVER, 0)),
        (RuntimeError('Failure finding "libcupti.so"'), (Refusal.NO_PACKAGE, 0)),
        (AttributeError("activity_enable"), (Refusal.TOO_OLD, 0)),
        (ValueError("nobody foresaw this"), (Refusal.OTHER, 0)),
    ],
    ids=lambda value: str(value) if isinstance(value, Exception) else "",
)
@pytest.mark.parametrize("call", ["activity_register_callbacks", "activity_enable"])
def test_what_cupti_refuses_is_a_number_and_its_own_words(
    windowed: Windowed, cupti: ScriptedCupti, call: str, error: Exception, told: tuple[int, int]
) -> None:
    """Tracing goes on, and nothing is left switched on."""
    cupti.refusals[call] = error
    windowed.ask(3, 2)
    windowed.step(6)
    assert windowed.word(Place.STATE) == Stage.REFUSED
    assert (windowed.word(Place.REFUSAL), windowed.word(Place.STATUS)) == told
    assert str(error) in windowed.text()
    assert cupti.enabled == []
    assert windowed.view.word(Word.STATE) == State.TRACING
    assert len(windowed.cycles()) == 5


def test_a_refusal_in_the_midst_switches_off_what_was_on(
    windowed: Windowed, cupti: ScriptedCupti
) -> None:
    """The third kind is refused: the two before it are taken back."""

    def refuse_the_third(kind: int) -> None:
        if len(cupti.enabled) == 2:
            raise CuptiError(27)
        ScriptedCupti.activity_enable(cupti, kind)

    cupti.activity_enable = refuse_the_third  # type: ignore[method-assign]  # scripted
    with scripted_cupti.installed(cupti):
        windowed.ask(2, 2)
        windowed.step(3)
    assert cupti.enabled == []
    assert windowed.word(Place.REFUSAL) == Refusal.UNSUPPORTED


def test_without_the_package_there_is_no_window(windowed: Windowed) -> None:
    """As on most servers."""
    with scripted_cupti.installed(None):
        windowed.ask(3, 2)
        windowed.step(3)
    assert windowed.word(Place.REFUSAL) == Refusal.NO_PACKAGE


def test_a_window_whose_first_cycle_has_passed_is_refused(
    windowed: Windowed, cupti: ScriptedCupti
) -> None:
    """Ranks must look at the same cycles: CUPTI is not even loaded."""
    windowed.step(5)
    windowed.ask(3, 2)
    windowed.step()
    assert windowed.word(Place.REFUSAL) == Refusal.LATE
    assert cupti.calls == []


def test_a_window_that_no_cycle_ends_is_closed_by_time(
    windowed: Windowed, cupti: ScriptedCupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that has nothing to do any more does not stay switched on."""
    windowed.ask(2, 100)
    windowed.step(3)
    assert cupti.enabled
    later_ns = time.monotonic_ns() + 2 * LONGEST_NS
    monkeypatch.setattr(kernels, "now", lambda: later_ns)
    for _ in range(200):
        windowed.scheduler.on_idle()
    assert cupti.enabled == []
    assert windowed.word(Place.CUT_SHORT) == 1


def test_a_server_that_sleeps_while_idle_closes_its_window_all_the_same(
    windowed: Windowed, cupti: ScriptedCupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its idle call comes each second: the first one behind the end closes, one more is enough."""
    windowed.ask(2, 100)
    windowed.step(3)
    windowed.scheduler.on_idle()  # which ends the last cycle
    assert cupti.enabled
    ended_ns = windowed.word(Place.BEGAN_NS) + LONGEST_NS
    stages = []
    for second in (1, 2):
        monkeypatch.setattr(kernels, "now", lambda at=ended_ns + second * 1_000_000_000: at)
        windowed.scheduler.on_idle()
        stages.append((windowed.word(Place.STATE), windowed.word(Place.CUT_SHORT)))
    assert cupti.enabled == []
    assert stages == [(Stage.FLUSHING, 1), (Stage.DONE, 1)]


def test_a_window_of_many_cycles_is_given_longer(
    windowed: Windowed, cupti: ScriptedCupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as whoever asks for it has written into its file."""
    with windowed.file.open("r+b") as file:
        file.seek(Place.LONGEST_NS * 8)
        file.write(struct.pack("<Q", 10 * LONGEST_NS))
    windowed.ask(2, 100)
    windowed.step(3)
    began_ns = windowed.word(Place.BEGAN_NS)
    monkeypatch.setattr(kernels, "now", lambda: began_ns + 9 * LONGEST_NS)
    windowed.step()
    assert cupti.enabled
    monkeypatch.setattr(kernels, "now", lambda: began_ns + 11 * LONGEST_NS)
    windowed.step()
    assert cupti.enabled == []


def test_idling_does_not_count_as_cycles(windowed: Windowed, cupti: ScriptedCupti) -> None:
    """The window waits for its cycles, before and between them."""
    windowed.ask(2, 2)
    windowed.step()
    for _ in range(200):
        windowed.scheduler.on_idle()
    assert cupti.enabled == []
    windowed.step()
    for _ in range(200):
        windowed.scheduler.on_idle()
    assert cupti.enabled == [Activity.GRAPH, *SINGLE]


def test_detaching_in_the_midst_switches_off(windowed: Windowed, cupti: ScriptedCupti) -> None:
    """And says that the window was cut short."""
    windowed.ask(2, 50)
    windowed.step(4)
    windowed.view.set_word(Word.COMMAND, Command.DETACH)
    windowed.step()
    assert cupti.enabled == []
    assert windowed.word(Place.CUT_SHORT) == 1
    assert windowed.view.word(Word.STATE) == State.DETACHED


def test_a_window_that_is_over_stays_over(tmp_path: Path, cupti: ScriptedCupti) -> None:
    """Whoever moves it on further does no harm, and hears that it is over."""
    for windowed in _windowed(tmp_path):
        cupti.refusals["activity_register_callbacks"] = CuptiError(39)
        window = kernels.open_window(str(windowed.path), 0, 1)
        assert window is not None
        assert [window.step(1), window.step(2)] == [False, False]
        window.close()
        assert windowed.word(Place.REFUSAL) == Refusal.TAKEN


@pytest.mark.usefixtures("at_once")
def test_a_window_can_be_asked_for_again(windowed: Windowed, cupti: ScriptedCupti) -> None:
    """Also one with the same numbers."""
    windowed.ask(0, 1)
    windowed.step(3 + FLUSHES)
    assert windowed.word(Place.STATE) == Stage.DONE
    windowed.ask(0, 1)
    windowed.step(1)
    windowed.step(1)
    assert [name for name, _ in cupti.calls].count("activity_register_callbacks") == 2


def test_without_a_file_a_wish_is_passed_over(windowed: Windowed, cupti: ScriptedCupti) -> None:
    """Who asked has gone."""
    windowed.file.unlink()
    windowed.ask(2, 2)
    windowed.step(4)
    assert cupti.calls == []
    assert [cycle.kind for cycle in windowed.cycles()] == [CycleKind.SPECULATIVE] * 3


@pytest.mark.parametrize("place", [Place.MAGIC, Place.VERSION])
def test_a_file_of_another_make_is_left_alone(
    windowed: Windowed, cupti: ScriptedCupti, place: int
) -> None:
    """Nothing is written into it."""
    content = bytearray(windowed.file.read_bytes())
    struct.pack_into("<Q", content, place * 8, 77)
    windowed.file.write_bytes(content)
    windowed.ask(2, 2)
    windowed.step(4)
    assert windowed.file.read_bytes() == bytes(content)
    assert cupti.calls == []


def test_the_windows_own_time_is_part_of_the_probes(
    windowed: Windowed, cupti: ScriptedCupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading CUPTI takes 30 ms here: the cycle before it is no longer for that, and says so."""

    def slowly(*args: object) -> None:
        deadline_ns = time.monotonic_ns() + 30_000_000
        while time.monotonic_ns() < deadline_ns:
            pass
        ScriptedCupti.activity_register_callbacks(cupti, *args)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(cupti, "activity_register_callbacks", slowly)
    with scripted_cupti.installed(cupti):
        windowed.step()
        windowed.ask(9, 1)
        windowed.step(2)
    assert windowed.word(Place.LOADING_NS) >= 30_000_000
    assert windowed.cycles()[1].probe_ns >= 30_000_000


def test_nobody_else_may_open_the_file_through_a_link(
    windowed: Windowed, cupti: ScriptedCupti, tmp_path: Path
) -> None:
    """What stands under its name is never followed."""
    other = tmp_path / "other"
    windowed.file.rename(other)
    windowed.file.symlink_to(other)
    before = other.read_bytes()
    windowed.ask(2, 2)
    windowed.step(4)
    assert other.read_bytes() == before
    assert cupti.calls == []
