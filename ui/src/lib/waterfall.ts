// Where everything of the waterfall lies: rows, lanes, bars, and what is under a point.
import type { Range } from "./axis.ts";
import { type LaneName, type Stretch, stretches } from "./lanes.ts";
import { EARLIER, GAP, topLevel } from "./phases.ts";
import type { Cycle } from "./wire.ts";

const HEADER = 24;
const OPEN = 18;
const PARTS = 14;
/** Below the device lane of an opened rank: its kernels. */
const KERNELS = 14;
const KERNELS_APART = 2;
const COLLAPSED: Readonly<Record<LaneName, number>> = { host: 11, device: 14 };
/** Between the two lanes of an opened rank, and of a collapsed one. */
const LANES_APART = 6;
const COLLAPSED_APART = 2;
const BETWEEN = 3;
const PAD = 7;

/** Below this width a host bar is drawn solid: an outline would leave nothing inside. */
const SOLID_BELOW = 4;
/** A point this near to a bar still means it. */
const REACH = 2;
const MOST_REQUESTS = 8;

/** Where the bars of one lane lie, from the top of the row. */
export interface Lane {
  readonly y: number;
  readonly height: number;
  /** The parts under an opened lane; 0 high in a collapsed one. */
  readonly partsY: number;
  readonly partsHeight: number;
}

/** Where the lanes of one rank lie. */
export interface RankShape {
  readonly host: Lane;
  readonly device: Lane | null;
  /** The line below the device lane; null where there is none. */
  readonly kernels: Line | null;
}

/** A line without names of its own. */
export interface Line {
  readonly y: number;
  readonly height: number;
}

/** The measures that all rows share. */
export interface RowShape {
  readonly height: number;
  readonly headerHeight: number;
  readonly ranks: readonly RankShape[];
}

/** What there is room for below the lane of the host: all rows are of the same shape. */
export interface RowParts {
  /** Some phase has parts. */
  readonly parts: boolean;
  /** Some cycle has a device lane. */
  readonly device: boolean;
  /** The kernels of some cycle were seen. */
  readonly kernels: boolean;
}

/** A stretch in px, x from the left of the plot, y from the top of the row. */
export interface Bar {
  readonly stretch: Stretch;
  /** Counted in `stretches` of the rank. */
  readonly place: number;
  readonly rank: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly solid: boolean;
  /** The stretch goes on outside the plot. */
  readonly cutLeft: boolean;
  readonly cutRight: boolean;
}

/** The stretch of a cycle that is drawn, in ms, and over how many px. */
export interface Window {
  readonly range: Range;
  readonly width: number;
}

/**
 * The measures of a row with so many ranks, of which the one at place `open` is opened: there the
 * lanes have a second line for parts.
 */
export function rowShape(ranks: number, open: number, has: RowParts): RowShape {
  const shapes: RankShape[] = [];
  let y = HEADER;
  for (let place = 0; place < Math.max(1, ranks); place += 1) {
    const opened = place === open;
    const host = laneAt(y, "host", opened, has.parts);
    y = endOf(host);
    const below = y + (opened ? LANES_APART : COLLAPSED_APART);
    const device = has.device ? laneAt(below, "device", opened, has.parts) : null;
    const kernels = opened && device && has.kernels ? kernelsBelow(device) : null;
    const rank = { host, device, kernels };
    shapes.push(rank);
    y = bottomOf(rank) + BETWEEN;
  }
  return { height: y - BETWEEN + PAD, headerHeight: HEADER, ranks: shapes };
}

/** From the top of the row to the end of a lane. */
export function endOf(lane: Lane): number {
  return lane.partsY + lane.partsHeight;
}

/** From the top of the row to the end of a rank. */
export function bottomOf({ host, device, kernels }: RankShape): number {
  return kernels ? kernels.y + kernels.height : endOf(device ?? host);
}

/** The line of kernels below a lane, `scale` times as high as usual. */
export function kernelsBelow(device: Lane, scale = 1): Line {
  return { y: endOf(device) + KERNELS_APART, height: Math.round(KERNELS * scale) };
}

/** A lane at a height; an opened one has room for parts below it. */
export function laneAt(y: number, name: LaneName, opened: boolean, parts: boolean): Lane {
  const height = opened ? OPEN : COLLAPSED[name];
  return { y, height, partsY: y + height, partsHeight: opened && parts ? PARTS : 0 };
}

/** The rows that a scrolled window shows, `end` not among them. */
export function visibleRows(
  scrollTop: number,
  windowHeight: number,
  rowHeight: number,
  rows: number,
): Range {
  const start = Math.max(0, Math.floor(scrollTop / rowHeight));
  return { start, end: Math.min(rows, Math.ceil((scrollTop + windowHeight) / rowHeight)) };
}

