// The picture on one axis of time: which stretch it shows, and what of it lies where.
import type { Range } from "./axis.ts";
import { type CycleId, cycleMs, reachMs } from "./cycle.ts";
import { cycleBefore, type LaneName, phasesOf } from "./lanes.ts";
import { EARLIER, phaseOrder, topLevel } from "./phases.ts";
import { median } from "./summary.ts";
import {
  type Bar,
  bars,
  bottomOf,
  endOf,
  kernelsBelow,
  type Lane,
  laneAt,
  type RankShape,
  type RowParts,
  toX,
  type Window,
} from "./waterfall.ts";
import type { Cycle, RankCycle } from "./wire.ts";

const NS_PER_MS = 1e6;

const PAD = 6;
/** Between the two lanes of an opened rank, and of a collapsed one. */
const APART: Readonly<Record<"open" | "collapsed", number>> = { open: 6, collapsed: 2 };
const TALLEST = 48;
/** By how much an opened rank may be taller than it must be. */
const MOST_SCALE = 2;
/** Above a rank whose name has no gutter to stand in. */
const NAME = 16;

/** How many cycles are seen at once unless the reader zoomed. */
const CYCLES = 3.6;
const CYCLES_NARROW = 1.8;
const NARROW = 560;
/** What is kept free after the newest cycle, of the whole. */
const AHEAD = 0.06;
const SHORTEST_MS = 0.01;
const LONGEST_MS = 30 * 24 * 3600 * 1000;
/** From so many px a cycle on, its phases are drawn one after the other; else as a column. */
const BARS_FROM = 40;
/** Cycles nearer to each other than this share a column. */
export const COLUMN = 3;
/** A point this near to a column, in px, still means it. */
const REACH = 2;

/** A time by a cycle near it: it means the same tomorrow, and leads to what is stored there. */
export interface Anchor extends CycleId {
  /** From the cycle's start, in ms. */
  readonly offsetMs: number;
}

/** A stretch of time by a cycle near its start. */
export interface Anchored extends Anchor {
  readonly lengthMs: number;
}

/** Where the lanes of all ranks lie, from the top of the first one. */
export interface TimeShape {
  readonly height: number;
  readonly ranks: readonly RankShape[];
  /** Where each rank begins and ends. */
  readonly rows: readonly Range[];
}

/** A bar, and the cycle that it is a part of. */
export interface TimeBar extends Bar {
  readonly cycle: Cycle;
}

/** A part of a column: a phase at the top level and its share of the column, from 0 to 1. */
export interface Share {
  readonly name: string;
  readonly share: number;
}

/** Where a column lies, in px from the left of the plot. */
interface Placed {
  readonly x: number;
  readonly width: number;
}

/** Cycles that are too narrow for bars, in px and shares of their time. */
export interface Column extends Placed {
  /** The slowest of its cycles. */
  readonly cycle: Cycle;
  readonly cycles: number;
  /** Their shortest and longest time, in ms. */
  readonly time: Range;
  readonly shares: readonly Share[];
}

/**
 * The measures of all ranks: the opened one in full, the others as high as `room` lets them be.
 * A rank is `named` by the gutter, else in a line of its own.
 */
export function timeShape(
  ranks: number,
  open: number,
  has: RowParts,
  { room, named }: { readonly room: number; readonly named: boolean },
): TimeShape {
  const name = named ? 0 : NAME;
  const heightOf = (opened: boolean, by: number) =>
    bottomOf(lanesAt(0, opened, has, by)) + name + 2 * (opened ? PAD : 0);
  const others = Math.max(0, ranks - 1);
  const normal = heightOf(true, 1);
  // Where even the tallest ranks leave room the opened one takes it, up to a point.
  const left = room - others * (TALLEST + name) - name - 2 * PAD;
  const scale = Math.max(1, Math.min(MOST_SCALE, left / (normal - name - 2 * PAD)));
  const least = heightOf(false, 1) + 3;
  const spare = (room - heightOf(true, scale)) / Math.max(1, others);
  const collapsed = Math.floor(Math.min(TALLEST + name, Math.max(least, spare)));
  const shapes: RankShape[] = [];
  const rows: Range[] = [];
  let y = 0;
  for (let place = 0; place < Math.max(1, ranks); place += 1) {
    const opened = place === open;
    const height = opened ? heightOf(true, scale) : collapsed;
    const pad = opened ? PAD : Math.floor((collapsed - heightOf(false, 1)) / 2);
    shapes.push(lanesAt(y + name + pad, opened, has, opened ? scale : 1));
    rows.push({ start: y, end: y + height });
    y += height;
  }
  return { height: y, ranks: shapes, rows };
}

