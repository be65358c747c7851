"""A server that decodes while a clock of its own runs, and follows the control word: no process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from spectrace.attach.handle import TakenOut
from spectrace.attach.modes import Switch
from spectrace.attach.session import End, SessionFacts, Stall
from spectrace.cli.follow import Clock
from spectrace.model import (
    Cycle,
    Lane,
    Phase,
    PhaseName,
    RequestRow,
    Run,
    TimingMode,
)
from tests.helpers.anything import any_cycle, any_rank, any_run

MS = 1_000_000
RUN = any_run()
# Draft, verify and the rest by the host's clock, in ms, by mode; on the device 2.18 and 27.40.
HOST_MS = {
    TimingMode.OFF: (0.87, 28.71, 0.32),
    TimingMode.HOST: (0.87, 28.71, 0.32),
    TimingMode.DEVICE: (0.87, 28.71, 0.32),
    TimingMode.SYNC: (2.18, 28.45, 0.32),
}
DEVICE_MS = (2.18, 27.40)
_HOST = (PhaseName.DRAFT, PhaseName.VERIFY_FORWARD, PhaseName.RESULT)


class Ticking(Clock):
    """Time passes in sleeps alone."""

    def __init__(self) -> None:
        self.passed_ns = 0

    def now_ns(self) -> int:
        """The time since the start."""
        return self.passed_ns

    def sleep(self, seconds: float) -> None:
        """Lets the time pass."""
        self.passed_ns += max(1, round(seconds * 1e9))


def cycle_of(  # noqa: PLR0913 - each is what some test varies
    number: int,
    mode: TimingMode,
    *,
    start_ns: int = 0,
    recorded: TimingMode | None = None,
    batch_size: int = 1,
    longer_ms: float = 0.0,
) -> Cycle:
    """A cycle of V1's shape, timed in this mode.

    Args:
        number: Its number.
        mode: The mode that was asked for.
        start_ns: UNIX time in ns.
        recorded: The mode that it was taken in, where that is another one.
        batch_size: Requests in the batch.
        longer_ms: What verify takes more than usual.
    """
    draft, verify, rest = HOST_MS[mode]
    phases, at_ns = [], start_ns
    for name, ms in zip(_HOST, (draft, verify + longer_ms, rest), strict=True):
        phases.append(
            Phase(name=name, start_ns=at_ns, end_ns=at_ns + round(ms * MS), of_cycle=number)
        )
        at_ns = phases[-1].end_ns
    device = []
    if mode is TimingMode.DEVICE and recorded is None:
        on_device_ns = start_ns
        for name, ms in zip(_HOST[:2], DEVICE_MS, strict=True):
            end_ns = on_device_ns + round(ms * MS)
            device.append(
                Phase(
                    name=name, start_ns=on_device_ns, end_ns=end_ns, of_cycle=number,
                    lane=Lane.DEVICE,
                )
            )  # fmt: skip
            on_device_ns = end_ns
    taken = recorded or mode
    rank = any_rank(
        start_ns=start_ns,
        end_ns=at_ns,
        phases=() if mode is TimingMode.OFF else (*phases, *device),
        mode=taken,
        asked_mode=None if taken is mode else mode,
        probe_ns=20_000,
    )
    row = RequestRow(request_id="a", correct_drafts=1, output_tokens=2)
    return any_cycle(number, rank, batch_size=batch_size, requests=(row,) * batch_size)


@dataclass
class TimedServer:
    """What a comparison needs of a traced server.

    Attributes:
        clock: Its time.
        idle_s: For so long no cycle comes at first.
        device: What the server runs on.
        timing: Why its device has no timing events, or none any more.
        asked: The modes that were asked for, in order.
        controls: Whether this spectrace decides.
        end: Why there is nothing more to trace.
        meanwhile: Is shown the number of each cycle.
        looked: Is told of each poll.
    """

    clock: Ticking
    idle_s: float = 0.0
    device: str = "cuda"
    timing: str = ""
    asked: list[TimingMode] = field(default_factory=list)
    controls: bool = True
    end: End | None = None
    meanwhile: Callable[[int], None] = lambda _: None
    looked: Callable[[], None] = lambda: None
    run: Run = RUN
    last_cycles: list[Cycle] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Starts to decode, in mode `device`."""
        self._mode, self._next = TimingMode.DEVICE, (TimingMode.DEVICE, 0)
        self._number, self._at_ns = 0, round(self.idle_s * 1e9)

    def pause(self, seconds: float) -> None:
        """No cycle comes for so long behind the one that is running."""
        self._at_ns += round(seconds * 1e9)

    def poll(self) -> list[Cycle]:
        """The cycles that have ended since."""
        self.looked()
        cycles = []
        while self._at_ns + 32 * MS <= self.clock.now_ns():
            self._number += 1
            if self._number >= self._next[1]:
                self._mode = self._next[0]
            lacks = bool(self.timing) and (
                self._mode is TimingMode.DEVICE
                or (self._mode is TimingMode.SYNC and self.device == "cpu")
            )
            cycles.append(
                cycle_of(
                    self._number,
                    self._mode,
                    start_ns=self._at_ns,
                    recorded=TimingMode.HOST if lacks else None,
                    longer_ms=self._number % 7 * 0.01,  # no two blocks are quite the same
                )
            )
            self._at_ns += cycles[-1].ranks[0].duration_ns
            self.meanwhile(self._number)
        return cycles

    def switch(self, mode: TimingMode, sleep: Callable[[float], None]) -> list[Switch]:
        """As `modes.switch`: the new mode begins 50 cycles ahead."""
        sleep(0.25)
        self.asked.append(mode)
        self._next = (mode, self._number + 50)
        return [Switch(("TP0",), self._next[1], self._number, 33.0)]

    def news(self) -> list[str]:
        """Nothing changes by itself."""
        return []

    def facts(self) -> SessionFacts:
        """What matters of it."""
        return SessionFacts(
            engine="sglang 0.5.23",
            algorithm="EAGLE3",
            worker="EAGLEWorker",
            device=self.device,
            overlap=False,
            unhooked=(),
            ranks=(),
            lost_records=0,
            missing_cycles=0,
            errors=(),
            timing=self.timing,
            controls=self.controls,
            controller_pid=None if self.controls else 4711,
        )

    def stall(self) -> list[Stall]:
        """None."""
        return []

    def detach(self) -> list[TakenOut]:
        """Nothing is there to be taken out."""
        return []
