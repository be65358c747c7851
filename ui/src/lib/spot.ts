// A spot in the waterfall: one stretch of one rank of one cycle, and how keys move it.
import { cycleKey } from "./cycle.ts";
import { cycleBefore, type Stretch, stretches } from "./lanes.ts";
import type { Bar } from "./waterfall.ts";
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

/** Steps along cycles (newer is positive), phases and ranks, or to the other lane. */
interface Steps {
  readonly cycle?: number;
  readonly phase?: number;
  readonly rank?: number;
  readonly lane?: boolean;
}

const KEYS: Readonly<Record<string, Steps>> = {
  ArrowUp: { cycle: 1 },
  ArrowDown: { cycle: -1 },
  ArrowLeft: { phase: -1 },
  ArrowRight: { phase: 1 },
  j: { rank: 1 },
  k: { rank: -1 },
  l: { lane: true },
};

/** The spot of a bar. */
export function spotOf(cycle: Cycle, bar: Bar): Spot {
  return { key: cycleKey(cycle), rank: bar.rank, place: bar.place };
}

/** What a spot stands for among these cycles, oldest first; null if it is gone. */
export function findSpot(cycles: readonly Cycle[], spot: Spot): Found | null {
  const row = cycles.findLastIndex((each) => cycleKey(each) === spot.key);
  const cycle = cycles[row];
  const rank = cycle?.ranks.find((each) => each.rank === spot.rank);
  const stretch = stretchesAt(cycles, row, spot.rank)[spot.place];
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
  const to = stretchesAt(cycles, cycles.indexOf(cycle), rank);
  const now = stretchesAt(cycles, row, from.rank);
  const kept = steps.phase === undefined ? alike(to, now, from.place, steps.lane ?? false) : null;
  return {
    key: cycleKey(cycle),
    rank,
    place: clamp(kept ?? from.place + (steps.phase ?? 0), to.length),
  };
}

/** What is drawn of a rank in the cycle at `row`; nothing where it has not reported. */
function stretchesAt(cycles: readonly Cycle[], row: number, name: string): readonly Stretch[] {
  const cycle = cycles[row];
  const rank = cycle?.ranks.find((each) => each.rank === name);
  return cycle && rank ? stretches(cycle, rank, cycleBefore(cycles, row)) : [];
}

/**
 * The place among `to` of what stands at `place` among `now`: the same phase of the same lane, or
 * of the other one. Where the other lane lacks it, the first of that lane; else null.
 */
function alike(
  to: readonly Stretch[],
  now: readonly Stretch[],
  place: number,
  across: boolean,
): number | null {
  const from = now[place];
  const same = (one: Stretch, other: Stretch) =>
    one.name === other.name && one.level === other.level;
  const onLane = (stretch: Stretch) => (stretch.lane === from?.lane) !== across;
  if (!from) {
    return null;
  }
  const which = now.slice(0, place).filter((each) => each.lane === from.lane && same(each, from));
  const places = to.flatMap((each, at) => (onLane(each) && same(each, from) ? [at] : []));
  const found = places[Math.min(which.length, places.length - 1)] ?? -1;
  const first = across ? to.findIndex(onLane) : -1;
  return found >= 0 ? found : first >= 0 ? first : null;
}

function isSame(one: Stretch, other: Stretch): boolean {
  return (
    one.name === other.name &&
    one.lane === other.lane &&
    one.start === other.start &&
    one.level === other.level
  );
}

function clamp(value: number, count: number): number {
  return Math.min(Math.max(0, count - 1), Math.max(0, value));
}