function lanesAt(y: number, opened: boolean, has: RowParts, scale: number): RankShape {
  const host = scaled(laneAt(y, "host", opened, has.parts), scale);
  const below = endOf(host) + APART[opened ? "open" : "collapsed"];
  const device = has.device ? scaled(laneAt(below, "device", opened, has.parts), scale) : null;
  const kernels = opened && device && has.kernels ? kernelsBelow(device, scale) : null;
  return { host, device, kernels };
}

function scaled({ y, height, partsHeight }: Lane, scale: number): Lane {
  const tall = Math.round(height * scale);
  return { y, height: tall, partsY: y + tall, partsHeight: Math.round(partsHeight * scale) };
}

/** Cycles of which something lies within a stretch of UNIX time (ms), with their places. */
export function inView(
  cycles: readonly Cycle[],
  view: Range,
): readonly (readonly [cycle: Cycle, place: number])[] {
  const found: (readonly [Cycle, number])[] = [];
  // Every frame of a zoom asks this of all cycles.
  for (let place = 0; place < cycles.length; place += 1) {
    const cycle = cycles[place];
    if (cycle && cycle.t0Ms < view.end && cycle.t0Ms + keptReach(cycle) > view.start) {
      found.push([cycle, place]);
    }
  }
  return found;
}

const reaches = new WeakMap<Cycle, number>();

function keptReach(cycle: Cycle): number {
  const kept = reaches.get(cycle);
  if (kept !== undefined) {
    return kept;
  }
  const reach = reachMs(cycle);
  reaches.set(cycle, reach);
  return reach;
}

/** The usual time of the cycles, in ms; null without any. */
export function usualMs(cycles: readonly Cycle[]): number | null {
  return median(decodingOf(cycles).map(cycleMs));
}

/**
 * From one start to the next, in ms, where cycles do not follow each other at once; null without
 * any. A server that idles most of the time is not shown as empty time with a cycle now and then.
 */
export function usualPace(cycles: readonly Cycle[]): number | null {
  const ends = new Map<string, number>();
  const paces = decodingOf(cycles).map((cycle) => {
    const before = ends.get(cycle.group) ?? cycle.t0Ms;
    ends.set(cycle.group, cycle.t0Ms + cycleMs(cycle));
    return cycleMs(cycle) + Math.min(3 * cycleMs(cycle), Math.max(0, cycle.t0Ms - before));
  });
  return median(paces);
}

function decodingOf(cycles: readonly Cycle[]): readonly Cycle[] {
  const decoding = cycles.filter(({ kind }) => kind !== "extend" && kind !== "idle");
  return decoding.length > 0 ? decoding : cycles;
}

/** How much time is seen unless the reader zoomed, in ms; `now` stays while it suits. */
export function usualSpan(pace: number | null, now: number | null, width: number): number {
  if (pace === null || pace <= 0) {
    return now ?? 100;
  }
  const need = pace * (width < NARROW ? CYCLES_NARROW : CYCLES);
  return now !== null && now > need * 0.75 && now < need * 1.4 ? now : need;
}

/** The newest `span` ms up to the end of the newest cycle, and a little beyond it. */
export function newestView(cycles: readonly Cycle[], span: number, nowMs: number): Range {
  const last = cycles.at(-1);
  const end = (last ? last.t0Ms + cycleMs(last) : nowMs) + span * AHEAD;
  return { start: end - span, end };
}

