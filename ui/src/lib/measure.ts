// What a stretch of time holds: how often each phase came, and how long it took.
import type { Range } from "./axis.ts";
import { cycleMs } from "./cycle.ts";
import { cycleBefore, type LaneName, type Stretch, stretches } from "./lanes.ts";
import { EARLIER, GAP, phaseOrder, topLevel } from "./phases.ts";
import { ascending, percentile } from "./summary.ts";
import { inView } from "./timeline.ts";
import type { Cycle } from "./wire.ts";

/** Times in ms. */
export interface Figures {
  readonly count: number;
  readonly sum: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

/** The figures of one phase on one lane. */
export interface Measured extends Figures {
  readonly name: string;
  readonly lane: LaneName;
}

/** What lies within a stretch of time, of one rank. */
export interface Measurement {
  /** Null where no cycle lies wholly within it. */
  readonly cycles: Figures | null;
  /** Host before device, phases in the order of a cycle, parents before their parts, gaps last. */
  readonly phases: readonly Measured[];
  /** How many phases an edge of the stretch cuts; they are not counted. */
  readonly cut: number;
}

/** Sums up what lies wholly within `range` (UNIX ms) on a rank. */
export function measure(cycles: readonly Cycle[], rank: string, range: Range): Measurement {
  const parts = inView(cycles, range).flatMap(([cycle, place]) => {
    const part = cycle.ranks.find((each) => each.rank === rank);
    return part ? [{ cycle, part, before: cycleBefore(cycles, place) }] : [];
  });
  const lengths = parts
    .filter(({ cycle }) => within(range, cycle.t0Ms, cycle.t0Ms + cycleMs(cycle)))
    .map(({ cycle }) => cycleMs(cycle));
  const pieces = parts.flatMap(({ cycle, part, before }) =>
    stretches(cycle, part, before)
      .filter(({ name }) => name !== EARLIER)
      .map((stretch) => ({
        ...stretch,
        from: cycle.t0Ms + stretch.start,
        to: cycle.t0Ms + stretch.end,
      })),
  );
  const whole = pieces.filter(({ from, to }) => within(range, from, to));
  const touched = pieces.filter(({ from, to }) => to > range.start && from < range.end);
  return {
    cycles: lengths.length > 0 ? figuresOf(lengths) : null,
    phases: byPhase(whole),
    cut: touched.filter(({ from, to }) => !within(range, from, to)).length,
  };
}

function within(range: Range, from: number, to: number): boolean {
  return from >= range.start && to <= range.end;
}

function byPhase(pieces: readonly Stretch[]): Measured[] {
  const times = new Map<string, { name: string; lane: LaneName; all: number[] }>();
  for (const { name, lane, start, end } of pieces) {
    const key = `${lane} ${name}`;
    const known = times.get(key) ?? { name, lane, all: [] };
    known.all.push(end - start);
    times.set(key, known);
  }
  return [...times.values()]
    .map(({ name, lane, all }) => ({ name, lane, ...figuresOf(all) }))
    .toSorted((one, other) => order(one) - order(other));
}

function figuresOf(values: readonly number[]): Figures {
  const sorted = ascending(values);
  return {
    count: sorted.length,
    sum: sorted.reduce((sum, value) => sum + value, 0),
    p50: percentile(sorted, 50),
    p95: percentile(sorted, 95),
    p99: percentile(sorted, 99),
  };
}

function order({ name, lane }: Measured): number {
  const place = name === GAP ? 99 : phaseOrder(name);
  return (lane === "host" ? 0 : 1000) + place + (topLevel(name) === name ? 0 : 0.5);
}
