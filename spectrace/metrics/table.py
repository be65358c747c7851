"""The one table of the metrics: names, units, attributes and bounds; docs/metrics.md shows it.

Names are those of OpenTelemetry, within `spectrace.`, units those of UCUM. Prometheus knows them
by the names that OpenTelemetry's rules derive ("Prometheus and OpenMetrics Compatibility").
Attributes are few words that stand alone (`rank`, `lane`), so that the same query works on what
Prometheus scraped and on what came to it over OTLP.
"""

from __future__ import annotations

from enum import Enum

import msgspec

NS_PER_S = 1_000_000_000
MOST_POSITIONS = 64
"""With a series of their own; drafts further behind count with the last of them."""


class Form(str, Enum):
    """What a series holds: a sum that only grows, the present value, or a distribution."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


# Compared by identity: hashing seven fields would cost more than counting.
class Instrument(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One metric.

    Attributes:
        name: Of OpenTelemetry, such as `spectrace.cycle.duration`.
        form: What its series hold.
        unit: Of UCUM, `s` or a word in braces. Times are counted in whole ns and given in s.
        about: What is counted, a sentence.
        attributes: Names of the attributes of a series, in the order of their values.
        bounds: Upper bounds of the buckets of a histogram, themselves within, ascending, in
            ns where the unit is `s`.
    """

    name: str
    form: Form
    unit: str
    about: str
    attributes: tuple[str, ...] = ()
    bounds: tuple[int, ...] = ()

    @property
    def scale(self) -> int:
        """How many of what is counted make one of the unit."""
        return NS_PER_S if self.unit == "s" else 1

    @property
    def prometheus_unit(self) -> str:
        """The unit as a word of Prometheus, empty for what is merely counted."""
        return "seconds" if self.unit == "s" else ""

    @property
    def family(self) -> str:
        """The name of the family in Prometheus, without the `_total` of a counter."""
        unit = self.prometheus_unit
        return self.name.replace(".", "_") + (f"_{unit}" if unit else "")

    @property
    def samples(self) -> tuple[str, ...]:
        """The names of its samples in Prometheus."""
        endings = {
            Form.COUNTER: ("_total",),
            Form.GAUGE: ("",),
            Form.HISTOGRAM: ("_bucket", "_count", "_sum"),
        }
        return tuple(self.family + ending for ending in endings[self.form])


def _us(*bounds: int) -> tuple[int, ...]:
    return tuple(bound * 1_000 for bound in bounds)


# From 0.05 ms to 1 s, no two further apart than a factor of 2.5, and closest where cycles are.
DURATION_BOUNDS = (
    *_us(50, 100, 200, 300, 500, 750),
    *_us(1_000, 1_500, 2_000, 3_000, 4_000, 5_000, 7_500),
    *_us(10_000, 15_000, 20_000, 30_000, 40_000, 50_000, 75_000),
    *_us(100_000, 200_000, 500_000, 1_000_000),
)
PROBE_BOUNDS = _us(5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500, 1_000, 10_000)
BATCH_BOUNDS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
LENGTH_BOUNDS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32)

