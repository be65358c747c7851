// The times of phases on both lanes beside each other.
import { phaseOrder, topLevel } from "./phases.ts";
import type { CycleTimes, PhaseSummary } from "./wire.ts";

/** One phase on both lanes; null where a lane does not have it. */
export interface PhaseTimes {
  readonly name: string;
  readonly device: PhaseSummary | null;
  readonly host: PhaseSummary | null;
}

/** All phases of either lane in the order of a cycle. */
export function lanesOf({ phases, device }: CycleTimes): PhaseTimes[] {
  const of = (name: string, lane: readonly PhaseSummary[]) =>
    lane.find((phase) => phase.name === name) ?? null;
  return [...new Set([...phases, ...device].map((phase) => phase.name))]
    .sort((one, other) => phaseOrder(one) - phaseOrder(other))
    .map((name) => ({ name, device: of(name, device), host: of(name, phases) }));
}

/** The share of the cycles' time in which the device ran none of its phases, from 0 to 1. */
export function gapShare(device: readonly PhaseSummary[]): number {
  const top = device.filter((phase) => topLevel(phase.name) === phase.name);
  const busy = top.reduce((sum, phase) => sum + phase.share, 0);
  return top.length > 0 ? Math.max(0, 1 - busy) : 0;
}
