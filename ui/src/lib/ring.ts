// The newest cycles of a run, oldest first; a cycle that is sent again replaces itself.
import { type CycleId, cycleKey } from "./cycle.ts";
import type { Cycle } from "./wire.ts";

/** Cycles in the order of their start, at most about `capacity` of them. */
export class CycleRing {
  readonly #capacity: number;
  readonly #keys = new Set<string>();
  readonly #cycles: Cycle[] = [];

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** Oldest first. Not to be changed; valid until the next `put`. */
  get cycles(): readonly Cycle[] {
    return this.#cycles;
  }

  /**
   * Takes a cycle in.
   *
   * Returns the earlier version that it replaced, null if it is new.
   */
  put(cycle: Cycle): Cycle | null {
    const previous = this.has(cycle) ? this.#take(cycle) : null;
    this.#keys.add(cycleKey(cycle));
    insert(this.#cycles, cycle);
    this.#dropOldest();
    return previous;
  }

  /** Whether a cycle, or an earlier version of it, is here. */
  has(id: CycleId): boolean {
    return this.#keys.has(cycleKey(id));
  }

  #take(cycle: Cycle): Cycle | null {
    const place = placeOf(this.#cycles, cycle.group, cycle.n);
    return place < 0 ? null : (this.#cycles.splice(place, 1)[0] ?? null);
  }

  #dropOldest(): void {
    // A block at a time: moving the whole list for every cycle would cost more than keeping a few.
    const block = Math.ceil(this.#capacity / 8);
    if (this.#cycles.length >= this.#capacity + block) {
      for (const cycle of this.#cycles.splice(0, block)) {
        this.#keys.delete(cycleKey(cycle));
      }
    }
  }
}

/** The cycle of this group and number in a list, null if it is not there. */
export function findCycle(cycles: readonly Cycle[], group: string, n: number): Cycle | null {
  return cycles[placeOf(cycles, group, n)] ?? null;
}

/** A list with `cycle` in place of its earlier version; the same list if there is none. */
export function amend(cycles: readonly Cycle[], cycle: Cycle): readonly Cycle[] {
  const place = placeOf(cycles, cycle.group, cycle.n);
  return place < 0 ? cycles : cycles.with(place, cycle);
}

/** Two lists in one, oldest first; of a cycle that is in both, the one of `newer` stays. */
export function merge(older: readonly Cycle[], newer: readonly Cycle[]): Cycle[] {
  const known = new Set(newer.map(cycleKey));
  return [...older.filter((cycle) => !known.has(cycleKey(cycle))), ...newer].sort(byStart);
}

/** Orders cycles by their start; those of a group by number, for a clock may be set or wrong. */
export function byStart(one: Cycle, other: Cycle): number {
  if (one.group === other.group) {
    return one.n - other.n;
  }
  return one.t0Ms - other.t0Ms || one.n - other.n;
}

function placeOf(cycles: readonly Cycle[], group: string, n: number): number {
  return cycles.findLastIndex((cycle) => cycle.n === n && cycle.group === group);
}

function insert(cycles: Cycle[], cycle: Cycle): void {
  let place = cycles.length;
  for (let before = cycles[place - 1]; before && byStart(before, cycle) > 0; ) {
    place -= 1;
    before = cycles[place - 1];
  }
  cycles.splice(place, 0, cycle);
}
