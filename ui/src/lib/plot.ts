// Where things stand in a small chart: from values to px.
import type { Range } from "./axis.ts";

/** A chart's size and what is kept free around its plot, in px. */
export interface Frame {
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

/** Where a value stands from the left. */
export function xOf({ width, left, right }: Frame, { start, end }: Range, value: number): number {
  return left + ((value - start) / (end - start)) * Math.max(0, width - left - right);
}

/** Where a value stands from above. */
export function yOf({ height, top, bottom }: Frame, { start, end }: Range, value: number): number {
  return top + (1 - (value - start) / (end - start)) * Math.max(0, height - top - bottom);
}

/** A line through points, for the `points` of an SVG's polyline or polygon. */
export function through(points: readonly (readonly [x: number, y: number])[]): string {
  return points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
}
