// What the axis of time shows right now: computed from the store, the window and the pointer.
import { computed, type Signal, signal } from "@preact/signals";
import { lookedAt } from "../../kernels.ts";
import type { Range } from "../../lib/axis.ts";
import { cycleKey, cycleMs } from "../../lib/cycle.ts";
import { withMark, withoutMark } from "../../lib/marks.ts";
import { boxesOf, heldFrom, type OverviewBox } from "../../lib/overview.ts";
import { isTraced } from "../../lib/run.ts";
import { parseQuery } from "../../lib/search.ts";
import { barOf, type Found, findSpot, type Spot, spotOf } from "../../lib/spot.ts";
import {
  anchored,
  around,
  COLUMN,
  type Column,
  columnsOf,
  drawsBars,
  inView,
  nearestColumn,
  newestView,
  panTime,
  rangeOf,
  type TimeBar,
  timeBars,
  timeOf,
  timeShape,
  usualMs,
  usualPace,
  usualSpan,
  wholeView,
  zoomTime,
} from "../../lib/timeline.ts";
import { modesOf } from "../../lib/timing.ts";
import { barAt, toX } from "../../lib/waterfall.ts";
import type { Cycle } from "../../lib/wire.ts";
import { overview, overviewOf, type Stretch } from "../../overseen.ts";
import { find, marks, measured, spanMs, stretch } from "../../pointing.ts";
import { clockMs, cycles, figures, pause, paused, run, selectedCycle, theme } from "../../state.ts";
import { loadOlder } from "../../stream.ts";
import {
  type ExplainedKernels,
  focusedKernelIn,
  KERNELS_FROM,
  type KernelRow,
  kernelBarIn,
  kernelRow,
  kernelSpot,
  type LitKernel,
} from "../waterfall/kernelRow.ts";
import { type Box, type Explained, open, parts, ranks } from "../waterfall/model.ts";
import { WIDE_GUTTER } from "../waterfall/paint.ts";
import { HEAD, type Letter, type Scene } from "./paint.ts";

const PHONE = 720;
const SAMPLE = 200;
const ZOOM_STEP = 1.5;
/** A mark this near to the pointer, in px, is meant. */
const NEAR_MARK = 5;

export const box: Signal<Box> = signal({ left: 0, top: 0, width: 0, height: 0 });
export const scrollTop: Signal<number> = signal(0);
/** The pointer in px of the window; null while it is elsewhere. */
export const pointer: Signal<{ readonly x: number; readonly y: number } | null> = signal(null);
/** Whether the pointer rests, so that what is below it is explained. */
export const resting: Signal<boolean> = signal(false);
/** The stretch that the keyboard is on. */
export const focus: Signal<Spot | null> = signal(null);
export const byKeys: Signal<boolean> = signal(false);

export const gutter = computed<number>(() =>
  box.value.width > PHONE || innerWidth > PHONE ? WIDE_GUTTER : 0,
);
/** Width of the plot in px. */
export const plot = computed<number>(() => Math.max(1, box.value.width - gutter.value));

/** The usual time of a cycle, in ms. */
export const usual = computed<number | null>(() => usualMs(cycles.value.slice(-SAMPLE)));

let keptSpan: number | null = null;

/** Whether the stretch that the address names is still to come from the store. */
export const loading = computed<boolean>(
  () => stretch.value !== null && rangeOf(cycles.value, stretch.value) === null,
);

/** What is in view, in UNIX ms. */
export const view = computed<Range>(() => {
  const named = rangeOf(cycles.value, stretch.value);
  if (named) {
    return named;
  }
  keptSpan = usualSpan(usualPace(cycles.value.slice(-SAMPLE)), keptSpan, plot.value);
  return newestView(cycles.value, spanMs.value ?? keptSpan, clockMs.value);
});

export const shape = computed(() =>
  timeShape(
    ranks.value.length,
    Math.max(0, ranks.value.indexOf(open.value)),
    { ...parts.value, kernels: wantedKernels.value.length > 0 },
    { room: box.value.height - HEAD, named: gutter.value > 0 },
  ),
);

/** The cycles in view, oldest first. */
export const shown = computed<readonly Cycle[]>(() =>
  inView(cycles.value, view.value).map(([cycle]) => cycle),
);

/** Those of the opened rank: cycles of other groups have ranks of their own. */
export const mine = computed<readonly Cycle[]>(() =>
  shown.value.filter((cycle) => cycle.ranks.some(({ rank }) => rank === open.value)),
);

/** Whether phases are drawn; else a column a cycle. */
export const inBars = computed<boolean>(() => drawsBars(usual.value, view.value, plot.value));

