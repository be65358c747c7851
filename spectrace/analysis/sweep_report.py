"""What a sweep over settings found: throughput of each, and whether one is clearly the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from spectrace.analysis.estimates import product
from spectrace.analysis.intervals import Estimate, Values, quantile, ratio
from spectrace.analysis.throughput import (
    Stretch,
    Unit,
    clear_best,
    stretch,
    throughput,
)

CONFIDENCE = 0.95
_DECODING = ("speculative", "decode")
_NS_PER_MS = 1e6
Columns = Mapping[str, npt.NDArray[Any]]


class Measured(NamedTuple):
    """One start of a server.

    Attributes:
        cycles: Columns as `store.extract.Extract.served` gives them.
        begin_ns: UNIX time in ns from which on the load counts.
        end_ns: Until when.
        sent_tokens_per_s: What who sent the load measured; None where that is not known.
    """

    cycles: Columns
    begin_ns: int
    end_ns: int
    sent_tokens_per_s: float | None


class SettingFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one setting came to.

    Attributes:
        name: Of the setting.
        arguments: What it changes in the command; secrets are hidden.
        starts: How many starts of the server were measured.
        tokens_per_s: Output tokens per second while the load counted; None where no start of it
            was measured.
        unit: What its interval takes for independent.
        against_plain: How many times the throughput of plain decode that is; None without.
        sent_tokens_per_s: The same as the load itself measured it; None where it does not.
        accept_length: (Correct drafts + verifies) / verifies; None where nothing was verified.
        cycle_p50_ms: Median of the decode cycles on the host.
        tokens_per_cycle: Tokens of a decode cycle, of all its requests.
        batch_size: Mean number of requests in a decode cycle.
        busy_share: Part of the time in which the server had a cycle under way: where it is
            small, the load sets the throughput and not the server.
        probe_share: Part of the time that the probe itself took.
        cycles: Decode cycles that counted.
        failure: Why it was not measured, a sentence; empty where it was.
        last_lines: What its server said last, where it failed.
    """

    name: str
    arguments: tuple[str, ...]
    starts: int = 0
    tokens_per_s: Estimate | None = None
    unit: Unit = Unit.TIME
    against_plain: Estimate | None = None
    sent_tokens_per_s: float | None = None
    accept_length: Estimate | None = None
    cycle_p50_ms: Estimate | None = None
    tokens_per_cycle: float | None = None
    batch_size: float | None = None
    busy_share: float | None = None
    probe_share: float | None = None
    cycles: int = 0
    failure: str = ""
    last_lines: tuple[str, ...] = ()


class SweepReport(msgspec.Struct, frozen=True, kw_only=True):
    """All settings, the fastest first, those that failed last.

    Attributes:
        settings: What each came to.
        best: The name of the one whose interval lies above all others; None where none does.
        fastest: The name of the one with the highest value, however sure that is.
        confidence: Of each interval.
        left: Turns that were not measured yet.
        sentences: The same in words.
        restart: The command that starts the server with the best setting, empty without one.
    """

    settings: tuple[SettingFigures, ...]
    best: str | None
    fastest: str | None
    confidence: float = CONFIDENCE
    left: int = 0
    sentences: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


def figures(name: str, arguments: tuple[str, ...], starts: Sequence[Measured]) -> SettingFigures:
    """What the starts of one setting come to.

    Args:
        name: Of the setting.
        arguments: What it changes.
        starts: Those that were measured.
    """
    pieces = [(start, piece) for start in starts if (piece := _stretch(start)) is not None]
    if not pieces:
        return SettingFigures(
            name=name, arguments=arguments, failure="No cycle came while the load counted."
        )
    tokens_per_s, unit = throughput([piece for _, piece in pieces], CONFIDENCE)
    sent = [start.sent_tokens_per_s for start, _ in pieces]
    known = [value for value in sent if value is not None]
    decoding = _Decoding([start for start, _ in pieces], [piece for _, piece in pieces])
    return SettingFigures(
        name=name,
        arguments=arguments,
        starts=len(pieces),
        tokens_per_s=tokens_per_s,
        unit=unit,
        sent_tokens_per_s=float(np.mean(known)) if len(known) == len(sent) else None,
        accept_length=decoding.accept_length(),
        cycle_p50_ms=decoding.cycle_p50_ms(),
        tokens_per_cycle=decoding.mean("tokens"),
        batch_size=decoding.mean("batch_size"),
        busy_share=float(np.mean([_busy(start) for start, _ in pieces])),
        probe_share=float(np.mean([_probe(start) for start, _ in pieces])),
        cycles=decoding.count,
    )


