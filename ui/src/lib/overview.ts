// More cycles than the page can hold: how long they took, as the server sums them up by columns.
import type { Range } from "./axis.ts";
import { list, number, object, text, WireError } from "./json.ts";
import { toX } from "./waterfall.ts";
import type { Cycle } from "./wire.ts";
import { unixMs } from "./wire.ts";

const NS_PER_MS = 1e6;
/** Numbers that follow each other with fewer missing than this make one row of cycles. */
const HOLE = 200;
/** A stretch of which so much is here is not read again: some cycles never came. */
const ENOUGH = 0.5;

/** The cycles that began in a stretch of time; UNIX ms. */
export interface OverviewColumn extends Range {
  readonly cycles: number;
  readonly leastMs: number;
  readonly mostMs: number;
  /** The number of the longest one. */
  readonly slowest: number;
  /** The highest number. */
  readonly last: number;
}

/** What is stored, as far as it was looked at; UNIX ms. */
export interface Overview {
  /** From the start of the oldest cycle that is kept to the end of the newest one. */
  readonly whole: Range;
  /** All cycles from here on were looked at. */
  readonly sinceMs: number;
  /** Those that have cycles, in order. */
  readonly columns: readonly OverviewColumn[];
}

/** Reads it. */
export function decodeOverview(value: unknown): Overview {
  const found = object(value, "overview");
  const begin = unixMs(text(found, "begin"));
  const step = number(found, "step_ns") / NS_PER_MS;
  return {
    whole: { start: unixMs(text(found, "first")), end: unixMs(text(found, "last")) },
    sinceMs: unixMs(text(found, "since")),
    columns: list(found["columns"], "columns").map((each) => columnOf(each, begin, step)),
  };
}

function columnOf(value: unknown, begin: number, step: number): OverviewColumn {
  const cells = list(value, "column");
  if (!(cells.length >= 6 && cells.every((cell) => typeof cell === "number"))) {
    throw new WireError("a column is not [place, cycles, least, most, slowest, last]");
  }
  const [place, cycles, least, most, slowest, last] = cells as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  return {
    start: begin + place * step,
    end: begin + (place + 1) * step,
    cycles,
    leastMs: least / NS_PER_MS,
    mostMs: most / NS_PER_MS,
    slowest,
    last,
  };
}

/**
 * The oldest cycle from which on no page of cycles is missing up to the newest; null without any.
 * Where sampling leaves some out they have the distance of those before or behind them; where
 * there are none yet, `every`.
 */
export function heldFrom(cycles: readonly Cycle[], every: number): Cycle | null {
  const distance = (place: number) => {
    const [one, next] = [cycles[place - 1], cycles[place]];
    return one && next ? next.n - one.n : 0;
  };
  for (let place = cycles.length - 1; place > 0; place -= 1) {
    const usual = Math.max(distance(place - 1), distance(place + 1)) || every;
    if (distance(place) >= HOLE * usual) {
      return cycles[place] ?? null;
    }
  }
  return cycles[0] ?? null;
}

/** A column as a box: px from the left of the plot. */
export interface OverviewBox {
  readonly x: number;
  readonly width: number;
  readonly column: OverviewColumn;
}

/** The columns in view, where they lie. */
export function boxesOf(columns: readonly OverviewColumn[], view: Range, width: number) {
  return columns.flatMap((column): OverviewBox[] => {
    const x = Math.max(0, Math.round(toX(column.start, view, width)));
    const end = Math.min(width, Math.round(toX(column.end, view, width)));
    return end < 0 || x >= width || column.end <= view.start
      ? []
      : [{ x, width: Math.max(1, end - x), column }];
  });
}

/**
 * From which number on downwards cycles in view are to be read, so that they are here: `loaded` are
 * those of the group, oldest first. Null where none is lacking.
 */
export function lacking(
  { columns }: Overview,
  loaded: readonly Cycle[],
  view: Range,
): number | null {
  for (const column of columns.toReversed()) {
    const start = Math.max(column.start, view.start);
    const end = Math.min(column.end, view.end);
    if (start < end) {
      const share = (end - start) / (column.end - column.start);
      const here = loaded.filter(({ t0Ms }) => t0Ms >= start && t0Ms < end).length;
      if (here < column.cycles * share * ENOUGH - 1) {
        // What is here of the column behind the view is the way down to it.
        const behind = loaded.find(({ t0Ms }) => t0Ms >= end && t0Ms < column.end);
        return behind?.n ?? column.last + 1;
      }
    }
  }
  return null;
}

/** The columns in view put together to at most `most`, for a table. */
export function coarse(
  columns: readonly OverviewColumn[],
  view: Range,
  most: number,
): readonly OverviewColumn[] {
  const seen = columns.filter(({ start, end }) => end > view.start && start < view.end);
  const each = Math.max(1, Math.ceil(seen.length / most));
  return Array.from({ length: Math.ceil(seen.length / each) }, (_, place) =>
    seen.slice(place * each, (place + 1) * each).reduce(together),
  );
}

function together(one: OverviewColumn, other: OverviewColumn): OverviewColumn {
  return {
    start: one.start,
    end: other.end,
    cycles: one.cycles + other.cycles,
    leastMs: Math.min(one.leastMs, other.leastMs),
    mostMs: Math.max(one.mostMs, other.mostMs),
    slowest: other.mostMs >= one.mostMs ? other.slowest : one.slowest,
    last: Math.max(one.last, other.last),
  };
}