/** A cycle, and the one before it where that is known. */
export interface Placed {
  readonly cycle: Cycle;
  readonly before: Cycle | null;
}

/** The bars of a cycle, those to be drawn last at the end. */
export function bars(
  { cycle, before }: Placed,
  ranks: readonly string[],
  shape: RowShape,
  window: Window,
): Bar[] {
  return cycle.ranks
    .flatMap((rank) => {
      const lanes = shape.ranks[ranks.indexOf(rank.rank)];
      return lanes ? rankBars(rank.rank, stretches(cycle, rank, before), lanes, window) : [];
    })
    .sort((one, other) => drawingOrder(one) - drawingOrder(other));
}

/** A time in ms as px from the left of the plot. */
export function toX(time: number, view: Range, width: number): number {
  return ((time - view.start) / (view.end - view.start)) * width;
}

/** The bar under a point of a row, the narrowest if there are several; null if none. */
export function barAt(all: readonly Bar[], x: number, y: number): Bar | null {
  let best: Bar | null = null;
  for (const bar of all) {
    const inside = x >= bar.x - REACH && x <= bar.x + bar.width + REACH;
    if (inside && y >= bar.y && y < bar.y + bar.height && (!best || bar.width < best.width)) {
      best = bar;
    }
  }
  return best;
}

/** Zooms so that the time at `share` (0 to 1) of the view stays where it is. */
export function zoom(view: Range, factor: number, share: number): Range {
  const length = Math.min(1e6, Math.max(0.01, (view.end - view.start) * factor));
  const fixed = view.start + (view.end - view.start) * share;
  const start = Math.max(0, fixed - length * share);
  return { start, end: start + length };
}

/**
 * Moves by a share of what is in view, never before the start of the cycles; the end of the
 * longest one, at `reach`, does not go beyond the middle.
 */
export function pan(view: Range, share: number, reach: number): Range {
  const length = view.end - view.start;
  const last = Math.max(0, reach - length / 2);
  const start = Math.min(last, Math.max(0, view.start + length * share));
  return { start, end: start + length };
}

/** Where a time lies in a view, from 0 to 1: what a zoom keeps. The middle if it is not seen. */
export function anchor(view: Range, time: number | null): number {
  const share = time === null ? Number.NaN : (time - view.start) / (view.end - view.start);
  return share >= 0 && share <= 1 ? share : 0.5;
}

/** The view itself if it shows anything of a stretch, else one that has it in the middle. */
export function showing(view: Range, stretch: Range): Range {
  if (stretch.end >= view.start && stretch.start < view.end) {
    return view;
  }
  const length = view.end - view.start;
  const start = Math.max(0, (stretch.start + stretch.end - length) / 2);
  return { start, end: start + length };
}

/**
 * Of how many requests the dots are shown where each takes `each` px and "12 more" takes `more`:
 * of all of them, or of as many as fit and the eye takes in.
 */
export function shownRequests(count: number, room: number, each: number, more: number): number {
  const fits = (px: number) => Math.max(0, Math.floor(px / each));
  return count <= Math.min(MOST_REQUESTS, fits(room))
    ? count
    : Math.min(MOST_REQUESTS, fits(room - more));
}

function rankBars(
  rank: string,
  all: readonly Stretch[],
  lanes: RankShape,
  { range, width }: Window,
): Bar[] {
  const found: Bar[] = [];
  for (const [place, stretch] of all.entries()) {
    const lane = lanes[stretch.lane];
    const height = (stretch.level === 0 ? lane?.height : lane?.partsHeight) ?? 0;
    const from = toX(stretch.start, range, width);
    const to = toX(stretch.end, range, width);
    if (!lane || height === 0 || to < 0 || from > width) {
      continue;
    }
    const x = Math.max(0, Math.round(from));
    const end = Math.min(width, Math.round(to));
    // One px of background between neighbours, but no phase is too short to be seen.
    const drawn = Math.max(1, end - x - (end - x > 3 ? 1 : 0));
    found.push({
      stretch,
      place,
      rank,
      x,
      y: stretch.level === 0 ? lane.y : lane.partsY,
      width: drawn,
      height,
      solid: drawn < SOLID_BELOW,
      cutLeft: from < -0.5,
      cutRight: to > width + 0.5,
    });
  }
  return found;
}

const FIRST_DRAWN = [
  EARLIER,
  "verify",
  "forward",
  "schedule",
  "result",
  "wait",
  "resolve",
  "draft_extend",
  GAP,
];

/** Where several phases share a px the rarer one must win. */
function drawingOrder(bar: Bar): number {
  if (!bar.solid) {
    return -1;
  }
  const place = FIRST_DRAWN.indexOf(topLevel(bar.stretch.name));
  return place < 0 ? FIRST_DRAWN.length : place;
}