/** The cycles in view whose kernels can be seen at this zoom, and were looked at. */
export const wantedKernels = computed<readonly Cycle[]>(() => {
  const wide = ((usual.value ?? 0) / (view.value.end - view.value.start)) * plot.value;
  return wide >= KERNELS_FROM ? lookedAt(mine.value) : [];
});

/** The kernels of the opened rank in view. */
export const kernelRows = computed<readonly KernelRow[]>(() => {
  const line = shape.value.ranks[ranks.value.indexOf(open.value)]?.kernels;
  const { range, width } = window();
  return wantedKernels.value.flatMap((cycle) => {
    const own = { start: range.start - cycle.t0Ms, end: range.end - cycle.t0Ms };
    return (line && kernelRow(cycle, open.value, line, { range: own, width })) ?? [];
  });
});

export const bars = computed<readonly TimeBar[]>(() =>
  inBars.value ? timeBars(cycles.value, ranks.value, shape.value, window()) : [],
);

/** Columns by rank, the host's and the device's; none where bars are drawn. */
export const columns = computed<ReadonlyMap<string, readonly (readonly Column[])[]>>(() => {
  const of = (rank: string) =>
    (["host", "device"] as const).map((lane) => columnsOf(shown.value, rank, lane, window()));
  return new Map(inBars.value ? [] : ranks.value.map((rank) => [rank, of(rank)]));
});

/** The cycles of the opened rank's group that are here, oldest first. */
export const ofGroup = computed<{ readonly group: string; readonly cycles: readonly Cycle[] }>(
  () => {
    const all = cycles.value;
    const newest = all.findLast(({ ranks: each }) => each.some(({ rank }) => rank === open.value));
    const group = newest?.group ?? "";
    return { group, cycles: all.filter((cycle) => cycle.group === group) };
  },
);

/** The oldest cycle that is here without a hole, if the server has older ones; else null. */
export const beyond = computed<Cycle | null>(() => {
  const held = heldFrom(ofGroup.value.cycles, run.value?.sample_every ?? 1);
  const firstN = run.value?.stored.first_n ?? null;
  return held && firstN !== null && firstN < held.n ? held : null;
});

/** What the server is to sum up: a stretch of more cycles than are here; null if there is none. */
export const far = computed<Stretch | null>(() => {
  const current = run.value;
  // What still grows is not summed up again and again.
  if (!(current && (paused.value || !isTraced(current)))) {
    return null;
  }
  const { start, end } = view.value;
  const held = beyond.value;
  const wide = ((usual.value ?? 0) / (end - start)) * plot.value;
  return held && start < held.t0Ms && wide < COLUMN
    ? {
        run: current.run,
        group: held.group,
        fromMs: start,
        toMs: end,
        columns: Math.round(plot.value),
      }
    : null;
});

/** What the server said of it, where it lies; empty until it has. */
export const boxes = computed<readonly OverviewBox[]>(() => {
  const want = far.value;
  const summed = want && overviewOf(want.run, want.group);
  return summed ? boxesOf(summed.columns, view.value, plot.value) : [];
});

/** What stands where there is no picture of phases; null where there is one. */
const beyondWords = computed<string>(() => {
  const failure = far.value && overview.of(far.value)?.failure;
  return failure ?? "Zoom in to see phases: these are too many cycles.";
});

function window() {
  return { range: view.value, width: plot.value };
}

/** What the search field's words find, oldest first; null while it is empty. */
export const found = computed<readonly Cycle[] | null>(() => {
  const query = parseQuery(find.value);
  return query && cycles.value.filter(query.fits);
});

const foundKeys = computed<ReadonlySet<string>>(() => new Set(found.value?.map(cycleKey)));

/** The stretch that is measured, in UNIX ms; null while its cycle is not here. */
export const measuredRange = computed<Range | null>(() => rangeOf(cycles.value, measured.value));

/** Whether the pointer drags. */
export const dragging: Signal<boolean> = signal(false);

/** What the drawer speaks of; not while it changes, for the drawer takes room from the picture. */
export const measuredAtRest = computed<Range | null>(() =>
  dragging.value ? null : measuredRange.value,
);

/** The marks whose cycles are here, in UNIX ms. */
export const letters = computed<readonly Letter[]>(() =>
  marks.value.flatMap((each) => {
    const time = timeOf(cycles.value, each);
    return time === null ? [] : [{ letter: each.letter, time }];
  }),
);

/** The time below a point of the window, in UNIX ms. */
export function timeAt(x: number): number {
  const { start, end } = view.value;
  return start + ((x - box.value.left - gutter.value) / plot.value) * (end - start);
}

/** The cycle of the opened rank at a time; null between cycles. */
export function cycleAt(time: number): Cycle | null {
  return (
    mine.value.find((cycle) => time >= cycle.t0Ms && time < cycle.t0Ms + cycleMs(cycle)) ?? null
  );
}

