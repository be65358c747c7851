// Sums up cycles as the server does, for the time in which the server sends no summary.
import { countsForAcceptance, cycleMs } from "./cycle.ts";
import { deviceKnown, type LaneName, phasesOf } from "./lanes.ts";
import { phaseOrder, topLevel } from "./phases.ts";
import type { Cycle, CycleTimes, Percentiles, PhaseSummary, RequestRow, Summary } from "./wire.ts";

const NS_PER_MS = 1e6;
const NS_PER_US = 1e3;

/**
 * The value below which `percent` of the values lie, interpolated linearly: definition 7 of
 * Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50
 * (1996). `sorted` ascends and has at least one value.
 */
export function percentile(sorted: readonly number[], percent: number): number {
  const place = ((sorted.length - 1) * percent) / 100;
  const below = Math.floor(place);
  const low = sorted[below] ?? Number.NaN;
  const high = sorted[Math.min(below + 1, sorted.length - 1)] ?? Number.NaN;
  return low + (high - low) * (place - below);
}

/** The middle of some values, null without any. */
export function median(values: readonly number[]): number | null {
  return values.length > 0 ? percentile(ascending(values), 50) : null;
}

/** A copy in ascending order. */
export function ascending(values: readonly number[]): number[] {
  return values.toSorted((one, other) => one - other);
}

/** The cycles of the last `windowS` seconds before the newest one ended; oldest first. */
export function newest(cycles: readonly Cycle[], windowS: number): readonly Cycle[] {
  const last = cycles.at(-1);
  if (!last) {
    return [];
  }
  const from = last.t0Ms + cycleMs(last) - windowS * 1000;
  const place = cycles.findLastIndex((cycle) => cycle.t0Ms < from);
  return cycles.slice(place + 1);
}

/** Which share of the cycles that ran is here, by their numbers; null without two of a group. */
export function keptShare(cycles: readonly Cycle[]): number | null {
  const spans = new Map<string, { first: number; last: number; cycles: number }>();
  for (const { group, n } of cycles) {
    const span = spans.get(group) ?? { first: n, last: n, cycles: 0 };
    spans.set(group, {
      first: Math.min(span.first, n),
      last: Math.max(span.last, n),
      cycles: span.cycles + 1,
    });
  }
  const all = [...spans.values()];
  const ran = all.reduce((sum, { first, last }) => sum + last - first, 0);
  return ran > 0 ? all.reduce((sum, span) => sum + span.cycles - 1, 0) / ran : null;
}

/**
 * Sums up `cycles` over `windowS` seconds, null if there are none. The definitions are those
 * of `spectrace.analysis.summary`.
 */
export function summarize(cycles: readonly Cycle[], windowS: number): Summary | null {
  if (cycles.length === 0) {
    return null;
  }
  const rows = cycles.flatMap((cycle) => (cycle.requests ?? []).filter((row) => !row.health));
  const speculative = cycles.filter((cycle) => cycle.kind === "speculative");
  const decode = cycles.filter((cycle) => cycle.kind === "decode");
  const tokens = rows.reduce((sum, row) => sum + row.tokens, 0);
  return {
    window_s: windowS,
    cycles: cycles.length,
    cycles_per_s: cycles.length / windowS,
    tokens_per_s: tokens / windowS,
    speculative: times(speculative),
    decode: times(decode),
    ...acceptance(rows, tokens),
    batch_size_median: median([...speculative, ...decode].map((cycle) => cycle.batch)),
    steps_seen: distinct(speculative.map((cycle) => cycle.steps)),
    draft_tokens_seen: distinct(speculative.map((cycle) => cycle.draftTokens)),
    ...probe(cycles),
  };
}

function acceptance(
  rows: readonly RequestRow[],
  tokens: number,
): Pick<Summary, "verifies" | "accept_length" | "server_accept_length"> {
  const counted = rows.filter(countsForAcceptance);
  const verifies = counted.length;
  const correct = counted.reduce((sum, row) => sum + row.correct, 0);
  return {
    verifies,
    accept_length: verifies > 0 ? (correct + verifies) / verifies : null,
    server_accept_length: verifies > 0 ? tokens / verifies : null,
  };
}

function probe(cycles: readonly Cycle[]): Pick<Summary, "probe_median_us" | "probe_share"> {
  const own = cycles.map((cycle) => cycle.ranks[0]?.probeNs ?? 0);
  const all = cycles.reduce((sum, cycle) => sum + cycleMs(cycle) * NS_PER_MS, 0);
  const middle = median(own);
  return {
    probe_median_us: middle === null ? null : middle / NS_PER_US,
    probe_share: all > 0 ? own.reduce((sum, value) => sum + value, 0) / all : null,
  };
}

function times(cycles: readonly Cycle[]): CycleTimes | null {
  if (cycles.length === 0) {
    return null;
  }
  const complete = cycles.filter((cycle) => cycle.ranks[0]?.incomplete === false);
  const timed = complete.filter(
    ({ ranks: [first] }) => first !== undefined && deviceKnown(first) === "whole",
  );
  return {
    cycles: cycles.length,
    incomplete: cycles.length - complete.length,
    time: complete.length > 0 ? percentiles(complete.map(cycleMs)) : null,
    phases: lane(complete, "host"),
    device_cycles: timed.length,
    device: lane(timed, "device"),
  };
}

/** The phases of a lane over the cycles that have any on it. */
function lane(cycles: readonly Cycle[], name: LaneName): PhaseSummary[] {
  const divided = cycles.filter(({ ranks: [first] }) => first && phasesOf(first, name).length > 0);
  const sums = divided.map((cycle) => phaseSums(cycle, name));
  const total = divided.reduce((sum, cycle) => sum + cycleMs(cycle), 0);
  return [...new Set(sums.flatMap((each) => [...each.keys()]))]
    .sort((one, other) => phaseOrder(one) - phaseOrder(other))
    .map((phase) => phaseSummary(phase, sums, total));
}

/** Time in ms of a phase in one cycle, and by how many cycles its batch was older. */
interface PhaseSum {
  readonly ms: number;
  readonly lag: number;
}

/** By phase, parents among them, on the first rank. */
function phaseSums(cycle: Cycle, name: LaneName): ReadonlyMap<string, PhaseSum> {
  const sums = new Map<string, PhaseSum>();
  const [first] = cycle.ranks;
  for (const phase of first ? phasesOf(first, name) : []) {
    for (const part of new Set([topLevel(phase.name), phase.name])) {
      const sum = sums.get(part) ?? { ms: 0, lag: 0 };
      sums.set(part, {
        ms: sum.ms + (phase.end - phase.start) / NS_PER_MS,
        lag: Math.max(sum.lag, cycle.n - phase.ofCycle),
      });
    }
  }
  return sums;
}

function phaseSummary(
  name: string,
  cycles: readonly ReadonlyMap<string, PhaseSum>[],
  total: number,
): PhaseSummary {
  const found = cycles.map((sums) => sums.get(name)).filter((sum) => sum !== undefined);
  const values = found.map((sum) => sum.ms);
  return {
    name,
    time: percentiles(values),
    share: values.reduce((sum, value) => sum + value, 0) / total,
    cycles: values.length,
    max_lag: Math.max(...found.map((sum) => sum.lag)),
  };
}

function percentiles(values: readonly number[]): Percentiles {
  const sorted = ascending(values);
  return {
    p50_ms: percentile(sorted, 50),
    p95_ms: percentile(sorted, 95),
    p99_ms: percentile(sorted, 99),
  };
}

function distinct(values: readonly number[]): number[] {
  return ascending([...new Set(values)]);
}
