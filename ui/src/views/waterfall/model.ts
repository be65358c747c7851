// What the waterfall shows right now: computed from the store, the window and the pointer.
import { computed, type Signal, signal } from "@preact/signals";
import { isLookedAt, lookedAt } from "../../kernels.ts";
import { cycleKey } from "../../lib/cycle.ts";
import { cycleBefore, hasDevice } from "../../lib/lanes.ts";
import { barOf, type Found, findSpot, type Spot, spotOf } from "../../lib/spot.ts";
import { modesOf } from "../../lib/timing.ts";
import {
  barAt,
  bars,
  bottomOf,
  type RowParts,
  rowShape,
  visibleRows,
} from "../../lib/waterfall.ts";
import type { Cycle } from "../../lib/wire.ts";
import {
  cycles,
  figures,
  onlyOpenRank,
  openRank,
  rankNames,
  selected,
  theme,
  view,
  zoomBy,
} from "../../state.ts";
import {
  type ExplainedKernels,
  focusedKernelIn,
  type KernelRow,
  kernelBarIn,
  kernelRow,
  kernelSpot,
  type LitKernel,
} from "./kernelRow.ts";
import { type Row, RULER, type Scene, WIDE_GUTTER } from "./paint.ts";

const PHONE = 720;
const NARROW_GUTTER = 48;
const PARTS_SAMPLE = 200;

/** Where the scrolled box lies in the window, in px. */
export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** A card that explains a stretch, at a point of the window. */
export interface Explained {
  readonly found: Found;
  readonly x: number;
  readonly y: number;
}

export const box: Signal<Box> = signal({ left: 0, top: 0, width: 0, height: 0 });
export const scrollTop: Signal<number> = signal(0);
/** The resting pointer in px of the window; null while it moves fast or is elsewhere. */
export const pointer: Signal<{ readonly x: number; readonly y: number } | null> = signal(null);
export const focus: Signal<Spot | null> = signal(null);
/** A click puts the focus here too, but only keys need a ring to be seen. */
export const byKeys: Signal<boolean> = signal(false);
/** The keyboard's card is put away once the drawer shows the cycle, until the focus moves. */
export const cardAway: Signal<boolean> = signal(false);
/** The rank whose name in the gutter is under the pointer; it may be cut there. */
export const pointedRank: Signal<string> = signal("");

/** The opened rank; the first unless another was chosen. */
export const open = computed<string>(() => openRank.value ?? rankNames.value[0] ?? "");

/** Whether phases have parts; rows need no line for them where only plain decode runs. */
const hasParts = computed<boolean>(() =>
  cycles.value
    .slice(-PARTS_SAMPLE)
    .some((cycle) => cycle.ranks[0]?.phases.some((phase) => phase.name.includes("."))),
);

/** Whether a device was timed, or was to be; without one the rows need no lane for it. */
const hasDeviceLane = computed<boolean>(() =>
  cycles.value
    .slice(-PARTS_SAMPLE)
    .some((cycle) => cycle.ranks.some((rank) => hasDevice(rank) || rank.mode === "device")),
);

/** Whether some cycle that is here was looked at: all rows are of the same shape. */
const hasKernels = computed<boolean>(() => lookedAt(cycles.value).length > 0);

/** The ranks that have lanes. */
export const ranks = computed<readonly string[]>(() =>
  onlyOpenRank.value ? [open.value] : rankNames.value,
);

/** What there is room for beside the lane of the host. */
export const parts = computed<RowParts>(() => ({
  parts: hasParts.value,
  device: hasDeviceLane.value,
  kernels: hasKernels.value,
}));

export const shape = computed(() =>
  rowShape(ranks.value.length, Math.max(0, ranks.value.indexOf(open.value)), parts.value),
);

export const gutter = computed<number>(() => {
  const { width } = box.value;
  if (width === 0 || width > PHONE || innerWidth > PHONE) {
    return WIDE_GUTTER;
  }
  return ranks.value.length > 1 ? NARROW_GUTTER : 0;
});

/** Width of the plot in px. */
export const plot = computed<number>(() => Math.max(1, box.value.width - gutter.value));

export const rows = computed<readonly Row[]>(() => {
  const all = cycles.value;
  const { height } = shape.value;
  const line = openedLine();
  const range = visibleRows(
    scrollTop.value,
    Math.max(0, box.value.height - RULER),
    height,
    all.length,
  );
  const shown: Row[] = [];
  for (let row = range.start; row < range.end; row += 1) {
    const cycle = all.at(-1 - row);
    if (cycle) {
      const window = { range: view.value, width: plot.value };
      const before = cycleBefore(all, all.length - 1 - row);
      shown.push({
        cycle,
        y: RULER + row * height - scrollTop.value,
        bars: bars({ cycle, before }, ranks.value, shape.value, window),
        kernels: line && kernelRow(cycle, open.value, line, window),
      });
    }
  }
  return shown;
});

/** Where the kernels of the opened rank lie in a row; null where there is no room for them. */
function openedLine() {
  return shape.value.ranks[ranks.value.indexOf(open.value)]?.kernels ?? null;
}