CYCLE_DURATION = Instrument(
    name="spectrace.cycle.duration",
    form=Form.HISTOGRAM,
    unit="s",
    about="Time of a cycle: on the host from its run_batch to the next one, on the device from "
    "the first start to the last end of its phases. Incomplete ones are left out.",
    attributes=("group", "rank", "lane", "kind", "mode"),
    bounds=DURATION_BOUNDS,
)
PHASE_DURATION = Instrument(
    name="spectrace.phase.duration",
    form=Form.HISTOGRAM,
    unit="s",
    about="Time of one phase in one cycle, once for each cycle in which it occurs. Phases do "
    "not overlap: those of the host add up to the cycle.",
    attributes=("group", "rank", "lane", "kind", "mode", "phase"),
    bounds=DURATION_BOUNDS,
)
CYCLES = Instrument(
    name="spectrace.cycles",
    form=Form.COUNTER,
    unit="{cycle}",
    about="Cycles, also incomplete ones.",
    attributes=("group", "kind"),
)
BATCH_SIZE = Instrument(
    name="spectrace.batch.size",
    form=Form.HISTOGRAM,
    unit="{request}",
    about="Requests in the batch of a cycle.",
    attributes=("group", "kind"),
    bounds=BATCH_BOUNDS,
)
OUTPUT_TOKENS = Instrument(
    name="spectrace.output.tokens",
    form=Form.COUNTER,
    unit="{token}",
    about="Tokens that requests got, health checks left out.",
    attributes=("group", "kind"),
)
ACCEPT_LENGTH = Instrument(
    name="spectrace.accept.length",
    form=Form.HISTOGRAM,
    unit="{token}",
    about="Drafts found correct plus the bonus token, once for each request that a cycle "
    "verified, without overshoot and health checks.",
    attributes=("group",),
    bounds=LENGTH_BOUNDS,
)
DRAFTS_VERIFIED = Instrument(
    name="spectrace.drafts.verified",
    form=Form.COUNTER,
    unit="{draft}",
    about="How often a draft at this position was verified; the first is 1.",
    attributes=("group", "position"),
)
DRAFTS_ACCEPTED = Instrument(
    name="spectrace.drafts.accepted",
    form=Form.COUNTER,
    unit="{draft}",
    about="How often it was found correct.",
    attributes=("group", "position"),
)
OVERSHOOT = Instrument(
    name="spectrace.overshoot.rows",
    form=Form.COUNTER,
    unit="{row}",
    about="Requests in a batch that had ended before their result was processed.",
    attributes=("group",),
)
PROBE_DURATION = Instrument(
    name="spectrace.probe.duration",
    form=Form.HISTOGRAM,
    unit="s",
    about="The tracer's own time in a cycle, of the cycles whose duration on the host counts.",
    attributes=("group", "rank"),
    bounds=PROBE_BOUNDS,
)
ATTACH_STALL = Instrument(
    name="spectrace.attach.stall",
    form=Form.GAUGE,
    unit="s",
    about="For how long attaching held up a rank, by part: stop, loading, installing.",
    attributes=("rank", "part"),
)
RANK_TRACING = Instrument(
    name="spectrace.rank.tracing",
    form=Form.GAUGE,
    unit="{rank}",
    about="1 while the rank lives and reports its cycles, else 0.",
    attributes=("rank",),
)
INCOMPLETE = Instrument(
    name="spectrace.cycle.incomplete",
    form=Form.COUNTER,
    unit="{cycle}",
    about="Cycles of a rank in which boundaries of this lane are missing: no time of theirs "
    "counts.",
    attributes=("group", "rank", "lane"),
)
LOST_RECORDS = Instrument(
    name="spectrace.lost.records",
    form=Form.COUNTER,
    unit="{record}",
    about="Records of a rank that were overwritten before they were read.",
    attributes=("rank",),
)
MISSING_CYCLES = Instrument(
    name="spectrace.missing.cycles",
    form=Form.COUNTER,
    unit="{cycle}",
    about="Cycles that not every rank reported.",
)
EXPORT_LOST = Instrument(
    name="spectrace.export.lost",
    form=Form.COUNTER,
    unit="{cycle}",
    about="Cycles that could not be delivered as traces.",
)
LATE = Instrument(
    name="spectrace.late.reports",
    form=Form.COUNTER,
    unit="{report}",
    about="News of a cycle that came after it was counted, and therefore do not count.",
)
SKIPPED_CYCLES = Instrument(
    name="spectrace.skipped.cycles",
    form=Form.COUNTER,
    unit="{cycle}",
    about="Cycles that sampling left out; they are in none of the metrics above.",
)
SKIPPED_TIME = Instrument(
    name="spectrace.skipped.time",
    form=Form.COUNTER,
    unit="s",
    about="Their time on the first rank.",
)
SKIPPED_VERIFIES = Instrument(
    name="spectrace.skipped.verifies",
    form=Form.COUNTER,
    unit="{row}",
    about="Requests that they verified, each in each cycle.",
)
SKIPPED_ACCEPTED = Instrument(
    name="spectrace.skipped.accepted",
    form=Form.COUNTER,
    unit="{draft}",
    about="Drafts that they found correct.",
)
SKIPPED_TOKENS = Instrument(
    name="spectrace.skipped.output.tokens",
    form=Form.COUNTER,
    unit="{token}",
    about="Tokens that requests got from them.",
)

TABLE = (
    CYCLE_DURATION,
    PHASE_DURATION,
    CYCLES,
    BATCH_SIZE,
    OUTPUT_TOKENS,
    ACCEPT_LENGTH,
    DRAFTS_VERIFIED,
    DRAFTS_ACCEPTED,
    OVERSHOOT,
    PROBE_DURATION,
    ATTACH_STALL,
    RANK_TRACING,
    INCOMPLETE,
    LOST_RECORDS,
    MISSING_CYCLES,
    EXPORT_LOST,
    LATE,
    SKIPPED_CYCLES,
    SKIPPED_TIME,
    SKIPPED_VERIFIES,
    SKIPPED_ACCEPTED,
    SKIPPED_TOKENS,
)
