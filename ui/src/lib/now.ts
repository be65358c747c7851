// What "now" is: the browser's clock, and by how much the clock of a traced machine differs from it.
import { cycleMs } from "./cycle.ts";
import { median } from "./summary.ts";
import type { Cycle } from "./wire.ts";

const SAMPLE = 15;
const ENOUGH = 5;
/** Less is the way of a cycle to the page, not a difference between clocks. */
const NOTABLE_MS = 1000;
/** A cycle that ends later than this after now is taken for one of the future. */
const FUTURE_MS = 5000;

/** By how much a machine's clock is behind the browser's, as its arriving cycles tell. */
export class Skew {
  readonly #behindMs: number[] = [];

  /** Takes in how long before its arrival the newest of some new cycles ended. */
  put(behindMs: number): void {
    this.#behindMs.push(behindMs);
    this.#behindMs.splice(0, this.#behindMs.length - SAMPLE);
  }

  /** In ms; 0 unless most cycles agree, so that a single one from the future moves nothing. */
  get ms(): number {
    const middle = this.#behindMs.length >= ENOUGH ? (median(this.#behindMs) ?? 0) : 0;
    return Math.abs(middle) >= NOTABLE_MS ? middle : 0;
  }
}

/** When a cycle ended on its first rank, UNIX ms. */
export function endOf(cycle: Cycle): number {
  return cycle.t0Ms + cycleMs(cycle);
}

/** Cycles without those at their end that come from the future; oldest first. */
export function until(cycles: readonly Cycle[], nowMs: number): readonly Cycle[] {
  const last = cycles.findLastIndex((cycle) => endOf(cycle) <= nowMs + FUTURE_MS);
  return last === cycles.length - 1 ? cycles : cycles.slice(0, last + 1);
}
