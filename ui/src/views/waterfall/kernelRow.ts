// The line of kernels below the device lane of the opened rank, and the kernel that is explained.
import { type Signal, signal } from "@preact/signals";
import { kernelsOf } from "../../kernels.ts";
import type { Range } from "../../lib/axis.ts";
import { cycleKey } from "../../lib/cycle.ts";
import {
  barOfKernel,
  type KernelBar,
  kernelAt,
  kernelBarAt,
  kernelBars,
  kernelRange,
  kernelStep,
  type RankKernels,
} from "../../lib/kernels.ts";
import type { Line, Window } from "../../lib/waterfall.ts";
import type { Cycle } from "../../lib/wire.ts";

/** From so many px a cycle on its kernels are drawn. */
export const KERNELS_FROM = 120;
/** The lower part of a line in which a pointer means what runs beside the busiest stream. */
const ASIDE_FROM = 0.6;

/** The kernels of a cycle, where they lie. */
export interface KernelRow {
  readonly cycle: Cycle;
  readonly kernels: RankKernels;
  /** By how much their times lie after those of the cycle, in ms. */
  readonly shiftMs: number;
  readonly line: Line;
  /** x from the left of the plot. */
  readonly bars: readonly KernelBar[];
}

/** A bar of a row. */
export interface LitKernel {
  readonly row: KernelRow;
  readonly bar: KernelBar;
}

/** A card that explains kernels, at a point of the window. */
export interface ExplainedKernels {
  readonly row: KernelRow;
  readonly places: readonly number[];
  readonly x: number;
  readonly y: number;
}

/** The kernel that the keyboard is on. */
export interface KernelSpot {
  readonly key: string;
  readonly rank: string;
  readonly place: number;
}

export const kernelSpot: Signal<KernelSpot | null> = signal(null);

/** The keys that go through kernels, and by how many. */
export const KERNEL_KEYS: Readonly<Record<string, 1 | -1>> = { ".": 1, ",": -1 };

/** The kernels of a cycle on a rank in a window whose 0 is the cycle's start; null without any. */
export function kernelRow(
  cycle: Cycle,
  rank: string,
  line: Line,
  window: Window,
): KernelRow | null {
  const found = kernelsOf(cycle, rank);
  return found && { cycle, ...found, line, bars: kernelBars(found.kernels, found.shiftMs, window) };
}

/** What lies at a point: px from the left of the plot, and from where `line` counts. */
export function kernelBarIn(row: KernelRow, x: number, y: number): LitKernel | null {
  const { line, bars } = row;
  const inside = y >= line.y && y < line.y + line.height;
  const aside = y - line.y >= line.height * ASIDE_FROM;
  const bar = inside ? kernelBarAt(bars, x, aside) : null;
  return bar && { row, bar };
}

/** The bar of the kernel that the keyboard is on, if it is in one of the rows. */
export function focusedKernelIn(rows: readonly KernelRow[]): LitKernel | null {
  const spot = kernelSpot.value;
  const row = spot && rows.find((each) => isIn(each, spot));
  const bar = row && barOfKernel(row.bars, spot.place);
  return bar ? { row, bar } : null;
}

function isIn({ cycle, kernels }: KernelRow, spot: KernelSpot): boolean {
  return cycleKey(cycle) === spot.key && kernels.rank === spot.rank;
}

/**
 * Moves the keyboard `by` kernels on in a cycle; from elsewhere to the first kernel of a phase.
 *
 * Returns when that one ran, in ms from the cycle's start; null where there is none.
 */
export function moveKernel(
  cycle: Cycle,
  rank: string,
  phase: string | null,
  by: 1 | -1,
): Range | null {
  const found = kernelsOf(cycle, rank);
  const key = cycleKey(cycle);
  const spot = kernelSpot.value;
  const from = spot?.key === key && spot.rank === rank ? spot.place : null;
  const place = found && kernelStep(found.kernels, from, by, phase);
  if (!found || place === null) {
    return null;
  }
  kernelSpot.value = { key, rank, place };
  return kernelRange(kernelAt(found.kernels, place), found.shiftMs);
}
