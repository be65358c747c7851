// The kernels of a cycle: read as the server sends them, and placed in px.
import type { Range } from "./axis.ts";
import { shortId } from "./format.ts";
import { type Json, list, object, objects, text, texts, WireError } from "./json.ts";
import { topLevel } from "./phases.ts";
import type { Window } from "./waterfall.ts";
import { unixMs } from "./wire.ts";

const NS_PER_MS = 1e6;
/** A point this near to a bar, in px, still means it. */
const REACH = 2;
/** Up to this width bars have no px between them: it would take too much of them. */
const NARROW = 3;
const MOST_OF_NAME = 32;

/** The kernels of one rank that phases of a cycle launched, as columns in the order of begins. */
export interface RankKernels {
  readonly rank: string;
  readonly phases: readonly string[];
  readonly names: readonly string[];
  /** Of each name. */
  readonly classes: readonly string[];
  /** In ns from `CycleKernels.t0Ms`, as is `end`. */
  readonly start: readonly number[];
  readonly end: readonly number[];
  readonly stream: readonly number[];
  /** Places in `phases`. */
  readonly phase: readonly number[];
  /** Places in `names`. */
  readonly name: readonly number[];
  /** 1 where a graph's launch put it there. */
  readonly graph: readonly number[];
  /** The stream on which most was done. */
  readonly busiest: number;
  readonly longestNs: number;
}

/** The kernels of a cycle on all of its ranks that have any. */
export interface CycleKernels {
  /** UNIX ms. */
  readonly t0Ms: number;
  readonly ranks: readonly RankKernels[];
}

/** One kernel. */
export interface Kernel {
  readonly name: string;
  readonly kernelClass: string;
  readonly phase: string;
  readonly stream: number;
  readonly graph: boolean;
  /** In ns from the start of its cycle. */
  readonly startNs: number;
  readonly ns: number;
}

/** A kernel in px from the left of the plot, or several that share a px. */
export interface KernelBar {
  readonly x: number;
  readonly width: number;
  /** The share of its px that kernels cover, from 0 to 1. */
  readonly filled: number;
  readonly phase: string;
  /** Not on the busiest stream: at once with what runs there. */
  readonly aside: boolean;
  /** Of the kernels that begin here; empty where one only goes on. */
  readonly places: readonly number[];
  /** For how long kernels run here, in ns. */
  readonly ns: number;
}

/** Reads the kernels of a cycle. */
export function decodeKernels(value: unknown): CycleKernels {
  const found = object(value, "kernels");
  return { t0Ms: unixMs(text(found, "t0")), ranks: objects(found, "ranks").map(decodeRank) };
}

function decodeRank(found: Json): RankKernels {
  const names = texts(found, "names");
  const classes = texts(found, "classes");
  const phases = texts(found, "phases");
  const start = column(found, "start");
  const end = column(found, "end", start.length);
  const stream = column(found, "stream", start.length);
  if (classes.length !== names.length) {
    throw new WireError("classes are not one of each name");
  }
  const lengths = start.map((from, place) => (end[place] ?? 0) - from);
  if (lengths.some((length) => length < 0)) {
    throw new WireError("a kernel ends before it begins");
  }
  if (start.some((from, place) => from < (start[place - 1] ?? from))) {
    throw new WireError("kernels are not in the order of their begins");
  }
  return {
    rank: text(found, "rank"),
    phases,
    names,
    classes,
    start,
    end,
    stream,
    phase: places(found, "phase", start.length, phases.length),
    name: places(found, "name", start.length, names.length),
    graph: column(found, "graph", start.length),
    busiest: busiestOf(stream, lengths) ?? 0,
    longestNs: lengths.reduce((most, length) => Math.max(most, length), 0),
  };
}

function column(from: Json, key: string, length?: number): readonly number[] {
  const values = list(from[key], key);
  if (!values.every(Number.isFinite) || (length !== undefined && values.length !== length)) {
    throw new WireError(`${key} is no column of the kernels`);
  }
  return values as readonly number[];
}

function places(from: Json, key: string, length: number, of: number): readonly number[] {
  const values = column(from, key, length);
  if (!values.every((value) => Number.isInteger(value) && value >= 0 && value < of)) {
    throw new WireError(`${key} points at nothing`);
  }
  return values;
}

/** The stream with the most time; null without any. */
export function busiestOf(stream: readonly number[], lengths: readonly number[]): number | null {
  const sums = new Map<number, number>();
  for (const [place, each] of stream.entries()) {
    sums.set(each, (sums.get(each) ?? 0) + (lengths[place] ?? 0));
  }
  let busiest: number | null = null;
  for (const [each, sum] of sums) {
    busiest = busiest === null || sum > (sums.get(busiest) ?? 0) ? each : busiest;
  }
  return busiest;
}

/** The kernel at a place. */
export function kernelAt(of: RankKernels, place: number): Kernel {
  const name = of.name[place] ?? 0;
  const startNs = of.start[place] ?? 0;
  return {
    name: of.names[name] ?? "",
    kernelClass: of.classes[name] ?? "",
    phase: of.phases[of.phase[place] ?? 0] ?? "",
    stream: of.stream[place] ?? 0,
    graph: of.graph[place] === 1,
    startNs,
    ns: (of.end[place] ?? startNs) - startNs,
  };
}

/**
 * What is drawn of the kernels in a window: each that is a px wide or more, and for each px what
 * the narrower ones cover of it. `shiftMs` is by how much `t0Ms` lies after the 0 of the window.
 */
