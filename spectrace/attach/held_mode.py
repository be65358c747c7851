"""Asks for a session's own mode and sampling again when it comes to control what another held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spectrace.attach import modes
from spectrace.attach.traced_rank import TracedRank
from spectrace.errors import SpectraceError
from spectrace.model import Run
from spectrace.probe.layout import Mode

_NAMES = {number: mode for mode, number in modes.MODES.items()}


class Asked(NamedTuple):
    """What a rank was last asked for: one of `layout.Mode`, and every how many cycles in full."""

    mode: int | None
    every: int | None

    @classmethod
    def of(cls, rank: TracedRank) -> Asked:
        """What stands in its words."""
        return cls(rank.asked_mode, rank.asked_every)


class HeldMode:
    """Which mode and sampling a session wants: those of when it last controlled, else its wishes.

    Whoever controlled the server may have been killed in a block of mode `sync`, and takes
    nothing back. A session that has never controlled and wishes nothing leaves every other mode
    as it is, and sampling too. It does not wait: the speed of the server is measured between two
    looks.

    Args:
        wish: What was asked for at the start; None for what was not.
    """

    def __init__(self, wish: Asked) -> None:
        self._held = wish
        self._because = "as was asked for here"
        self._of_mode = ""  # the same of the mode alone
        self._asking: modes.Asking | None = None
        self._ranks = 0  # of which the speed is measured
        self._at_s = 0.0

    def follow(  # noqa: PLR0913 - each is what one look has found
        self,
        run: Run,
        traced: Sequence[TracedRank],
        asked: Asked,
        *,
        controls: bool,
        came: bool,
        now_s: float,
    ) -> list[str]:
        """To be called at each look at who controls.

        Args:
            run: The server.
            traced: Its ranks.
            asked: What the first was asked for before it was looked who controls.
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
            self._of_mode = ""
            return []
        if len(traced) != self._ranks:  # one that came late is timed as the first meanwhile
            self._begin(traced, now_s)
        if now_s < self._at_s:
            return []
        if self._asking.must_wait(run):
            self._asking.again()
            self._at_s = now_s + modes.MEASURED_S
            return []
        return self._ask(run, traced, asked)

    def _come_to_control(self, traced: Sequence[TracedRank], asked: Asked, now_s: float) -> None:
        if self._held.mode is None and asked.mode == Mode.SYNC:
            self._held = self._held._replace(mode=Mode.DEVICE)
            self._of_mode = "which does not slow it"
        if any(self._lacking(traced)):
            self._begin(traced, now_s)

    def _lacking(self, traced: Sequence[TracedRank]) -> modes.Wish:
        """What of what is wanted not all ranks were asked for."""
        mode, every = self._held
        found = [Asked.of(rank) for rank in traced]
        return modes.Wish(
            None if mode is None or all(one.mode == mode for one in found) else _NAMES.get(mode),
            None if every is None or all(one.every == every for one in found) else every,
        )

    def _begin(self, traced: Sequence[TracedRank], now_s: float) -> None:
        self._asking = modes.Asking([(one.rank, one.view) for one in traced])
        self._ranks = len(traced)
        self._at_s = now_s + modes.MEASURED_S

    def _ask(self, run: Run, traced: Sequence[TracedRank], asked: Asked) -> list[str]:
        asking, self._asking = self._asking, None
        wish = self._lacking(traced)
        if asking is None or not any(wish):
            return []
        try:
            asking.ask(run, wish, lambda: traced[0].controls)
        except SpectraceError:  # somebody has decided meanwhile, and has the say
            return []
        changes = []
        if wish.mode is not None:
            before = _NAMES[asked.mode].value if asked.mode in _NAMES else "another mode"
            why = self._of_mode or self._because
            changes.append((f"in mode {before}", f"mode {wish.mode.value}", why))
        if wish.every is not None:
            left, wanted = map(modes.every_in_words, (asked.every or 1, wish.every))
            changes.append((f"with {left}", wanted, self._because))
        return [
            f"The server was left {left} by whoever controlled it: it is asked for {wanted} now, "
            f"{why}."
            for left, wanted, why in changes
        ]
