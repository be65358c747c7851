// Whether kernels can be looked at, and how many cycles of them.
import { maybeFlag, object, text, WireError } from "./json.ts";

/** How many cycles a look is of, unless somebody says otherwise. */
export const USUAL_CYCLES = 20;
/** The most that can be asked for. */
export const MOST_CYCLES = 1000;

/** What stands in the way of a look, seen from outside of the server. */
export interface Prospect {
  readonly open: boolean;
  /** A sentence; empty where it is open. */
  readonly why: string;
  /** What to do about it. */
  readonly mend: string;
}

/** Reads it. */
export function decodeProspect(value: unknown): Prospect {
  const found = object(value, "prospect");
  const open = maybeFlag(found, "open");
  if (open === null) {
    throw new WireError("open is missing");
  }
  return { open, why: text(found, "why", ""), mend: text(found, "mend", "") };
}

/** How many cycles somebody typed; null where that cannot be asked for. */
export function cyclesOf(typed: string): number | null {
  const cycles = /^\s*\d+\s*$/.test(typed) ? Number(typed) : 0;
  return cycles >= 1 && cycles <= MOST_CYCLES ? cycles : null;
}