/** The cycles in view whose kernels are worth asking for. */
export const wantedKernels = computed<readonly Cycle[]>(() =>
  hasKernels.value ? rows.value.map(({ cycle }) => cycle).filter(isLookedAt) : [],
);

/** The kernels under the pointer. */
const hoveredKernel = computed<LitKernel | null>(() => {
  const at = pointer.value;
  const row = at && rowAt(at.y);
  const x = (at?.x ?? 0) - box.value.left - gutter.value;
  return at && row?.kernels ? kernelBarIn(row.kernels, x, inRow(at.y, row)) : null;
});

/** The kernel that the keyboard is on. */
const focusedKernel = computed<LitKernel | null>(() =>
  byKeys.value ? focusedKernelIn(kernelRows()) : null,
);

function kernelRows(): readonly KernelRow[] {
  return rows.value.flatMap(({ kernels }) => kernels ?? []);
}

/** What is to be said of the kernels under the pointer. */
export const hoveredKernels = computed<ExplainedKernels | null>(() => {
  const at = pointer.value;
  const lit = hoveredKernel.value;
  return at && lit && { row: lit.row, places: lit.bar.places, x: at.x, y: at.y };
});

/** The same of the one that the keyboard is on, at its bar. */
export const focusedKernels = computed<ExplainedKernels | null>(() => {
  const lit = focusedKernel.value;
  const row = lit && rows.value.find(({ kernels }) => kernels === lit.row);
  const spot = kernelSpot.value;
  if (!(row && spot)) {
    return null;
  }
  const { bar, row: within } = lit;
  const x = box.value.left + gutter.value + Math.min(bar.x + bar.width / 2, plot.value);
  const y = box.value.top + row.y + within.line.y + within.line.height;
  return { row: within, places: [spot.place], x, y };
});

/** The stretch under the pointer. It is looked up anew as the rows move on below it. */
export const hovered = computed<Explained | null>(() => {
  const at = pointer.value;
  const row = at && rowAt(at.y);
  const bar = row && barAt(row.bars, at.x - box.value.left - gutter.value, inRow(at.y, row));
  const found = bar && findSpot(cycles.value, spotOf(row.cycle, bar));
  return found && { found, x: at.x, y: at.y };
});

/** The stretch that the keyboard is on. */
export const focused = computed<Explained | null>(() => {
  const phases = byKeys.value && kernelSpot.value === null;
  const found = phases && focus.value ? findSpot(cycles.value, focus.value) : null;
  const row = found && rowOf(found.cycle);
  const bar = row && barOf(row.bars, found.rank.rank, found.stretch);
  if (!bar) {
    return null;
  }
  const x = box.value.left + gutter.value + Math.min(bar.x + bar.width / 2, plot.value);
  return { found, x, y: box.value.top + row.y + bar.y + bar.height };
});

/** How the newest cycle was timed; a row says how it was where that differs. */
const usualMode = computed<string>(() => {
  const newest = cycles.value.at(-1);
  return newest ? modesOf(newest) : "";
});

/** Everything that the canvas needs. */
export const scene = computed<Scene>(() => ({
  width: box.value.width,
  height: box.value.height,
  gutter: gutter.value,
  shape: shape.value,
  ranks: ranks.value,
  view: view.value,
  rows: rows.value,
  theme: theme.value,
  usualKind: figures.value.summary?.speculative ? "speculative" : "decode",
  usualMode: usualMode.value,
  selected: selected.value,
  hovered: barIn(hovered.value),
  focused: barIn(focused.value),
  hoveredKernel: hoveredKernel.value,
  focusedKernel: focusedKernel.value,
}));

/** Zooms so that the focused phase stays in the picture. */
export function zoomAtFocus(steps: number): void {
  const stretch = focus.value && findSpot(cycles.value, focus.value)?.stretch;
  zoomBy(steps, stretch ? (stretch.start + stretch.end) / 2 : null);
}

/** The rank whose name stands at a point of the window; empty if none does. */
export function rankAt(x: number, y: number): string {
  const row = x - box.value.left < gutter.value ? rowAt(y) : null;
  const place = row
    ? shape.value.ranks.findIndex((rank) => {
        const inside = inRow(y, row);
        return inside >= rank.host.y && inside < bottomOf(rank);
      })
    : -1;
  return ranks.value[place] ?? "";
}

/** The row at a height of the window; null on the ruler and below the last one. */
export function rowAt(y: number): Row | null {
  const inside = y - box.value.top;
  const found = rows.value.find((row) => inside >= row.y && inside < row.y + shape.value.height);
  return inside > RULER && found ? found : null;
}

/** A height of the window as px from the top of a row. */
export function inRow(y: number, row: Row): number {
  return y - box.value.top - row.y;
}

function rowOf(cycle: Cycle): Row | null {
  return rows.value.find((row) => cycleKey(row.cycle) === cycleKey(cycle)) ?? null;
}

function barIn(explained: Explained | null) {
  const row = explained && rowOf(explained.found.cycle);
  return row && barOf(row.bars, explained.found.rank.rank, explained.found.stretch);
}
