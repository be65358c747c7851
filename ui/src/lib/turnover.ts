// Which requests came into a batch with a cycle, and which were gone by then.
import { servedRows } from "./cycle.ts";
import type { Cycle } from "./wire.ts";

/** Ids of requests, as the batch has them; without the server's own health checks. */
export interface Turnover {
  /** The number of the decoding cycle that the batch is held against. */
  readonly before: number;
  readonly came: readonly string[];
  readonly left: readonly string[];
}

/**
 * What changed in the batch since the decoding cycle before the one at `place` of a list in order.
 * Prefills between the two have batches of their own and are passed over. Null where the cycle
 * decodes nothing, its requests are not told, or not all cycles back to that one are in the list.
 */
export function turnover(cycles: readonly Cycle[], place: number): Turnover | null {
  const cycle = cycles[place];
  const before = cycle && decodes(cycle) ? decodedBefore(cycles, place, cycle) : null;
  if (!(cycle?.requests && before?.requests)) {
    return null;
  }
  const [now, then] = [idsOf(cycle), idsOf(before)];
  return {
    before: before.n,
    came: [...now].filter((id) => !then.has(id)),
    left: [...then].filter((id) => !now.has(id)),
  };
}

function decodedBefore(cycles: readonly Cycle[], place: number, cycle: Cycle): Cycle | null {
  let { n } = cycle;
  for (let at = place - 1; at >= 0; at -= 1) {
    const other = cycles[at];
    if (other?.group === cycle.group) {
      if (other.n !== n - 1) {
        return null;
      }
      if (decodes(other)) {
        return other;
      }
      n = other.n;
    }
  }
  return null;
}

function decodes({ kind }: Cycle): boolean {
  return kind === "speculative" || kind === "decode";
}

function idsOf(cycle: Cycle): ReadonlySet<string> {
  return new Set(servedRows(cycle).map(({ id }) => id));
}