/** The column at a point of the window; null where bars are drawn, and where nothing is. */
export function columnAt(x: number): Column | null {
  return nearestColumn(columns.value.get(open.value)?.[0] ?? [], x - box.value.left - gutter.value);
}

/** The summed up column at a point of the window; null where none is. */
export function boxAtPoint(x: number): OverviewBox | null {
  return nearestColumn(boxes.value, x - box.value.left - gutter.value);
}

/** The rank at a height of the window; null above the ranks and below. */
export function rankAt(y: number): string | null {
  const inside = rankY(y);
  const place = shape.value.rows.findIndex(({ start, end }) => inside >= start && inside < end);
  return y - box.value.top > HEAD ? (ranks.value[place] ?? null) : null;
}

/** The bar at a point of the window; null if none is. */
export function barAtPoint(x: number, y: number): TimeBar | null {
  const top = y - box.value.top - HEAD;
  const left = x - box.value.left - gutter.value;
  const bar = top > 0 && left >= 0 ? barAt(bars.value, left, top + scrollTop.value) : null;
  return bar as TimeBar | null;
}

/** The kernels below the resting pointer. */
const hoveredKernel = computed<LitKernel | null>(() => {
  const at = resting.value ? pointer.value : null;
  const [x, y] = [(at?.x ?? 0) - box.value.left - gutter.value, rankY(at?.y ?? 0)];
  const over = at && x >= 0 && at.y - box.value.top > HEAD;
  for (const row of over ? kernelRows.value : []) {
    const lit = kernelBarIn(row, x, y);
    if (lit) {
      return lit;
    }
  }
  return null;
});

/** What is to be said of them. */
export const hoveredKernels = computed<ExplainedKernels | null>(() => {
  const at = pointer.value;
  const lit = hoveredKernel.value;
  return at && lit && { row: lit.row, places: lit.bar.places, x: at.x, y: at.y };
});

/** The kernel that the keyboard is on. */
const focusedKernel = computed<LitKernel | null>(() =>
  byKeys.value ? focusedKernelIn(kernelRows.value) : null,
);

/** What is to be said of it, at its bar. */
export const focusedKernels = computed<ExplainedKernels | null>(() => {
  const lit = focusedKernel.value;
  const spot = kernelSpot.value;
  if (!(lit && spot)) {
    return null;
  }
  const { bar, row } = lit;
  const x = box.value.left + gutter.value + Math.min(bar.x + bar.width / 2, plot.value);
  const y = box.value.top + HEAD + row.line.y + row.line.height - scrollTop.value;
  return { row, places: [spot.place], x, y };
});

/** A height of the window as px from the top of the first rank. */
function rankY(y: number): number {
  return y - box.value.top - HEAD + scrollTop.value;
}

/** The bar below the resting pointer. */
const hoveredBar = computed<TimeBar | null>(() => {
  const at = resting.value ? pointer.value : null;
  return at && barAtPoint(at.x, at.y);
});

/** What is below the resting pointer, in words. */
export const hovered = computed<Explained | null>(() => {
  const at = pointer.value;
  const bar = hoveredBar.value;
  const what = at && bar && findSpot(cycles.value, spotOf(bar.cycle, bar));
  return what && { found: what, x: at.x, y: at.y };
});

/** What the keyboard is on, in words, at its bar. */
export const focused = computed<Explained | null>(() => {
  const phases = byKeys.value && kernelSpot.value === null;
  const what = phases && focus.value ? findSpot(cycles.value, focus.value) : null;
  const bar = what && barOfFound(what);
  if (!bar) {
    return null;
  }
  const x = box.value.left + gutter.value + Math.min(bar.x + bar.width / 2, plot.value);
  return { found: what, x, y: box.value.top + HEAD + bar.y + bar.height - scrollTop.value };
});

function barOfFound({ cycle, rank, stretch: part }: Found): TimeBar | null {
  const own = bars.value.filter((bar) => bar.cycle === cycle);
  return barOf(own, rank.rank, part) as TimeBar | null;
}

/** Everything that the canvas needs. */
export const scene = computed<Scene>(() => {
  const last = cycles.value.at(-1);
  const lastEnd = last ? last.t0Ms + cycleMs(last) : null;
  const tracing = run.value?.state === "tracing" && paused.value === null;
  const summary = figures.value.summary;
  return {
    width: box.value.width,
    height: box.value.height,
    gutter: gutter.value,
    scrollTop: scrollTop.value,
    shape: shape.value,
    ranks: ranks.value,
    open: open.value,
    view: view.value,
    cycles: mine.value,
    bars: inBars.value ? bars.value : null,
    columns: columns.value,
    far: far.value &&
      beyond.value && {
        boxes: boxes.value,
        until: beyond.value.t0Ms,
        words: beyondWords.value,
      },
    theme: theme.value,
    usualKind: summary?.speculative ? "speculative" : "decode",
    usualMode: last ? modesOf(last) : "",
    slowMs: (summary?.speculative ?? summary?.decode)?.time?.p99_ms ?? null,
    selected: selectedCycle.value,
    hovered: hoveredBar.value,
    focused: focused.value && barOfFound(focused.value.found),
    kernels: kernelRows.value,
    hoveredKernel: hoveredKernel.value,
    focusedKernel: focusedKernel.value,
    measured: measuredRange.value,
    letters: letters.value,
    found: foundKeys.value,
    running: tracing && last && lastEnd !== null ? { n: last.n + 1, from: lastEnd } : null,
  };
});

