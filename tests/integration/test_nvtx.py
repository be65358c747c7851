"""A real NVTX tool, injected into a process of its own, receives every range.

The tool is `tests/nvtx_recorder`: NVTX loads it as it loads Nsight Systems. For the way through
`torch.cuda.nvtx`, which needs a CUDA build, a stand-in for torch writes down what it is told;
that way meets a real NVTX in `tests/gpu` only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from spectrace.model import PhaseName
from spectrace.probe.layout import LAG_SHIFT, TOOL_VARIABLES, Ph
from spectrace.probe.ranges import NAMES, Ranges, make_ranges
from tests.nvtx_recorder import recorder
from tests.nvtx_recorder.recorder import Call, Op, Range

pytestmark = pytest.mark.beside_others

ROOT = Path(__file__).parents[2]
DRIVE = ROOT / "tests" / "nvtx_recorder" / "drive.py"
DRIVE_LOOP = DRIVE.with_name("drive_loop.py")
A_TOOL = {TOOL_VARIABLES[0]: "/a/tool.so"}
TIMEOUT_S = 60


def drive(
    folder: Path, scenario: str, *, script: Path = DRIVE, **variables: str
) -> tuple[dict[str, Any], list[Call]]:
    """Runs a scenario with the tool injected: what it printed, and what the tool received."""
    process = subprocess.Popen(
        [sys.executable, script, scenario],
        env={**recorder.environment(folder), "PYTHONPATH": str(ROOT), **variables},
        stdout=subprocess.PIPE,
        text=True,
    )
    printed, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    return json.loads(printed), recorder.read(folder, process.pid)


def received(calls: list[Call]) -> list[tuple[tuple[str, ...], int | None]]:
    """Nesting and payload of all ranges, in the order in which they were opened."""
    return [(seen.path, seen.payload) for seen in recorder.ranges(calls)]


def verify(number: int) -> list[tuple[tuple[str, ...], int | None]]:
    """Verify and its parts in cycle `number`, as the tool is to see them."""
    parts = ("prepare", "forward", "sample", "commit")
    inside = [(("cycle", "verify", f"verify.{part}"), number) for part in parts]
    return [(("cycle", "verify"), number), *inside]


def speculative(number: int, draft_steps: int = 0) -> list[tuple[tuple[str, ...], int | None]]:
    """The ranges of the speculative cycle `number`, as the tool is to see them."""
    return [
        (("cycle",), number),
        (("cycle", "resolve"), number),
        (("cycle", "draft"), number),
        *[(("cycle", "draft", "draft.step"), number)] * draft_steps,
        *verify(number),
        (("cycle", "draft_extend"), number),
        (("cycle", "schedule"), number),
    ]


def touch(first: Range, second: Range) -> bool:
    """Whether the second begins when the first has ended."""
    return first.end_ns <= second.start_ns


def test_every_range_arrives_with_domain_name_and_payload_in_order_and_nested(
    tmp_path: Path,
) -> None:
    """The tool sees two cycles as they ran; results of the one before carry its number."""
    said, calls = drive(tmp_path, "whole_cycles")
    assert said["error"] == ""
    assert received(calls) == [
        *speculative(7),
        *speculative(8),
        (("cycle", "wait"), 7),
        (("cycle", "result"), 7),
    ]
    assert {call.domain for call in calls} == {"spectrace"}
    assert {call.thread for call in calls} == {calls[0].thread}


def test_siblings_follow_each_other_and_lie_within_their_parent(tmp_path: Path) -> None:
    """The times that the tool took itself agree with the nesting."""
    _, calls = drive(tmp_path, "whole_cycles")
    seen = list(recorder.ranges(calls))
    for outer in seen:
        inside = [
            each
            for each in seen
            if each.path[:-1] == outer.path and outer.start_ns <= each.start_ns <= outer.end_ns
        ]
        assert all(each.end_ns <= outer.end_ns for each in inside)
        assert all(touch(first, second) for first, second in pairwise(inside))


def test_names_are_registered_once_before_the_first_cycle(tmp_path: Path) -> None:
    """A push hands over a registered string; nothing is registered while cycles run."""
    _, calls = drive(tmp_path, "whole_cycles")
    first = next(place for place, call in enumerate(calls) if call.op is Op.PUSH)
    registered = [call.text for call in calls if call.op is Op.STRING]
    assert registered == [call.text for call in calls[:first] if call.op is Op.STRING]
    assert len(registered) == len(set(registered))
    assert {call.text for call in calls if call.op is Op.PUSH} <= set(registered)


def test_what_the_server_breaks_off_is_closed_once(tmp_path: Path) -> None:
    """A cycle that never ended and one during which the probe left stay balanced."""
    _, calls = drive(tmp_path, "broken_off")
    assert received(calls) == [
        (("cycle",), 1),
        (("cycle", "verify"), 1),
        (("cycle", "verify", "verify.sample"), 1),
        (("cycle",), 2),
        (("cycle", "draft"), 2),
    ]


def test_a_traced_scheduler_shows_its_cycles_to_the_tool(tmp_path: Path) -> None:
    """With the whole tracer in a scheduler the tool sees each cycle under its own number."""
    told, calls = drive(tmp_path, "", script=DRIVE_LOOP)
    assert "error" not in told
    assert told["ranges"].startswith("NVTX on: domain spectrace")
    results = ("wait", "result", "schedule")
    assert received(calls) == [
        expected
        for number in (1, 2, 3)
        for expected in (
            *speculative(number, draft_steps=2),  # as the simulated draft worker has
            *((("cycle", name), number) for name in results),
        )
    ]


def test_the_status_sentence_names_the_package_and_its_domain(tmp_path: Path) -> None:
    """`make_ranges` says which way it took."""
    said, _ = drive(tmp_path, "whole_cycles")
    assert said["way"].startswith("NVTX on: domain spectrace of the package nvtx")


def test_a_domain_that_the_tool_leaves_out_gets_no_call(tmp_path: Path) -> None:
    """The tool is there but deaf to our domain: no range, and the sentence says so."""
    said, calls = drive(tmp_path, "whole_cycles", NVTX_RECORDER_DEAF_TO="spectrace")
    assert {call.op for call in calls} <= {Op.DOMAIN, Op.DESTROY}
    assert "does not listen to domain spectrace" in said["way"]


def test_without_a_tool_not_even_the_package_is_loaded(tmp_path: Path) -> None:
    """No variable, no import of nvtx, no call."""
    done = subprocess.run(
        [sys.executable, DRIVE, "whole_cycles"],
        env={"PYTHONPATH": str(ROOT), "NVTX_RECORDER_FOLDER": str(tmp_path)},
        capture_output=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    said = json.loads(done.stdout)
    assert said["way"].startswith("NVTX off: the server was started without a tool")
    assert said["result"] is None
    assert not said["nvtx_loaded"]
    assert list(tmp_path.iterdir()) == []


class Package:
    """Stands for the package nvtx and its domain; counts what it is asked."""

    def __init__(self, *, fails_at: int = -1) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.fails_at = fails_at

    def _called(self, name: str, value: Any = None) -> None:
        self.calls.append((name, value))
        ranges = [call for call, _ in self.calls if call in {"push", "pop"}]
        if name in {"push", "pop"} and len(ranges) - 1 == self.fails_at:
            raise RuntimeError("the tool has gone")

    def enabled(self) -> bool:
        """Whether NVTX_DISABLE is unset."""
        self._called("enabled")
        return True

    def get_domain(self, name: str) -> Package:
        """The domain is this object too."""
        self._called("domain", name)
        return self

    def get_event_attributes(self, *, message: str) -> SimpleNamespace:
        """Attributes of which the text and the payload can be read."""
        self._called("attributes", message)
        return SimpleNamespace(message=message, payload=None)

    def push_range(self, event: Any) -> None:
        """Opens."""
        self._called("push", (event.message, event.payload))

    def pop_range(self) -> None:
        """Closes."""
        self._called("pop")

    def depth(self) -> int:
        """Ranges opened and not closed."""
        names = [name for name, _ in self.calls]
        return names.count("push") - names.count("pop")


class Torch:
    """Stands for a CUDA build of torch: a record of what torch.cuda.nvtx was told."""

    def __init__(self, cuda: str | None = "13.0") -> None:
        self.told: list[str] = []
        self.version = SimpleNamespace(cuda=cuda)
        self.cuda = SimpleNamespace(
            nvtx=SimpleNamespace(
                range_push=self.told.append, range_pop=lambda: self.told.append("pop")
            )
        )


def made(modules: dict[str, Any]) -> tuple[Ranges, str]:
    """Ranges with a tool there."""
    ranges, way = make_ranges(modules, A_TOOL)
    assert ranges is not None, way
    return ranges, way


def run_cycle(ranges: Ranges, number: int = 3) -> None:
    """A short cycle with a part of verify in it."""
    ranges.cycle_begin(number)
    for phase in (Ph.RESOLVE, Ph.DRAFT, Ph.DRAFT_STEP, Ph.DRAFT_STEP, Ph.VERIFY_SAMPLE, Ph.WAIT):
        ranges.phase(phase)
    ranges.cycle_end(number)


def test_without_a_tool_no_call_at_all_is_made() -> None:
    """With the package and a CUDA build in the process, neither is touched."""
    package, torch = Package(), Torch()
    ranges, way = make_ranges({"nvtx": package, "torch": torch}, {"PATH": "/usr/bin"})
    assert ranges is None
    assert "none can be attached later" in way
    assert (package.calls, torch.told) == ([], [])


@pytest.mark.parametrize("variable", TOOL_VARIABLES)
def test_each_sign_of_a_tool_is_enough(variable: str) -> None:
    """NVTX's own variable and those of Nsight Systems and Compute all switch ranges on."""
    ranges, _ = make_ranges({"nvtx": Package()}, {variable: "1"})
    assert ranges is not None


