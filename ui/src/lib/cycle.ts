// Small questions about one cycle that more than one view asks.
import { enumerate, plural, whole } from "./format.ts";
import { type LaneName, phasesOf } from "./lanes.ts";
import { phaseLabel, phaseOrder, topLevel } from "./phases.ts";
import type { Cycle, RankCycle, RequestRow } from "./wire.ts";

const NS_PER_MS = 1e6;

/** What names a cycle within its run. */
export interface CycleId {
  readonly group: string;
  readonly n: number;
}

/** One line of a phase table; times in ms. */
export interface PhaseRow {
  readonly name: string;
  readonly ms: number;
  /** Of the cycle's time on this rank by host clock, from 0 to 1. */
  readonly share: number;
  /** How many stretches of the cycle were summed up. */
  readonly times: number;
  /** The earlier cycle that the phase worked for, null if it was this one. */
  readonly ofCycle: number | null;
}

/** A key that is the same for a cycle and its amendments. */
export function cycleKey(cycle: CycleId): string {
  return `${cycle.group}/${cycle.n}`;
}

/** How long a cycle took on its first rank, in ms. */
export function cycleMs(cycle: Cycle): number {
  const first = cycle.ranks[0];
  return first ? (first.end - first.start) / NS_PER_MS : 0;
}

/** Where the last of a cycle's ranks ended on either lane, in ms from its start. */
export function reachMs(cycle: Cycle): number {
  // The device lane comes last, in order, and may end long after the host has gone on.
  const ends = cycle.ranks.map((rank) => Math.max(rank.end, rank.phases.at(-1)?.end ?? 0));
  return Math.max(0, ...ends) / NS_PER_MS;
}

/** The rows that belong into a reader's picture: all but the server's own health probes. */
export function servedRows(cycle: Cycle): readonly RequestRow[] {
  return (cycle.requests ?? []).filter((row) => !row.health);
}

/** Whether a row belongs into acceptance figures. */
export function countsForAcceptance(row: RequestRow): row is RequestRow & { correct: number } {
  return row.correct !== null && !row.overshoot && !row.health;
}

/** Tokens that the requests of a cycle got, null while the server has not counted them. */
export function cycleTokens(cycle: Cycle): number | null {
  return cycle.requests && servedRows(cycle).reduce((sum, row) => sum + row.tokens, 0);
}

/** What the cycle gave, in words. */
export function gainInWords(cycle: Cycle): string {
  const tokens = cycleTokens(cycle);
  return tokens === null ? "not counted" : plural(tokens, "token");
}

/** The times of the phases of one lane of a rank, parents before their parts. */
export function phaseTable(cycle: Cycle, rank: RankCycle, lane: LaneName = "host"): PhaseRow[] {
  const total = rank.end - rank.start;
  const sums = new Map<string, { ns: number; times: number; ofCycle: number; last: string }>();
  let previous = "";
  for (const phase of phasesOf(rank, lane)) {
    for (const name of new Set([topLevel(phase.name), phase.name])) {
      const sum = sums.get(name) ?? { ns: 0, times: 0, ofCycle: phase.ofCycle, last: "" };
      // Touching parts are one stretch of their parent.
      const continues = name !== phase.name && topLevel(previous) === name;
      sums.set(name, {
        ns: sum.ns + phase.end - phase.start,
        times: sum.times + (continues ? 0 : 1),
        ofCycle: Math.min(sum.ofCycle, phase.ofCycle),
        last: phase.name,
      });
    }
    previous = phase.name;
  }
  return [...sums]
    .sort(([one], [other]) => phaseOrder(one) - phaseOrder(other))
    .map(([name, sum]) => ({
      name,
      ms: sum.ns / NS_PER_MS,
      share: total > 0 ? sum.ns / total : 0,
      times: sum.times,
      ofCycle: sum.ofCycle === cycle.n ? null : sum.ofCycle,
    }));
}

/** "wait and result of cycle 4,710": the phases that worked for an earlier cycle; else null. */
export function foreignInWords(cycle: Cycle): string | null {
  const names = new Map<number, Set<string>>();
  for (const rank of cycle.ranks) {
    for (const phase of rank.phases) {
      if (phase.ofCycle !== cycle.n) {
        const of = names.get(phase.ofCycle) ?? new Set();
        names.set(phase.ofCycle, of.add(phaseLabel(phase.name)));
      }
    }
  }
  const parts = [...names].map(([n, of]) => `${enumerate([...of])} of cycle ${whole(n)}`);
  return parts.length > 0 ? parts.join("; ") : null;
}

/** How late each rank started against the first, in ms, by its name. */
export function lateness(cycle: Cycle): ReadonlyMap<string, number> {
  const first = cycle.ranks[0]?.start ?? 0;
  return new Map(cycle.ranks.map((rank) => [rank.rank, (rank.start - first) / NS_PER_MS]));
}
