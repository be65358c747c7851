// Limits and ticks of axes.
import { fixed } from "./format.ts";
import { ascending, percentile } from "./summary.ts";

const MS_PER_S = 1000;
const DAY_MS = 86_400_000;
const LONGEST_NICE_MS = 5000;
const LONG_S = [10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200];
const STEPS = [1, 2, 5, 10] as const;
const EXACT = [1, 0.1, 0.01] as const;
const SPANS = [1, 1.2, 1.5, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10] as const;

/** A stretch of an axis. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** The smallest of 1, 2, 5 times a power of ten that is at least `value`. */
export function niceStep(value: number): number {
  return nice(value, STEPS);
}

/**
 * The step of an axis of the time of day, in ms: as `niceStep`, and from 10 s on one that divides
 * a minute, an hour or a day, or is whole days.
 */
export function timeStep(value: number): number {
  const days = Math.ceil(value / DAY_MS - 1e-9) * DAY_MS;
  return value <= LONGEST_NICE_MS
    ? niceStep(value)
    : (LONG_S.map((step) => step * MS_PER_S).find((step) => step >= value * (1 - 1e-9)) ?? days);
}

/** Round numbers from `start` to `end`, at most about `most` of them. */
export function ticks(
  { start, end }: Range,
  most: number,
  step = niceStep((end - start) / Math.max(1, most)),
): number[] {
  const first = Math.ceil(start / step - 1e-9);
  const count = Math.floor(end / step + 1e-9) - first + 1;
  // Multiplied, not added up, so that 0.3 stays 0.3 as well as it can.
  return Array.from({ length: Math.max(0, count) }, (_, place) => (first + place) * step);
}

/** As many decimals as a step needs. */
export function decimalsOf(step: number): number {
  return Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
}

/**
 * A place on an axis of time: `value` and its `step` in ms. All of an axis have the unit that
 * suits its `end`, so that they can be compared at a glance.
 */
export function tickText(value: number, step: number, end: number): string {
  const [unit, divisor] = end >= MS_PER_S ? ["s", MS_PER_S] : ["ms", 1];
  return value === 0 ? "0" : `${fixed(value / divisor, decimalsOf(step / divisor))} ${unit}`;
}

/** The largest of 1, 0.1 and 0.01 of which both ends of a track are multiples, else the last. */
export function exactStep({ start, end }: Range): number {
  const fits = (value: number, step: number) =>
    Math.abs(value / step - Math.round(value / step)) < 1e-6;
  return EXACT.find((step) => fits(start, step) && fits(end, step)) ?? 0.01;
}

/** A limit of a track, in the few letters that stand beside it; `step` is the track's. */
export function limitText(value: number, step: number): string {
  const decimals = Math.min(2, decimalsOf(step));
  return value < 1e6 ? fixed(value, decimals) : value.toExponential(1).replace("e+", "e");
}

/**
 * Round limits around the values, those of `now` if they still fit: limits that move with
 * every second could not be read. Never below `floor`. Null without values.
 */
export function limits(
  values: readonly (number | null)[],
  now: Range | null,
  floor = 0,
): Range | null {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) {
    return now;
  }
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const room = Math.max(high - low, high * 0.1, 1e-3);
  if (now && low >= now.start && high <= now.end && room >= (now.end - now.start) * 0.3) {
    return now;
  }
  if (high === 0) {
    return { start: 0, end: 1 };
  }
  const step = niceStep(room / 2);
  const start = Math.max(floor, Math.floor((low - room * 0.1) / step) * step);
  const end = Math.ceil((high + room * 0.1) / step) * step;
  return { start, end: end > start ? end : start + step };
}

/**
 * A round length of the waterfall's axis for these durations: nine tenths of the cycles fit
 * with room to spare. `now` stays while they fit and fill at least half of it.
 */
export function axisSpan(durations: readonly number[], now: number | null): number {
  if (durations.length === 0) {
    return now ?? 10;
  }
  const need = percentile(ascending(durations), 90) * 1.04;
  return now !== null && need <= now && need >= now * 0.5 ? now : nice(need, SPANS);
}

function nice(value: number, steps: readonly number[]): number {
  if (!(value > 0)) {
    return 1;
  }
  const power = 10 ** Math.floor(Math.log10(value) + 1e-12);
  const factor = steps.find((step) => step * power >= value * (1 - 1e-9)) ?? 10;
  return factor * power;
}