export function kernelBars(of: RankKernels, shiftMs: number, window: Window): KernelBar[] {
  const { range, width } = window;
  const pxPerNs = width / ((range.end - range.start) * NS_PER_MS);
  const left = (range.start - shiftMs) * NS_PER_MS;
  const bars: KernelBar[] = [];
  const main = new Gathered(of, false);
  const aside = new Gathered(of, true);
  const { start, end, stream } = of;
  for (let place = firstAfter(start, left - of.longestNs); place < start.length; place += 1) {
    const from = ((start[place] ?? 0) - left) * pxPerNs;
    const to = ((end[place] ?? 0) - left) * pxPerNs;
    if (from >= width) {
      break;
    }
    if (to - from < 1) {
      (stream[place] === of.busiest ? main : aside).put(place, from, to, { pxPerNs, width });
    } else if (to > 0) {
      bars.push(wideBar(of, place, [from, to], { pxPerNs, width }));
    }
  }
  return [...bars, ...main.bars(pxPerNs), ...aside.bars(pxPerNs)];
}

/** The bar of a kernel that goes from one place to another, in px. */
function wideBar(
  of: RankKernels,
  place: number,
  [from, to]: readonly [number, number],
  { pxPerNs, width }: Scale,
): KernelBar {
  const x = Math.max(0, Math.round(from));
  const until = Math.min(width, Math.round(to));
  const free = until - x > NARROW ? 1 : 0;
  return {
    x,
    width: Math.max(1, until - x - free),
    filled: 1,
    phase: of.phases[of.phase[place] ?? 0] ?? "",
    aside: of.stream[place] !== of.busiest,
    places: [place],
    ns: (Math.min(to, width) - Math.max(from, 0)) / pxPerNs,
  };
}

/** The first place from which on kernels begin at `time` or later. */
function firstAfter(start: readonly number[], time: number): number {
  let [low, high] = [0, start.length];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if ((start[middle] ?? 0) < time) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

interface Scale {
  readonly pxPerNs: number;
  readonly width: number;
}

interface Px {
  readonly places: number[];
  ns: number;
  longest: number;
  longestNs: number;
}

/** Kernels that are narrower than a px, by px. */
class Gathered {
  readonly #of: RankKernels;
  readonly #aside: boolean;
  readonly #px = new Map<number, Px>();

  constructor(of: RankKernels, aside: boolean) {
    this.#of = of;
    this.#aside = aside;
  }

  /** Takes a kernel from one place to another, in px; what is outside of the plot counts nowhere. */
  put(place: number, from: number, to: number, { pxPerNs, width }: Scale): void {
    const here = Math.floor(from);
    const border = Math.min(to, here + 1);
    if (here >= 0) {
      this.#add(here, place, (border - from) / pxPerNs).places.push(place);
    }
    if (to > border && here + 1 >= 0 && here + 1 < width) {
      this.#add(here + 1, place, (to - border) / pxPerNs);
    }
  }

  #add(at: number, place: number, ns: number): Px {
    const px = this.#px.get(at) ?? { places: [], ns: 0, longest: place, longestNs: 0 };
    if (ns > px.longestNs) {
      px.longest = place;
      px.longestNs = ns;
    }
    px.ns += ns;
    this.#px.set(at, px);
    return px;
  }

  /** A bar for each px, of the phase that has the longest of its kernels. */
  bars(pxPerNs: number): KernelBar[] {
    const of = this.#of;
    return [...this.#px].map(([x, { places: begun, ns, longest }]) => ({
      x,
      width: 1,
      filled: Math.min(1, ns * pxPerNs),
      phase: of.phases[of.phase[longest] ?? 0] ?? "",
      aside: this.#aside,
      places: begun,
      ns,
    }));
  }
}

/** The bar at `x` px, of those aside first if they are `preferred`; null if none is near. */
export function kernelBarAt(
  bars: readonly KernelBar[],
  x: number,
  preferred: boolean,
): KernelBar | null {
  const away = (bar: KernelBar) =>
    Math.max(bar.x - x, x - bar.x - bar.width, 0) + (bar.aside === preferred ? 0 : REACH / 2);
  let best: KernelBar | null = null;
  for (const bar of bars) {
    const near = bar.places.length > 0 && away(bar) <= REACH;
    if (near && (best === null || away(bar) < away(best))) {
      best = bar;
    }
  }
  return best;
}

/** The bar that shows the kernel at a place; null if it is not in view. */
export function barOfKernel(bars: readonly KernelBar[], place: number): KernelBar | null {
  return bars.find((bar) => bar.places.includes(place)) ?? null;
}

/** Where a key leads that goes `by` kernels on; from nowhere to the first one of a phase. */
export function kernelStep(
  of: RankKernels,
  from: number | null,
  by: 1 | -1,
  phase: string | null,
): number | null {
  const last = of.start.length - 1;
  if (last < 0) {
    return null;
  }
  if (from !== null) {
    return Math.min(last, Math.max(0, from + by));
  }
  const wanted = of.phases.map((name) => name === phase || topLevel(name) === phase);
  return Math.max(
    0,
    of.phase.findIndex((each) => wanted[each]),
  );
}

/** When a kernel ran, in ms from the 0 to which `shiftMs` counts. */
export function kernelRange({ startNs, ns }: Kernel, shiftMs: number): Range {
  const start = startNs / NS_PER_MS + shiftMs;
  return { start, end: start + ns / NS_PER_MS };
}

/** What a kernel is called for short: without its types, its arguments and its namespaces. */
export function shortKernel(name: string): string {
  const plain = name.replaceAll("(anonymous namespace)::", "").replace(/^void /, "");
  const [head = ""] = plain.split(/[<(]/);
  const short = head.split("::").at(-1)?.trim() || plain;
  return shortId(short, MOST_OF_NAME);
}