/** From the first cycle to the last one; null without any. */
export function wholeView(cycles: readonly Cycle[]): Range | null {
  const [first, last] = [cycles[0], cycles.at(-1)];
  if (!(first && last)) {
    return null;
  }
  const room = Math.max(1, (last.t0Ms + cycleMs(last) - first.t0Ms) * 0.01);
  return { start: first.t0Ms - room, end: last.t0Ms + cycleMs(last) + room };
}

/** A stretch with a little room at each side. */
export function around({ start, end }: Range, share = 0.04): Range {
  const room = Math.max(SHORTEST_MS, end - start) * share;
  return { start: start - room, end: end + room };
}

/** Zooms so that the time at `share` (0 to 1) of the view stays where it is. */
export function zoomTime(view: Range, factor: number, share: number): Range {
  const now = view.end - view.start;
  const length = Math.min(LONGEST_MS, Math.max(SHORTEST_MS, now * factor));
  const start = view.start + (now - length) * share;
  return { start, end: start + length };
}

/** Moves by a share of what is in view; some of the cycles always stays in it. */
export function panTime(view: Range, share: number, whole: Range | null): Range {
  const length = view.end - view.start;
  const wanted = view.start + length * share;
  const start = whole
    ? Math.min(whole.end - length * 0.1, Math.max(whole.start - length * 0.9, wanted))
    : wanted;
  return { start, end: start + length };
}

/** Names a stretch of UNIX time (ms) by the last cycle that began before it; null without any. */
export function anchored(cycles: readonly Cycle[], { start, end }: Range): Anchored | null {
  const cycle = cycles.findLast((each) => each.t0Ms <= start) ?? cycles[0];
  return cycle
    ? { group: cycle.group, n: cycle.n, offsetMs: start - cycle.t0Ms, lengthMs: end - start }
    : null;
}

/** The UNIX time (ms) of an anchor; null while its cycle is not among these. */
export function timeOf(cycles: readonly Cycle[], anchor: Anchor): number | null {
  const cycle = cycles.findLast(({ group, n }) => n === anchor.n && group === anchor.group);
  return cycle ? cycle.t0Ms + anchor.offsetMs : null;
}

/** The stretch that was named; null while its cycle is not among these. */
export function rangeOf(cycles: readonly Cycle[], stretch: Anchored | null): Range | null {
  const start = stretch && timeOf(cycles, stretch);
  return stretch && start !== null ? { start, end: start + stretch.lengthMs } : null;
}

/** Whether a cycle of the usual length is wide enough for bars. */
export function drawsBars(usual: number | null, view: Range, width: number): boolean {
  return usual === null || (usual / (view.end - view.start)) * width >= BARS_FROM;
}

/** The bars of all cycles in view, x from the left of the plot, y from the top of the first rank. */
export function timeBars(
  cycles: readonly Cycle[],
  ranks: readonly string[],
  shape: TimeShape,
  { range: view, width }: Window,
): TimeBar[] {
  const rows = { height: shape.height, headerHeight: 0, ranks: shape.ranks };
  return inView(cycles, view).flatMap(([cycle, place]) => {
    const range = { start: view.start - cycle.t0Ms, end: view.end - cycle.t0Ms };
    const found = bars({ cycle, before: cycleBefore(cycles, place) }, ranks, rows, {
      range,
      width,
    });
    // What the device still did for the cycle before is drawn with the cycle before.
    return found.flatMap((bar) => (bar.stretch.name === EARLIER ? [] : [{ ...bar, cycle }]));
  });
}

/** The columns of one lane of one rank; the cycles are those of `inView`. */
export function columnsOf(
  cycles: readonly Cycle[],
  rank: string,
  lane: LaneName,
  { range: view, width }: Window,
): Column[] {
  const found: Gathered[] = [];
  for (const cycle of cycles) {
    const part = cycle.ranks.find((each) => each.rank === rank);
    if (part) {
      const x = toX(cycle.t0Ms + part.start / NS_PER_MS, view, width);
      const end = toX(cycle.t0Ms + part.end / NS_PER_MS, view, width);
      const last = found.at(-1);
      if (last && x < last.x + COLUMN) {
        last.end = Math.max(last.end, end);
        last.members.push([cycle, part]);
      } else {
        found.push({ x, end, members: [[cycle, part]] });
      }
    }
  }
  return found.flatMap((each) => columnOf(each, lane, width));
}

