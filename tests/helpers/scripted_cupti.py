"""CUPTI as cupti-python shows it, which hands over the records that a test has written.

For what can be seen without a GPU: in which order a window asks for what, and what it makes of
refusals. `test_probe_cupti_package` holds the same calls against the package itself.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from tests.helpers.cupti_records import Buffer


class NotSupportedError(Exception):
    """As the package says that there is no driver; it is no error of CUPTI's and has no status."""


class CuptiError(Exception):
    """What CUPTI answers."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ERROR ({status})")
        self.status = status


class Activity:
    """A view of one record."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr
        self.kind = int.from_bytes(ctypes.string_at(ptr, 4), "little", signed=True)


class ScriptedCupti:
    """Stands for the module `cupti.cupti`.

    Attributes:
        calls: What it was asked for, in order.
        refusals: What a call of this name raises.
        enabled: The kinds that are asked for at this moment.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.refusals: dict[str, Exception] = {}
        self.enabled: list[int] = []
        self._take: Callable[[Sequence[Activity]], None] | None = None
        self._full: list[Buffer] = []
        self.room: tuple[int, int] = (0, 0)

    def _called(self, name: str, argument: Any = None) -> None:
        self.calls.append((name, argument))
        if name in self.refusals:
            raise self.refusals[name]

    def activity_register_callbacks(
        self,
        func_buffer_requested: Callable[[], tuple[int, int]],
        func_buffer_completed: Callable[[Sequence[Activity]], None],
    ) -> None:
        """Takes who makes room, and who takes what is done."""
        self._called("activity_register_callbacks")
        self.room = func_buffer_requested()
        self._take = func_buffer_completed

    def activity_enable(self, kind: int) -> None:
        """Records of this kind are wanted."""
        self._called("activity_enable", kind)
        self.enabled.append(kind)

    def activity_disable(self, kind: int) -> None:
        """And no more."""
        self._called("activity_disable", kind)
        self.enabled.remove(kind)

    def activity_flush_all(self, flag: int) -> None:
        """Hands over what is done."""
        self._called("activity_flush_all", flag)
        full, self._full = self._full, []
        for buffer in full:
            self.hand_over(buffer)

    def filled(self, buffer: Buffer) -> None:
        """A buffer is handed over at the next flush."""
        self._full.append(buffer)

    def hand_over(self, buffer: Buffer) -> None:
        """Hands a buffer over at once, whose memory is spoiled afterwards."""
        memory = ctypes.create_string_buffer(buffer.data, len(buffer.data))
        address = ctypes.addressof(memory)
        self.hand_over_these([Activity(address + place) for place in buffer.places])
        ctypes.memset(address, 0xFF, len(buffer.data))

    def hand_over_these(self, activities: Sequence[Any]) -> None:
        """Hands over views of records, wherever they are."""
        assert self._take is not None
        self._take(activities)


@contextmanager
def installed(cupti: ScriptedCupti | None) -> Iterator[None]:
    """Has `import cupti.cupti` find it; None: there is no such package."""
    names = ("cupti", "cupti.cupti")
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(dict.fromkeys(names) if cupti is None else _modules(cupti))  # type: ignore[arg-type]  # None is how Python marks a module that is not to be found
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


def _modules(cupti: ScriptedCupti) -> dict[str, ModuleType]:
    package, module = ModuleType("cupti"), ModuleType("cupti.cupti")
    package.__path__ = []
    for name in dir(cupti):
        if name.startswith("activity_"):
            setattr(module, name, getattr(cupti, name))
    return {"cupti": package, "cupti.cupti": module}
