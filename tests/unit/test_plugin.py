"""The plugin sleeps in a scheduler's process, wakes when a reader joins, and sleeps again."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spectrace import plugin
from spectrace.attach import inject, leave, ring_file
from spectrace.attach.handle import Attached, Options
from spectrace.attach.rank_status import look_at
from spectrace.attach.ways import Method, Way
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Rank
from spectrace.probe import layout, own_ring
from spectrace.probe import ring as probe_ring
from spectrace.probe import tracer as probe_tracer
from spectrace.probe.engines import sglang as engine
from spectrace.probe.layout import State, Word
from tests.helpers import simulated_scheduler as simulated
from tests.helpers.probe_ring import cycles_in
from tests.helpers.simulated_scheduler import Batch, Request, Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

RANK = Rank(name="TP0", pid=os.getpid())


def load_plugins_as(module: str) -> None:
    """Calls the plugin from a function of that module, as SGLang does."""
    names: dict[str, Any] = {"__name__": module, "register": plugin.register}
    exec("def run(): register()\nrun()", names)  # noqa: S102 - a function of another module


class Sleeping:
    """A simulated scheduler of this very process with the plugin asleep in it."""

    def __init__(self) -> None:
        self.path = ring_file.ring_path(os.getpid())
        self.original = vars(Scheduler)["run_batch"]
        load_plugins_as(engine.SCHEDULER_MODULE)
        self.dormant = vars(Scheduler)["run_batch"]
        self.scheduler = Scheduler()

    def step(self) -> None:
        """One cycle, whose tokens must be those of the scheduler alone."""
        request = Request("a")
        self.scheduler.step(Batch([request]))
        assert len(request.output_ids) == 3

    def join(self, units: int = layout.MIN_UNITS) -> Attached:
        """Attaches to this process."""
        return inject.put_in(RANK, options=Options(units=units))

    def leave(self, attached: Attached) -> None:
        """Detaches, with the cycle at which the tracer leaves."""
        leave.ask_to_leave(attached)
        self.step()
        assert leave.take_out(attached).reason == "The plugin is asleep."

    def state(self) -> int:
        """What the ring says."""
        view = RingView(self.path)
        try:
            return view.word(Word.STATE)
        finally:
            view.close()


@pytest.fixture
def sleeping() -> Iterator[Sleeping]:
    """The plugin, asleep."""
    for _ in simulated.installed():
        it = Sleeping()
        yield it
        Scheduler.run_batch = it.original  # type: ignore[method-assign]
        atexit.unregister(own_ring.remove)
        it.path.unlink(missing_ok=True)


def test_a_process_that_is_no_scheduler_is_left_alone() -> None:
    """Where something else than a scheduler loads plugins there is no ring and no wrapper."""
    for _ in simulated.installed():
        before = dict(vars(Scheduler))
        load_plugins_as("sglang.srt.entrypoints.engine")
        assert dict(vars(Scheduler)) == before
        assert not ring_file.ring_path(os.getpid()).exists()


def test_a_process_without_the_scheduler_s_module_is_left_alone() -> None:
    """A release that has its scheduler elsewhere starts as if there were no plugin."""
    load_plugins_as(engine.SCHEDULER_MODULE)
    assert not ring_file.ring_path(os.getpid()).exists()


def test_asleep_one_function_is_wrapped_and_no_memory_is_taken(sleeping: Sleeping) -> None:
    """Of the class only `run_batch` differs, and of the ring's memory only the header is taken."""
    assert sleeping.dormant is not sleeping.original
    assert sleeping.dormant.__wrapped__ is sleeping.original
    sleeping.step()
    status = sleeping.path.stat()
    assert status.st_size == layout.units_offset(0) + layout.DEFAULT_UNITS * layout.UNIT_BYTES
    assert status.st_blocks * 512 == layout.units_offset(0)
    assert status.st_mode & 0o777 == 0o600
    assert sleeping.state() == State.LOADED


def test_the_cycle_that_wakes_it_is_its_first(sleeping: Sleeping) -> None:
    """Three cycles after a reader joined, three are in the ring, and none of those before."""
    sleeping.step()
    attached = sleeping.join()
    assert attached.way is Way.PLUGIN
    assert (attached.stop_ns, attached.joined) == (0, True)
    for _ in range(3):
        sleeping.step()
    assert sleeping.state() == State.TRACING
    sleeping.leave(attached)
    assert [cycle.number for cycle in cycles_in(sleeping.path)] == [2, 3, 4]


def test_put_to_sleep_it_leaves_everything_as_it_found_it(sleeping: Sleeping) -> None:
    """After 20 times the classes hold the very objects of before, the dormant look among them."""
    kinds = (Scheduler, simulated.EAGLEWorkerV2, simulated.DraftWorker, simulated.Processor)
    before = [dict(vars(kind)) for kind in kinds]
    for _ in range(20):
        attached = sleeping.join()
        sleeping.step()
        assert vars(Scheduler)["run_batch"] is not sleeping.dormant
        sleeping.leave(attached)
        assert [dict(vars(kind)) for kind in kinds] == before
    maps = Path("/proc/self/maps").read_text().splitlines()
    assert not any(line.endswith(sleeping.path.name) for line in maps)  # the look maps it unnamed


