"""Asks for a session's own timing mode again when it comes to control what somebody else held."""

from __future__ import annotations

from collections.abc import Sequence

from spectrace.attach import modes
from spectrace.attach.traced_rank import TracedRank
from spectrace.errors import SpectraceError
from spectrace.model import Run
from spectrace.probe.layout import Mode

_NAMES = {number: mode for mode, number in modes.MODES.items()}


class HeldMode:
    """Which mode a session wants: the one that held when it last controlled, else its wish.

    Whoever controlled the server may have been killed in a block of mode `sync`, and takes
    nothing back. A session that has never controlled and wishes nothing leaves every other mode
    as it is. It does not wait: the speed of the server is measured between two looks.

    Args:
        wish: Mode of `layout.Mode` that was asked for at the start; None where none was.
    """

    def __init__(self, wish: int | None) -> None:
        self._held = wish
        self._because = "as was asked for here" if wish is not None else "which does not slow it"
        self._asking: modes.Asking | None = None
        self._ranks = 0  # of which the speed is measured
        self._at_s = 0.0

    def follow(  # noqa: PLR0913 - each is what one look has found
        self,
        run: Run,
        traced: Sequence[TracedRank],
        asked: int,
        *,
        controls: bool,
        came: bool,
        now_s: float,
    ) -> list[str]:
        """To be called at each look at who controls.

        Args:
            run: The server.
            traced: Its ranks.
            asked: Mode that the first was asked for before it was looked who controls.
            controls: This session does.
            came: It has come to control since the last look, from somebody else.
            now_s: CLOCK_MONOTONIC in s.

        Returns:
            What people are to be told.
        """
        if not controls:
            self._asking = None
            return []
        if came:
            self._come_to_control(traced, asked, now_s)
        if self._asking is None:
            self._held, self._because = asked, "as when this spectrace last controlled it"
            return []
        if len(traced) != self._ranks:  # one that came late is timed as the first meanwhile
            self._begin(traced, now_s)
        if now_s < self._at_s:
            return []
        return self._ask(run, traced[0], asked)

    def _come_to_control(self, traced: Sequence[TracedRank], asked: int, now_s: float) -> None:
        if self._held is None:
            if asked != Mode.SYNC:
                return
            self._held = Mode.DEVICE
        if any(rank.asked_mode != self._held for rank in traced):
            self._begin(traced, now_s)

    def _begin(self, traced: Sequence[TracedRank], now_s: float) -> None:
        self._asking = modes.Asking([(one.rank, one.view) for one in traced])
        self._ranks = len(traced)
        self._at_s = now_s + modes.MEASURED_S

    def _ask(self, run: Run, first: TracedRank, asked: int) -> list[str]:
        asking, self._asking = self._asking, None
        if asking is None or self._held not in _NAMES:
            return []
        mode = _NAMES[self._held]
        try:
            asking.ask(run, mode, lambda: first.controls)
        except SpectraceError:  # somebody has decided meanwhile, and has the say
            return []
        before = _NAMES[asked].value if asked in _NAMES else "another mode"
        sentence = (
            f"The server was left in mode {before} by whoever controlled it: it is asked for "
            f"mode {mode.value} now, {self._because}."
        )
        return [sentence]