def test_the_package_is_preferred_to_torch() -> None:
    """Where both are there, only the domain is used."""
    package, torch = Package(), Torch()
    ranges, _ = made({"nvtx": package, "torch": torch})
    run_cycle(ranges)
    assert torch.told == []
    assert package.depth() == 0


def test_torch_gets_the_number_in_the_cycles_text_and_fixed_names_for_phases() -> None:
    """Through a stand-in for a CUDA build of torch: no GPU is here, `tests/gpu` has a real one."""
    torch = Torch()
    ranges, way = made({"nvtx": None, "torch": torch})
    run_cycle(ranges)
    assert torch.told == [
        "spectrace cycle 3",
        *("spectrace resolve", "pop"),
        "spectrace draft",
        *("spectrace draft.step", "pop"),
        *("spectrace draft.step", "pop", "pop"),
        *("spectrace verify", "spectrace verify.sample", "pop", "pop"),
        *("spectrace wait", "pop"),
        "pop",
    ]
    assert "torch.cuda.nvtx" in way
    assert "the package nvtx is not installed" in way


def test_a_cpu_build_without_the_package_makes_no_ranges_and_says_why() -> None:
    """torch.cuda.nvtx raises in CPU builds: it is not called there."""
    torch = Torch(cuda=None)
    ranges, way = make_ranges({"nvtx": None, "torch": torch}, A_TOOL)
    assert ranges is None
    assert torch.told == []
    assert "is not installed" in way
    assert "no CUDA build" in way


