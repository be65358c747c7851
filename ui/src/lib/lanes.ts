// The two lanes of a rank: what the host did, and below it what the device did and did not.
import { EARLIER, GAP, topLevel } from "./phases.ts";
import type { Cycle, Phase, RankCycle } from "./wire.ts";

const NS_PER_MS = 1e6;

/** Who did the work. */
export type LaneName = "host" | "device";

/**
 * A drawn stretch of time: a phase, the parent of some parts, or one of the two above. Times in
 * ms from the cycle's start.
 */
export interface Stretch {
  readonly name: string;
  readonly lane: LaneName;
  readonly start: number;
  readonly end: number;
  readonly ofCycle: number;
  /** 0 for phases at the top level, 1 for parts. */
  readonly level: 0 | 1;
  /** As in `Phase`. */
  readonly graph: boolean | null;
  /** Of a gap: how much of it, in ms, had passed before the host came to what ended it. */
  readonly hostLate: number | null;
}

/** How much is known of what the device did in a cycle. */
export type DeviceKnown = "whole" | "incomplete" | "missing" | "nothing" | "untimed";

/** The phases of one lane, in order. */
export function phasesOf(rank: RankCycle, lane: LaneName): readonly Phase[] {
  return rank.phases.filter((phase) => phase.lane === lane);
}

/** Whether a rank has phases on its device lane. */
export function hasDevice(rank: RankCycle): boolean {
  return rank.phases.some((phase) => phase.lane === "device");
}

/** How much is known of a rank's device lane. */
export function deviceKnown(rank: RankCycle): DeviceKnown {
  if (hasDevice(rank)) {
    return rank.deviceIncomplete ? "incomplete" : "whole";
  }
  if (rank.deviceIncomplete) {
    return "missing";
  }
  return rank.mode === "device" ? "nothing" : "untimed";
}

/** What there is to say of a device lane that is not whole; null of one that is. */
export function deviceInWords(rank: RankCycle): string | null {
  switch (deviceKnown(rank)) {
    case "whole":
      return null;
    case "incomplete":
      return "device times incomplete";
    case "missing":
      return "device times missing";
    case "nothing":
      return "nothing timed on the device";
    default:
      return "not timed on the device";
  }
}

/**
 * What is drawn of a rank: the host lane in order, then the device lane; a parent comes right
 * before its parts. `before` is the cycle before this one where it is known: it says what the
 * device did until it came to this cycle.
 */
export function stretches(cycle: Cycle, rank: RankCycle, before: Cycle | null): Stretch[] {
  return [...laneStretches(rank, "host"), ...deviceStretches(cycle, rank, before)];
}

/** The cycle before the one at `place` of a list in order; null where it is not in the list. */
export function cycleBefore(cycles: readonly Cycle[], place: number): Cycle | null {
  const cycle = cycles[place];
  for (let at = place - 1; cycle && at >= 0; at -= 1) {
    const other = cycles[at];
    if (other?.group === cycle.group) {
      return other.n === cycle.n - 1 ? other : null;
    }
  }
  return null;
}

/** For how long the device ran no phase within a cycle, as far as that is known, in ms. */
export function gapMs(all: readonly Stretch[]): number {
  const gaps = all.filter((stretch) => stretch.name === GAP);
  return gaps.reduce((sum, gap) => sum + gap.end - gap.start, 0);
}

function laneStretches(rank: RankCycle, lane: LaneName): Stretch[] {
  const all: Stretch[] = [];
  let parent = -1;
  let end = Number.NaN;
  for (const phase of phasesOf(rank, lane)) {
    const stretch = stretchOf(phase, lane);
    const top = topLevel(phase.name);
    if (top === phase.name) {
      all.push(stretch);
      parent = -1;
    } else {
      const open = phase.start === end ? all[parent] : undefined;
      if (open?.name === top) {
        all[parent] = { ...open, end: stretch.end, graph: open.graph ?? stretch.graph };
      } else {
        parent = all.push({ ...stretch, name: top, level: 0 }) - 1;
      }
      all.push(stretch);
    }
    end = phase.end;
  }
  return all;
}