def test_it_sleeps_again_without_a_reader_and_keeps_its_file(
    sleeping: Sleeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the reader has gone the plugin sleeps by itself, and the next reader wakes it."""
    attached = sleeping.join()
    sleeping.step()
    monkeypatch.setattr(probe_ring, "ABANDONED_NS", 1_000_000)
    monkeypatch.setattr(probe_tracer, "ABANDONED_NS", 1_000_000)
    monkeypatch.setattr(probe_ring, "QUIET_NS", 0)
    view = RingView(sleeping.path)
    view.set_word(Word.HEARTBEAT_NS, time.monotonic_ns() - layout.QUIET_NS - 1)
    view.set_word(Word.SEATS + layout.Seat.KEY, 0)
    view.close()
    for _ in range(2):  # it misses the reader, and falls asleep at its next look
        sleeping.step()
    assert sleeping.state() == State.DETACHED
    assert vars(Scheduler)["run_batch"] is sleeping.dormant
    monkeypatch.undo()
    again = sleeping.join()
    assert again.path == attached.path
    sleeping.step()
    assert sleeping.state() == State.TRACING
    sleeping.leave(again)


def test_a_reader_that_leaves_before_a_cycle_wakes_nobody(sleeping: Sleeping) -> None:
    """Told to leave before it has looked, the plugin sleeps on."""
    attached = sleeping.join()
    leave.ask_to_leave(attached)
    sleeping.step()
    assert sleeping.state() == State.DETACHED
    assert vars(Scheduler)["run_batch"] is sleeping.dormant
    assert not cycles_in(sleeping.path)


def test_a_wrapper_of_somebody_else_runs_once_a_cycle(sleeping: Sleeping) -> None:
    """Another plugin's wrapper around ours is not called twice by the cycle that wakes it."""
    calls = []

    def theirs(*args: Any) -> Any:
        calls.append(1)
        return sleeping.dormant(*args)

    Scheduler.run_batch = theirs  # type: ignore[method-assign, assignment]
    attached = sleeping.join()
    for _ in range(3):
        sleeping.step()
    assert len(calls) == 3
    sleeping.leave(attached)
    assert [cycle.number for cycle in cycles_in(sleeping.path)] == [2, 3]  # woken within the first
    assert vars(Scheduler)["run_batch"] is theirs


def test_a_larger_ring_is_made_for_the_reader_that_asks(sleeping: Sleeping) -> None:
    """The ring grows while the plugin sleeps, and is used in full from then on."""
    units = 2 * layout.DEFAULT_UNITS
    attached = sleeping.join(units)
    sleeping.step()
    view = RingView(sleeping.path)
    assert view.units == units
    view.close()
    assert sleeping.path.stat().st_blocks * 512 >= units * layout.UNIT_BYTES
    sleeping.leave(attached)


def test_it_does_not_write_into_memory_that_nobody_took(sleeping: Sleeping) -> None:
    """A reader that did not take the ring's memory is refused: a missing page would kill."""
    view = RingView(sleeping.path)
    view.set_word(Word.HEARTBEAT_NS, time.monotonic_ns())
    view.set_word(Word.JOINS, 1)
    view.close()
    sleeping.step()
    assert sleeping.state() == State.FAILED
    assert vars(Scheduler)["run_batch"] is sleeping.dormant


def test_an_error_while_waking_is_written_down(
    sleeping: Sleeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the scheduler lacks what the tracer needs, the server goes on and the ring says so."""
    attached = sleeping.join()
    monkeypatch.setattr(engine, "IDLE", "on_holiday")
    sleeping.step()
    assert sleeping.state() == State.FAILED
    assert vars(Scheduler)["run_batch"] is sleeping.dormant
    monkeypatch.undo()
    assert leave.take_out(attached).removed
    again = sleeping.join()
    sleeping.step()
    assert sleeping.state() == State.TRACING
    sleeping.leave(again)


def test_its_status_is_that_it_sleeps(sleeping: Sleeping) -> None:
    """A plugin that nobody has woken is no tracing, and says so."""
    assert look_at(RANK).state == "asleep"
    attached = sleeping.join()
    sleeping.step()
    assert look_at(RANK).state == "traced"
    sleeping.leave(attached)
    assert look_at(RANK).state == "asleep"


@pytest.mark.parametrize("method", [Method.REMOTE_EXEC, Method.PTRACE, Method.GDB])
def test_no_second_probe_goes_in_beside_it(sleeping: Sleeping, method: Method) -> None:
    """Another way that is asked for by name is refused, and nothing is woken."""
    with pytest.raises(SpectraceError, match=f"by its plugin.*leave --method {method.value} away"):
        inject.put_in(RANK, options=Options(method=method))
    assert sleeping.state() == State.LOADED


def test_a_plugin_of_another_layout_is_refused(sleeping: Sleeping) -> None:
    """A plugin of another release is refused with both layout versions."""
    view = RingView(sleeping.path)
    view.set_word(Word.LAYOUT_VERSION, 99)
    view.close()
    with pytest.raises(SpectraceError, match=f"layout 99.* layout {layout.LAYOUT_VERSION}"):
        sleeping.join()


def test_without_a_plugin_its_way_is_refused_with_what_to_do() -> None:
    """`--method plugin` names the command that installs it."""
    with pytest.raises(SpectraceError, match="pip install --no-deps spectrace"):
        inject.put_in(RANK, options=Options(method=Method.PLUGIN))


KILLED = """
import sys
from spectrace.probe import own_ring
from spectrace.probe.layout import Origin
ring = own_ring.create(own_ring.own_path(), Origin.PLUGIN, 64, reserved=False)
print(own_ring.own_path(), flush=True)
sys.stdin.read()
"""


def test_what_a_killed_process_left_is_swept_and_the_living_keep_theirs(
    sleeping: Sleeping,
) -> None:
    """A ring goes once nobody holds its lock, which a killed process cannot."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        own_ring.sweep()
        assert path.exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
    own_ring.sweep()
    assert not path.exists()
    assert sleeping.path.exists()
