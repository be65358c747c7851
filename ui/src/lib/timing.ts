// How cycles were timed: which modes, what was asked for instead, and what each one means.
import { enumerate } from "./format.ts";
import type { Cycle, RunState } from "./wire.ts";

/** Cycles at the end of a list that speak of now. */
const NEWEST = 10;

const MEANINGS: Readonly<Record<string, string>> = {
  device: "Times come from events on the device; nothing waits.",
  host: "Times come from the host's clock: when the CPU did it, not when the device did.",
  sync: "A synchronize at every boundary: phases are right, but this timing slows the server.",
  off: "One host stamp per cycle, and no phases.",
};

/** How a run is timed now. */
export interface Timing {
  readonly modes: readonly string[];
  /** Modes that were asked for where a rank could not. */
  readonly asked: readonly string[];
  /** The server is slower for it. */
  readonly slows: boolean;
}

/** How a run is timed: by its newest cycles, else as the server says. */
export function timingOf(run: RunState, cycles: readonly Cycle[]): Timing {
  const ranks = cycles.slice(-NEWEST).flatMap((cycle) => cycle.ranks);
  const seen = distinct(ranks.map((rank) => rank.mode).filter(Boolean));
  const modes = seen.length > 0 ? seen : run.modes;
  const asked = distinct(ranks.flatMap((rank) => rank.askedMode ?? []));
  return { modes, asked, slows: modes.includes("sync") };
}

/** What the modes mean, what else was asked for, and why it was not done; sentences. */
export function timingInWords({ modes, asked }: Timing, reason: string): string {
  const meanings = modes.map((mode) => MEANINGS[mode] ?? mode);
  const instead = asked.length > 0 ? `Asked for was ${enumerate(asked)}.` : "";
  return [...meanings, instead, modes.includes("device") ? "" : reason].filter(Boolean).join(" ");
}

/** The modes of a cycle, such as "device"; of all ranks where they differ. */
export function modesOf(cycle: Cycle): string {
  return distinct(cycle.ranks.map((rank) => rank.mode)).join(", ");
}

/** "late switch", and what was asked for instead, where a cycle was timed in a way of its own. */
export function oddTiming(cycle: Cycle): string | null {
  const asked = distinct(cycle.ranks.flatMap((rank) => rank.askedMode ?? []));
  const late = cycle.ranks.some((rank) => rank.lateSwitch);
  const words = [
    ...(asked.length > 0 ? [`${enumerate(asked)} was asked for`] : []),
    ...(late ? ["switched late"] : []),
  ];
  return words.length > 0 ? words.join(", ") : null;
}

function distinct(values: readonly string[]): string[] {
  return [...new Set(values)].toSorted((one, other) => one.localeCompare(other));
}