/** Keeps what is in view: what was pointed at must not move on. */
export function hold(): void {
  if (stretch.value === null) {
    show(view.value);
  }
}

/** Shows a stretch of the past: the picture stands still. */
export function show(range: Range): void {
  pause();
  spanMs.value = range.end - range.start;
  stretch.value = anchored(cycles.value, range);
  const first = cycles.value[0];
  if (first && range.start < first.t0Ms && !far.value) {
    void loadOlder();
  }
}

/**
 * Zooms so that what is at `x` of the window stays there; without one the right edge stays while
 * the newest cycles are followed, else the middle.
 */
export function zoomAt(factor: number, x: number | null): void {
  if (x === null && stretch.value === null) {
    spanMs.value = Math.min(1e7, Math.max(0.01, (view.value.end - view.value.start) * factor));
    return;
  }
  const share = x === null ? 0.5 : (x - box.value.left - gutter.value) / plot.value;
  show(zoomTime(view.value, factor, Math.min(1, Math.max(0, share))));
}

/** Zooms by steps, in for positive ones, at the pointer if it is over the plot. */
export function zoomSteps(steps: number): void {
  const at = pointer.value;
  const over = at && at.x > box.value.left + gutter.value;
  zoomAt(ZOOM_STEP ** -steps, over ? at.x : null);
}

/** Moves by a share of what is in view. */
export function panBy(share: number): void {
  show(panTime(view.value, share, known()));
}

/** From the first cycle that is here, or known to be stored, to the last one. */
export function known(): Range | null {
  const here = wholeView(cycles.value);
  const summed = run.value && overviewOf(run.value.run, ofGroup.value.group);
  return here && summed
    ? {
        start: Math.min(here.start, summed.whole.start),
        end: Math.max(here.end, summed.whole.end),
      }
    : here;
}

/** Shows what is measured, else the selected cycle, else as many of the newest as suit. */
export function fit(): void {
  const cycle = selectedCycle.value;
  if (measuredRange.value) {
    show(around(measuredRange.value));
  } else if (cycle) {
    show(around(cycleRange(cycle)));
  } else {
    spanMs.value = null;
    stretch.value = null;
  }
}

/** Shows everything that is here. */
export function showAll(): void {
  const whole = wholeView(cycles.value);
  if (whole) {
    show(whole);
  }
}

/** Moves the picture if a stretch lies outside of it, be it in part; not if it fills it all. */
export function reveal({ start: from, end: to }: Range): void {
  const { start, end } = view.value;
  const fills = from <= start && to >= end;
  if (!fills && (from < start || to > end)) {
    const length = end - start;
    // What is longer than the picture begins at its left edge.
    const begin = to - from > length ? from : (from + to - length) / 2;
    show({ start: begin, end: begin + length });
  }
}

/** Sets a mark at the pointer, else at the selected cycle; takes one away that is there already. */
export function mark(): void {
  const at = pointer.value;
  const over = at && at.x > box.value.left + gutter.value ? timeAt(at.x) : null;
  const { start, end } = view.value;
  const time = over ?? selectedCycle.value?.t0Ms ?? (start + end) / 2;
  const x = toX(time, view.value, plot.value);
  const near = letters.value.find(
    (each) => Math.abs(toX(each.time, view.value, plot.value) - x) <= NEAR_MARK,
  );
  const anchor = anchored(cycles.value, { start: time, end: time });
  if (near) {
    marks.value = withoutMark(marks.value, near.letter);
  } else if (anchor) {
    hold();
    marks.value = withMark(marks.value, {
      group: anchor.group,
      n: anchor.n,
      offsetMs: anchor.offsetMs,
    });
  }
}

/** Measures from one time to another, both UNIX ms. */
export function measureBetween(one: number, other: number): void {
  hold();
  measured.value = anchored(cycles.value, {
    start: Math.min(one, other),
    end: Math.max(one, other),
  });
}

/** When a cycle began and ended on its first rank, in UNIX ms. */
export function cycleRange(cycle: Cycle): Range {
  return { start: cycle.t0Ms, end: cycle.t0Ms + cycleMs(cycle) };
}