def report(found: Sequence[SettingFigures], plain: str | None = None, left: int = 0) -> SweepReport:
    """Puts the settings in order and says whether one is clearly the best.

    Args:
        found: All of them, also those that failed.
        plain: The name of plain decode among them.
        left: Turns that were not measured yet.
    """
    measured = {one.name: one.tokens_per_s for one in found if one.tokens_per_s is not None}
    base = measured.get(plain or "")
    ordered = sorted(
        (msgspec.structs.replace(one, against_plain=_against(one, base, plain)) for one in found),
        key=lambda one: -one.tokens_per_s.value if one.tokens_per_s else np.inf,
    )
    return SweepReport(
        settings=tuple(ordered),
        best=clear_best(measured),
        fastest=ordered[0].name if measured else None,
        left=left,
    )


def _against(one: SettingFigures, base: Estimate | None, plain: str | None) -> Estimate | None:
    if base is None or one.tokens_per_s is None or one.name == plain:
        return None
    if base.value <= 0 or one.tokens_per_s.value <= 0:
        return None
    return product([one.tokens_per_s], [base])


def _stretch(start: Measured) -> Stretch | None:
    return stretch(start.cycles["end_ns"], start.cycles["tokens"], start.begin_ns, start.end_ns)


def _counted(start: Measured) -> npt.NDArray[np.bool_]:
    ends = start.cycles["end_ns"]
    return np.asarray((ends >= start.begin_ns) & (ends < start.end_ns))


def _busy(start: Measured) -> float:
    """Part of the time in which a cycle was under way, of all groups of ranks together."""
    here = _counted(start)
    groups = len(np.unique(start.cycles["group_name"][here].astype(str)))
    taken_ns = float((start.cycles["end_ns"] - start.cycles["start_ns"])[here].sum())
    return min(1.0, taken_ns / groups / (start.end_ns - start.begin_ns))


def _probe(start: Measured) -> float:
    here = _counted(start)
    groups = len(np.unique(start.cycles["group_name"][here].astype(str)))
    return float(start.cycles["probe_ns"][here].sum()) / groups / (start.end_ns - start.begin_ns)


class _Decoding:
    """The decode cycles of all starts while the load counted, each with its block of time."""

    def __init__(self, starts: Sequence[Measured], pieces: Sequence[Stretch]) -> None:
        columns: dict[str, list[Values]] = {name: [] for name in (*_SUMMED, "ms", "block")}
        first = 0
        for start, piece in zip(starts, pieces, strict=True):
            cycles = start.cycles
            here = _counted(start) & np.isin(cycles["kind"].astype(str), _DECODING)
            here &= ~(cycles["ended_idle"].astype(bool) | cycles["incomplete"].astype(bool))
            since_s = (cycles["end_ns"][here] - start.begin_ns) / 1e9
            columns["block"].append(
                first + np.minimum(since_s // piece.block_s, len(piece.tokens) - 1)
            )
            columns["ms"].append((cycles["end_ns"] - cycles["start_ns"])[here] / _NS_PER_MS)
            for name in _SUMMED:
                columns[name].append(cycles[name][here].astype(np.float64))
            first += len(piece.tokens)
        self._columns = {name: np.concatenate(parts) for name, parts in columns.items()}
        self._blocks = self._columns["block"].astype(np.intp)
        self.count = len(self._blocks)

    def mean(self, name: str) -> float | None:
        return float(self._columns[name].mean()) if self.count else None

    def accept_length(self) -> Estimate | None:
        verifies = self._by_block("verifies")
        if not verifies.sum():
            return None
        return ratio(self._by_block("correct_drafts") + verifies, verifies, CONFIDENCE)

    def cycle_p50_ms(self) -> Estimate | None:
        if not self.count:
            return None
        return quantile(self._columns["ms"], np.ones(self.count), self._blocks, 0.5, CONFIDENCE)

    def _by_block(self, name: str) -> Values:
        _, places = np.unique(self._blocks, return_inverse=True)
        return np.bincount(places, weights=self._columns[name]).astype(np.float64)


_SUMMED = ("tokens", "verifies", "correct_drafts", "batch_size")