function stretchOf(phase: Phase, lane: LaneName): Stretch {
  return {
    name: phase.name,
    lane,
    start: phase.start / NS_PER_MS,
    end: phase.end / NS_PER_MS,
    ofCycle: phase.ofCycle,
    level: phase.name === topLevel(phase.name) ? 0 : 1,
    graph: phase.graph,
    hostLate: null,
  };
}

/** With what lies around and between the phases; only where nothing is missing is a hole a gap. */
function deviceStretches(cycle: Cycle, rank: RankCycle, before: Cycle | null): Stretch[] {
  const phases = laneStretches(rank, "device");
  if (phases.length === 0 || rank.deviceIncomplete) {
    return phases;
  }
  const all: Stretch[] = [];
  let end: number | null = null;
  for (const stretch of phases) {
    if (stretch.level === 0) {
      all.push(
        ...(end === null
          ? leadOf(cycle, rank, before, stretch)
          : gapOf(rank, end, stretch.start, stretch)),
      );
      end = stretch.end;
    }
    all.push(stretch);
  }
  return [...all, ...tailOf(rank, all)];
}

/** What the device did before its first phase of this cycle, as far as that is known. */
function leadOf(cycle: Cycle, rank: RankCycle, before: Cycle | null, first: Stretch): Stretch[] {
  const earlier = before?.ranks.find((each) => each.rank === rank.rank);
  if (!(before && earlier && deviceKnown(earlier) === "whole") || earlier.endedIdle) {
    return [];
  }
  const shift = before.t0Ms - cycle.t0Ms;
  const phases = phasesOf(earlier, "device");
  // What was before this cycle is drawn with the cycle before.
  const from = (ns: number) => Math.max(rank.start / NS_PER_MS, ns / NS_PER_MS + shift);
  const start = from(phases[0]?.start ?? 0);
  const end = Math.min(first.start, from(phases.at(-1)?.end ?? 0));
  const busy = { ...between(first, EARLIER, start, end), ofCycle: before.n };
  // Two mappings of the device's clock meet here: what is shorter than their errors is no gap.
  const error = clockErrorMs(rank) + clockErrorMs(earlier);
  const gap = first.start - end > error ? gapOf(rank, end, first.start, first) : [];
  return [...(end > start ? [busy] : []), ...gap];
}

/**
 * What the device did from its last phase to the end of the cycle on the host: nothing, for the
 * host gives it no phase of the next cycle before.
 */
function tailOf(rank: RankCycle, all: readonly Stretch[]): Stretch[] {
  const last = all.findLast((stretch) => stretch.level === 0);
  const end = rank.end / NS_PER_MS;
  if (!last || end - last.end <= clockErrorMs(rank)) {
    return [];
  }
  const hostLate = rank.endedIdle ? null : end - last.end;
  return [{ ...between(last, GAP, last.end, end), hostLate }];
}

/** The gap before `next`, if there is one. */
function gapOf(rank: RankCycle, start: number, end: number, next: Stretch): Stretch[] {
  if (end <= start) {
    return [];
  }
  const begun = hostStartOf(rank, next.start);
  const late = begun === null ? 0 : Math.min(begun, end) - start;
  const known = late > clockErrorMs(rank);
  return [{ ...between(next, GAP, start, end), hostLate: known ? late : null }];
}

function between(beside: Stretch, name: string, start: number, end: number): Stretch {
  return { ...beside, name, level: 0, start, end, graph: null, hostLate: null };
}

function clockErrorMs(rank: RankCycle): number {
  return (rank.clockErrorNs ?? 0) / NS_PER_MS;
}

/** When the host began the phase that the device began at `start`, both in ms. */
function hostStartOf(rank: RankCycle, start: number): number | null {
  const next = phasesOf(rank, "device").find((phase) => phase.start / NS_PER_MS === start);
  const named = (lane: LaneName) =>
    phasesOf(rank, lane).filter((phase) => phase.name === next?.name);
  const [host, device] = [named("host"), named("device")];
  const same = next && host.length === device.length ? host[device.indexOf(next)] : undefined;
  return same ? same.start / NS_PER_MS : null;
}
