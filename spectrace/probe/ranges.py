"""Shows cycles and phases to a profiler as NVTX ranges, while one can listen.

NVTX looks for a tool once, at its first call in a process; a tool cannot be attached later.
Of a server that runs without one this module makes no call at all. Ranges nest as the phases
do: cycle > verify > verify.prepare.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from threading import get_ident
from typing import TYPE_CHECKING, Any

from .faults import pass_on
from .layout import LAG_SHIFT, NO_TOOL, PHASE_MASK, TOOL_VARIABLES, Ph

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DOMAIN = "spectrace"

_CYCLE = 0  # in the place of a phase: the range of the whole cycle
_NAMES = {
    _CYCLE: "cycle",
    Ph.RESOLVE: "resolve",
    Ph.FORWARD: "forward",
    Ph.DRAFT: "draft",
    Ph.DRAFT_STEP: "draft.step",
    Ph.VERIFY: "verify",
    Ph.VERIFY_PREPARE: "verify.prepare",
    Ph.VERIFY_FORWARD: "verify.forward",
    Ph.VERIFY_SAMPLE: "verify.sample",
    Ph.VERIFY_COMMIT: "verify.commit",
    Ph.DRAFT_EXTEND: "draft_extend",
    Ph.WAIT: "wait",
    Ph.RESULT: "result",
    Ph.SCHEDULE: "schedule",
}
_PARENTS = {
    Ph.DRAFT_STEP: Ph.DRAFT,
    Ph.VERIFY_PREPARE: Ph.VERIFY,
    Ph.VERIFY_FORWARD: Ph.VERIFY,
    Ph.VERIFY_SAMPLE: Ph.VERIFY,
    Ph.VERIFY_COMMIT: Ph.VERIFY,
}

# By number of a phase, as a mark has it; of one without a name the number stands.
NAMES = tuple(_NAMES.get(phase, f"phase {phase}") for phase in range(PHASE_MASK + 1))
PARENTS = tuple(_PARENTS.get(phase, 0) for phase in range(PHASE_MASK + 1))

Push = Any  # Callable[[int, int], None]: number of a phase or _CYCLE, number of the cycle
Pop = Any  # Callable[[], None]


class Ranges:
    """The ranges of one scheduler's cycles.

    Calls come in the order `cycle_begin`, `phase` for each mark, `cycle_end`; whatever is
    missing or comes twice, every range that was opened is closed once. NVTX keeps ranges by
    thread: calls from another thread than the first cycle's are passed over. Nothing is
    raised: the first error of NVTX switches the ranges off and is kept in `error`.

    Args:
        push: Opens a range for a phase, or the cycle's own, with the number of the cycle.
        pop: Closes the range opened last.

    Attributes:
        error: What went wrong, "" while all is well.
        renumbered: Cycles that got another number than their range says.
    """

    __slots__ = (
        "_depth",
        "_number",
        "_on",
        "_pop",
        "_push",
        "_second",
        "_thread",
        "error",
        "renumbered",
    )

    def __init__(self, push: Push, pop: Pop) -> None:
        self._push = push
        self._pop = pop
        self._on = True
        self._thread = 0
        self._number = 0
        self._depth = 0  # ranges open: the cycle, a phase, a part of a phase
        self._second = 0  # the phase that is open below the cycle
        self.error = ""
        self.renumbered = 0

    def cycle_begin(self, number: int) -> None:
        """Opens a cycle's range; one that is still open is closed.

        Args:
            number: What the cycle will be called; the range cannot be renamed later.
        """
        if not self._on:
            return
        try:
            thread = get_ident()
            if thread != self._thread:
                if self._thread:
                    return
                self._thread = thread
            if self._depth:
                self._pop_to(0)
            self._number = number
            self._push(_CYCLE, number)
            self._depth = 1
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self._switch_off(error)

    def phase(self, mark: int) -> None:
        """Opens a phase's range, within its group's if it has one; the one before ends.

        Args:
            mark: Number of the phase, with the lag of a phase that is of an earlier cycle.
        """
        if not self._depth:
            return
        try:
            if get_ident() != self._thread:
                return
            phase = mark & PHASE_MASK
            number = self._number - (mark >> LAG_SHIFT)
            parent = PARENTS[phase]
            if not parent:
                if self._depth > 2 and self._second == phase:  # noqa: PLR2004 - a part is open
                    self._pop_to(2)  # what follows a part, within the same group
                else:
                    self._open_second(phase, number)
                return
            if self._depth == 1 or self._second != parent:
                self._open_second(parent, number)
            elif self._depth > 2:  # noqa: PLR2004 - a part is open
                self._pop_to(2)
            self._push(phase, number)
            self._depth = 3
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self._switch_off(error)

    def cycle_end(self, number: int) -> None:
        """Closes the cycle's range and all within it.

        Args:
            number: What the cycle is called.
        """
        if not self._depth:
            return
        try:
            if get_ident() != self._thread:
                return
            self._pop_to(0)
            if number != self._number:
                self.renumbered += 1
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self._switch_off(error)

    def close(self) -> None:
        """Closes what is open; nothing is opened any more."""
        self._on = False
        try:
            if get_ident() == self._thread:
                self._pop_to(0)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self._switch_off(error)

    def _open_second(self, phase: int, number: int) -> None:
        if self._depth > 1:
            self._pop_to(1)
        self._push(phase, number)
        self._second = phase
        self._depth = 2

    def _pop_to(self, depth: int) -> None:
        while self._depth > depth:
            self._depth -= 1  # first: what fails to close is not tried again
            self._pop()

    def _switch_off(self, error: Exception) -> None:
        pass_on(error)
        self._on = False
        self.error = f"{type(error).__name__}: {error}"
        while self._depth:
            with suppress(Exception):
                self._pop_to(0)


class Unheard(Exception):  # noqa: N818 - an answer, no error of anybody's
    """Why one way of making ranges is not open; the message goes on a sentence."""


def make_ranges(
    modules: dict[str, Any],
    environment: Mapping[str, str] = os.environ,
) -> tuple[Ranges | None, str]:
    """Finds the way to make ranges in this process; never raises.

    Imports the package `nvtx` where it is installed and a tool is there, which takes about
    10 ms once; nothing else is imported.

    Args:
        modules: `sys.modules`. None in the place of `nvtx` means that it is not installed.
        environment: The process's environment.

    Returns:
        The ranges, None where no tool can listen, and a sentence for `status`.
    """
    tool = next((name for name in TOOL_VARIABLES if environment.get(name)), "")
    if not tool:
        return None, NO_TOOL
    reasons = []
    for make in (_by_package, _by_torch):
        try:
            push, pop, way = make(modules)
        except Unheard as reason:  # noqa: PERF203 - there are two ways
            reasons.append(str(reason))
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            pass_on(error)
            reasons.append(f"{make.__name__.rpartition('_')[2]} failed: {error!r}")
        else:
            return Ranges(push, pop), f"NVTX on: {'; '.join([way, *reasons])}"
    return None, f"NVTX off: {tool} is set, but {' and '.join(reasons)}"


def _by_package(modules: dict[str, Any]) -> tuple[Push, Pop, str]:
    """Ranges of a domain, their names registered and their attributes made beforehand."""
    nvtx = _package(modules)
    if not nvtx.enabled():
        raise Unheard("the package nvtx is switched off by NVTX_DISABLE")
    # Cached by the package for good: attached again, spectrace gets the domain it had.
    domain = nvtx.get_domain(DOMAIN)
    attributes = [domain.get_event_attributes(message=name) for name in NAMES]
    if attributes[0] is None:  # from a stand-in, which the package gives where nobody listens
        raise Unheard(f"the tool does not listen to domain {DOMAIN} of the package nvtx")
    push_range = domain.push_range

    def push(phase: int, number: int) -> None:
        event = attributes[phase]
        event.payload = number
        push_range(event)

    way = f"domain {DOMAIN} of the package nvtx, the number of the cycle as payload"
    return push, domain.pop_range, way


def _package(modules: dict[str, Any]) -> Any:
    """The package `nvtx`, imported if it is installed; a mere folder of that name is not it."""
    if "nvtx" not in modules:
        spec = find_spec("nvtx")
        if spec is not None and spec.origin:
            return import_module("nvtx")
    elif modules["nvtx"] is not None:
        return modules["nvtx"]
    raise Unheard("the package nvtx is not installed in the server's environment")


def _by_torch(modules: dict[str, Any]) -> tuple[Push, Pop, str]:
    """Ranges of `torch.cuda.nvtx`, which knows neither domains nor payloads."""
    torch = modules.get("torch")
    if torch is None or not torch.version.cuda:
        raise Unheard("torch is no CUDA build")
    range_push: Callable[[str], Any] = torch.cuda.nvtx.range_push
    texts = [f"{DOMAIN} {name}" for name in NAMES]
    cycle = f"{texts[_CYCLE]} "

    def push(phase: int, number: int) -> None:
        range_push(texts[phase] if phase else f"{cycle}{number}")

    way = "torch.cuda.nvtx, the number of the cycle in the text of its range"
    return push, torch.cuda.nvtx.range_pop, way