/** The column at `x`, or the nearest one if it is near enough to be meant; null if none is. */
export function nearestColumn<C extends Placed>(columns: readonly C[], x: number): C | null {
  const away = (each: C) => Math.max(each.x - x, x - each.x - each.width, 0);
  const near = columns.filter((each) => away(each) <= REACH);
  // Where one ends the next one begins: that one is meant.
  return near.toReversed().toSorted((one, other) => away(one) - away(other))[0] ?? null;
}

interface Gathered {
  readonly x: number;
  end: number;
  readonly members: (readonly [Cycle, RankCycle])[];
}

function columnOf({ x, end, members }: Gathered, lane: LaneName, width: number): Column[] {
  const left = Math.max(0, Math.round(x));
  const right = Math.min(width, Math.max(left + 1, Math.round(end)));
  const times = members.map(([, part]) => (part.end - part.start) / NS_PER_MS);
  const longest = Math.max(...times);
  const slowest = members[times.indexOf(longest)];
  if (right <= left || !slowest) {
    return [];
  }
  return [
    {
      x: left,
      width: Math.max(1, right - left - (right - left > COLUMN ? 1 : 0)),
      cycle: slowest[0],
      cycles: members.length,
      time: { start: Math.min(...times), end: longest },
      shares: sharesOf(members, lane),
    },
  ];
}

function sharesOf(members: Gathered["members"], lane: LaneName): Share[] {
  const sums = new Map<string, number>();
  let total = 0;
  for (const [, part] of members) {
    let worked = 0;
    for (const [name, length] of sumsOf(part, lane)) {
      sums.set(name, (sums.get(name) ?? 0) + length);
      worked += length;
    }
    // A device that is behind its host may work longer for a cycle than the cycle lasts.
    total += Math.max(worked, part.end - part.start);
  }
  return [...sums]
    .toSorted(([one], [other]) => phaseOrder(one) - phaseOrder(other))
    .map(([name, length]) => ({ name, share: total > 0 ? length / total : 0 }));
}

const known = new WeakMap<RankCycle, Partial<Record<LaneName, ReadonlyMap<string, number>>>>();

/** The time of each phase at the top level, in ns; kept, for a picture of thousands asks for it. */
function sumsOf(rank: RankCycle, lane: LaneName): ReadonlyMap<string, number> {
  const before = known.get(rank) ?? {};
  const kept = before[lane];
  if (kept) {
    return kept;
  }
  const sums = new Map<string, number>();
  for (const phase of phasesOf(rank, lane)) {
    const name = topLevel(phase.name);
    sums.set(name, (sums.get(name) ?? 0) + phase.end - phase.start);
  }
  known.set(rank, { ...before, [lane]: sums });
  return sums;
}

/** Cycles in a row that worked for the same requests. */
export interface Served {
  readonly ids: readonly string[];
  /** UNIX ms. */
  readonly start: number;
  readonly end: number;
}

/** For whom the cycles worked, oldest first; nothing for cycles whose requests are not known. */
export function servedOver(cycles: readonly Cycle[]): Served[] {
  const found: Served[] = [];
  for (const cycle of cycles) {
    const ids = (cycle.requests ?? []).filter((row) => !row.health).map((row) => row.id);
    const last = found.at(-1);
    const end = cycle.t0Ms + cycleMs(cycle);
    const same = last && last.ids.length === ids.length && ids.every((id) => last.ids.includes(id));
    if (same) {
      found[found.length - 1] = { ...last, end };
    } else if (ids.length > 0) {
      found.push({ ids, start: cycle.t0Ms, end });
    }
  }
  return found;
}
