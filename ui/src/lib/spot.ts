// A spot in the waterfall: one stretch of one rank of one cycle, and how keys move it.
import { cycleKey } from "./cycle.ts";
import { type Bar, type Stretch, stretches } from "./waterfall.ts";
import type { Cycle, RankCycle } from "./wire.ts";

/** Names a stretch so that it is found again after a redraw. */
export interface Spot {
  readonly key: string;
  readonly rank: string;
  /** Counted in `stretches` of the rank. */
  readonly place: number;
}

/** What a spot stands for. */
export interface Found {
  readonly cycle: Cycle;
  readonly rank: RankCycle;
  readonly stretch: Stretch;
}

/** Steps along cycles (newer is positive), phases and ranks. */
interface Steps {
  readonly cycle?: number;
  readonly phase?: number;
  readonly rank?: number;
}

const KEYS: Readonly<Record<string, Steps>> = {
  ArrowUp: { cycle: 1 },
  ArrowDown: { cycle: -1 },
  ArrowLeft: { phase: -1 },
  ArrowRight: { phase: 1 },
  j: { rank: 1 },
  k: { rank: -1 },
};

/** The spot of a bar. */
export function spotOf(cycle: Cycle, bar: Bar): Spot {
  const rank = cycle.ranks.find((each) => each.rank === bar.rank);
  const place = rank ? stretches(rank).findIndex((each) => isSame(each, bar.stretch)) : 0;
  return { key: cycleKey(cycle), rank: bar.rank, place };
}

/** What a spot stands for among these cycles; null if it is gone. */
export function findSpot(cycles: readonly Cycle[], spot: Spot): Found | null {
  const cycle = cycles.findLast((each) => cycleKey(each) === spot.key);
  const rank = cycle?.ranks.find((each) => each.rank === spot.rank);
  const stretch = rank && stretches(rank)[spot.place];
  return cycle && rank && stretch ? { cycle, rank, stretch } : null;
}

/** The bar that shows a stretch of a rank; null if it is not drawn. */
export function barOf(drawn: readonly Bar[], rank: string, stretch: Stretch): Bar | null {
  return drawn.find((bar) => bar.rank === rank && isSame(bar.stretch, stretch)) ?? null;
}

/**
 * Where a key leads from a spot; from nowhere it leads to the newest cycle.
 *
 * Returns null for a key that does not move.
 */
export function moveSpot(
  key: string,
  from: Spot | null,
  cycles: readonly Cycle[],
  ranks: readonly string[],
): Spot | null {
  const steps = KEYS[key];
  const newest = cycles.at(-1);
  if (!(steps && newest)) {
    return null;
  }
  const row = from ? cycles.findLastIndex((each) => cycleKey(each) === from.key) : -1;
  if (!from || row < 0) {
    return { key: cycleKey(newest), rank: from?.rank ?? ranks[0] ?? "", place: 0 };
  }
  const cycle = cycles[clamp(row + (steps.cycle ?? 0), cycles.length)] ?? newest;
  const at = clamp(ranks.indexOf(from.rank), ranks.length);
  const rank = ranks[clamp(at + (steps.rank ?? 0), ranks.length)] ?? "";
  const reported = cycle.ranks.find((each) => each.rank === rank);
  const count = reported ? stretches(reported).length : 1;
  const place = clamp(from.place + (steps.phase ?? 0), count);
  return { key: cycleKey(cycle), rank, place };
}

function isSame(one: Stretch, other: Stretch): boolean {
  return one.name === other.name && one.start === other.start && one.level === other.level;
}

function clamp(value: number, count: number): number {
  return Math.min(Math.max(0, count - 1), Math.max(0, value));
}