def test_a_package_of_an_unknown_shape_is_passed_over() -> None:
    """What goes wrong while the way is looked for is a sentence, never an exception."""
    ranges, way = make_ranges({"nvtx": object(), "torch": None}, A_TOOL)
    assert ranges is None
    assert "package failed: AttributeError" in way


@pytest.mark.parametrize("fails_at", range(14))
def test_an_error_of_nvtx_switches_ranges_off_and_reaches_nobody(fails_at: int) -> None:
    """Whichever call fails, nothing is raised, the error is kept and no range is opened again."""
    package = Package(fails_at=fails_at)
    ranges, _ = made({"nvtx": package})
    run_cycle(ranges)
    opened = [name for name, _ in package.calls].count("push")
    run_cycle(ranges, 4)
    assert ranges.error == "RuntimeError: the tool has gone"
    assert [name for name, _ in package.calls].count("push") == opened
    failed_to_open = [name for name, _ in package.calls if name in {"push", "pop"}][fails_at]
    assert package.depth() == (1 if failed_to_open == "push" else 0)


def test_marks_outside_a_cycle_make_no_ranges() -> None:
    """A phase or an end without a beginning is passed over, and leaving twice is harmless."""
    package = Package()
    ranges, _ = made({"nvtx": package})
    ranges.phase(Ph.DRAFT)
    ranges.cycle_end(1)
    ranges.close()
    ranges.close()
    assert not {"push", "pop"} & {name for name, _ in package.calls}


def test_another_thread_cannot_upset_the_nesting() -> None:
    """NVTX nests by thread: what a second thread asks for is passed over."""
    package = Package()
    ranges, _ = made({"nvtx": package})
    ranges.cycle_begin(1)
    before = list(package.calls)
    thread = Thread(target=run_cycle, args=(ranges, 2))
    thread.start()
    thread.join()
    assert package.calls == before
    ranges.cycle_end(1)
    assert package.depth() == 0


def test_a_cycle_that_got_another_number_than_its_range_is_counted() -> None:
    """A range cannot be renamed: that its number was wrong is said."""
    ranges, _ = made({"nvtx": Package()})
    ranges.cycle_begin(5)
    ranges.cycle_end(5)
    assert ranges.renumbered == 0
    ranges.cycle_begin(6)
    ranges.cycle_end(7)
    assert ranges.renumbered == 1


def test_a_phase_of_an_earlier_cycle_carries_that_cycles_number() -> None:
    """The lag in a mark is taken off the payload."""
    package = Package()
    ranges, _ = made({"nvtx": package})
    ranges.cycle_begin(9)
    ranges.phase(Ph.WAIT | 2 << LAG_SHIFT)
    assert package.calls[-1] == ("push", ("wait", 7))


def test_phases_are_called_what_the_page_calls_them() -> None:
    """Every name of the model has its range under the same name."""
    assert {str(name.value) for name in PhaseName} <= set(NAMES)
