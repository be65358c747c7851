// How the times of stored cycles are spread: read, laid out as bars, and put into words.
import { decimalsOf } from "./axis.ts";
import { decodeEstimate, type Estimate } from "./estimate.ts";
import { fixed, ms, plural, whole } from "./format.ts";
import {
  flag,
  type Json,
  list,
  maybeNumber,
  maybeText,
  number,
  numbers,
  object,
  objects,
  text,
  texts,
} from "./json.ts";
import type { LaneName } from "./lanes.ts";
import type { Bar, Look } from "./look.ts";
import { GAP, phaseLabel, topLevel } from "./phases.ts";
import { decodePosition, decodeSetting, type Position, type Setting } from "./report.ts";
import { unixMs } from "./wire.ts";

const NS_PER_MS = 1e6;
/** The name of the whole pass among those of phases. */
export const CYCLE = "cycle";

/** Percentiles of the times of some cycles, in ns. */
interface Times {
  readonly cycles: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

/** The times of a phase on one lane, in ns. */
export interface LaneSpread extends Times {
  readonly lane: LaneName;
  readonly least: number;
  readonly most: number;
  /** Cycles before the first bar. */
  readonly below: number;
  readonly bars: readonly number[];
  /** Cycles from the end of the last bar on. */
  readonly beyond: number;
}

/** The times of a phase on both lanes, on one axis. */
export interface PhaseSpread {
  readonly name: string;
  readonly lowNs: number;
  readonly stepNs: number;
  readonly lanes: readonly LaneSpread[];
}

/** One of the slowest cycles. */
export interface SlowCycle {
  readonly n: number;
  readonly t0Ms: number;
  readonly ns: number;
  readonly batch: number;
  readonly steps: number;
  /** What took longer than usual, and how long it usually takes; null where no single phase did. */
  readonly cause: {
    readonly name: string;
    readonly lane: LaneName;
    readonly ns: number;
    readonly usualNs: number;
  } | null;
}

/** What verify accepted under one setting. */
export interface Accepted {
  readonly setting: Setting;
  readonly verifies: number;
  readonly acceptLength: Estimate;
  /** Place i counts the verifies with i correct drafts. */
  readonly histogram: readonly number[];
  readonly positions: readonly Position[];
}

/** The times of cycles of one batch size and number of steps. */
export interface Alike extends Times {
  readonly batch: number;
  readonly steps: number;
}

/** Something to choose, and how many cycles it has. */
export interface Option<T> {
  readonly value: T;
  readonly cycles: number;
}

/** Everything that the page says of the cycles that were picked. */
export interface Spread {
  readonly groups: readonly string[];
  /** What was picked, with what was left open. */
  readonly look: Look;
  readonly kinds: readonly Option<string>[];
  readonly modes: readonly Option<string>[];
  readonly batches: readonly Option<number>[];
  readonly steps: readonly Option<number>[];
  readonly ranks: readonly string[];
  /** Cycles of the group that are stored. */
  readonly stored: number;
  /** The newest of them, among which was picked. */
  readonly lookedAt: number;
  /** Nothing was left out for being too much. */
  readonly whole: boolean;
  readonly warmUp: number;
  readonly untimed: number;
  readonly cycles: number;
  readonly alike: readonly Alike[];
  readonly phases: readonly PhaseSpread[];
  readonly slowest: readonly SlowCycle[];
  readonly acceptance: readonly Accepted[];
}

/** A cycle of a bar. */
export interface BarCycle {
  readonly n: number;
  readonly t0Ms: number;
  readonly ns: number;
  /** The time of the phase that the bar is of. */
  readonly valueNs: number;
  readonly batch: number;
  readonly steps: number;
}

/** Some of the cycles of a bar, the newest first. */
export interface BarPage {
  readonly total: number;
  readonly cycles: readonly BarCycle[];
  /** How to ask for those that follow; null where none do. */
  readonly before: number | null;
}

/** Reads what the server says of the cycles that were picked. */
export function decodeSpread(value: unknown): Spread {
  const spread = object(value, "distribution");
  const seen = object(spread["seen"], "seen");
  const choice = object(spread["choice"], "choice");
  const numbered = (key: string) =>
    options(seen[key], key).map(({ value: name, cycles }) => ({ value: Number(name), cycles }));
  return {
    groups: texts(spread, "groups"),
    look: {
      group: text(choice, "group"),
      rank: maybeText(choice, "rank"),
      kind: maybeText(choice, "kind"),
      mode: maybeText(choice, "mode"),
      batch: maybeNumber(choice, "batch"),
      steps: maybeNumber(choice, "steps"),
      lastS: maybeNumber(choice, "last_s"),
    },
    kinds: options(seen["kinds"], "kinds"),
    modes: options(seen["modes"], "modes"),
    batches: numbered("batches"),
    steps: numbered("steps"),
    ranks: texts(seen, "ranks"),
    stored: number(spread, "stored"),
    lookedAt: number(spread, "looked_at"),
    whole: flag(spread, "whole"),
    warmUp: number(spread, "warm_up"),
    untimed: number(spread, "untimed"),
    cycles: number(spread, "cycles"),
    alike: objects(spread, "alike").map((alike) => ({
      batch: number(alike, "batch"),
      steps: number(alike, "steps"),
      ...decodeTimes(alike),
    })),
    phases: list(spread["phases"], "phases").map(decodePhase),
    slowest: list(spread["slowest"], "slowest").map(decodeSlow),
    acceptance: list(spread["acceptance"], "acceptance").map(decodeAccepted),
  };
}

/** Reads the cycles of a bar. */
export function decodeBarPage(value: unknown): BarPage {
  const page = object(value, "bar");
  return {
    total: number(page, "total"),
    cycles: objects(page, "cycles").map((cycle) => ({
      ...decodeCycle(cycle),
      valueNs: number(cycle, "value_ns"),
    })),
    before: maybeNumber(page, "before"),
  };
}

function options(value: unknown, what: string): Option<string>[] {
  const counts = object(value, what);
  return Object.keys(counts).map((name) => ({ value: name, cycles: number(counts, name) }));
}

function decodePhase(value: unknown): PhaseSpread {
  const phase = object(value, "phase");
  return {
    name: text(phase, "name"),
    lowNs: number(phase, "low_ns"),
    stepNs: number(phase, "step_ns"),
    lanes: objects(phase, "lanes").map((lane) => ({
      lane: laneOf(lane),
      ...decodeTimes(lane),
      least: number(lane, "least_ns"),
      most: number(lane, "most_ns"),
      below: number(lane, "below"),
      bars: numbers(lane, "bars"),
      beyond: number(lane, "beyond"),
    })),
  };
}

function decodeTimes(from: Json): Times {
  return {
    cycles: number(from, "cycles"),
    p50: number(from, "p50_ns"),
    p95: number(from, "p95_ns"),
    p99: number(from, "p99_ns"),
  };
}

function laneOf(from: Json): LaneName {
  return text(from, "lane") === "device" ? "device" : "host";
}

function decodeCycle(cycle: Json) {
  return {
    n: number(cycle, "n"),
    t0Ms: unixMs(text(cycle, "t0")),
    ns: number(cycle, "took_ns"),
    batch: number(cycle, "batch"),
    steps: number(cycle, "steps"),
  };
}

function decodeSlow(value: unknown): SlowCycle {
  const cycle = object(value, "cycle");
  const found = cycle["cause"] ?? null;
  const cause = found === null ? null : object(found, "cause");
  return {
    ...decodeCycle(cycle),
    cause: cause && {
      name: text(cause, "name"),
      lane: laneOf(cause),
      ns: number(cause, "took_ns"),
      usualNs: number(cause, "usual_ns"),
    },
  };
}

function decodeAccepted(value: unknown): Accepted {
  const accepted = object(value, "acceptance");
  return {
    setting: decodeSetting(accepted["setting"]),
    verifies: number(accepted, "verifies"),
    acceptLength: decodeEstimate(accepted["accept_length"]),
    histogram: numbers(accepted, "histogram"),
    positions: objects(accepted, "positions").map(decodePosition),
  };
}

/** How many bars a phase has. */
export function barsOf({ lanes }: PhaseSpread): number {
  return Math.max(0, ...lanes.map((lane) => lane.bars.length));
}

/** The most cycles in one bar of either lane. */
export function tallest({ lanes }: PhaseSpread): number {
  return Math.max(1, ...lanes.flatMap((lane) => lane.bars));
}

/** The height of a bar, from 0 to 1: the square root, so that a few cycles can be seen. */
export function heightOf(count: number, most: number): number {
  return Math.sqrt(count / most);
}

/** The limits of a bar; its place counts from 0, and what is outside of all has one limit. */
export function barOf(phase: PhaseSpread, lane: LaneName, place: number): Bar {
  const count = barsOf(phase);
  const edge = (at: number) => phase.lowNs + at * phase.stepNs;
  return {
    phase: phase.name,
    lane,
    fromNs: place < 0 ? null : edge(Math.min(place, count)),
    toNs: place >= count ? null : edge(Math.max(place + 1, 0)),
  };
}

/** How many cycles a bar of `barOf` has. */
export function countOf(phase: PhaseSpread, lane: LaneName, place: number): number {
  const spread = phase.lanes.find((each) => each.lane === lane);
  if (!spread) {
    return 0;
  }
  if (place < 0) {
    return spread.below;
  }
  return place < spread.bars.length ? (spread.bars[place] ?? 0) : spread.beyond;
}

/** Which bar a point is on: `x` from 0 to 1 along the axis. */
export function placeAt(phase: PhaseSpread, x: number): number {
  const count = barsOf(phase);
  return Math.max(0, Math.min(count - 1, Math.floor(x * count)));
}

/**
 * Whose bar a point means, `y` from 0 at the axis to 1: the lower of those that reach up to it,
 * else the taller one. Null where neither lane has a cycle there.
 */
export function laneAt(phase: PhaseSpread, place: number, y: number): LaneName | null {
  const most = tallest(phase);
  const found = phase.lanes
    .map(({ lane }) => ({ lane, height: heightOf(countOf(phase, lane, place), most) }))
    .filter(({ height }) => height > 0)
    .toSorted((one, other) => one.height - other.height);
  return (found.find(({ height }) => height >= y) ?? found.at(-1))?.lane ?? null;
}

/** Where a time stands along the axis, from 0 to 1; null where it lies beyond. */
export function along(phase: PhaseSpread, ns: number): number | null {
  const x = (ns - phase.lowNs) / (phase.stepNs * barsOf(phase));
  return x >= 0 && x <= 1 ? x : null;
}

/** The bars of one lane as the `d` of a path, in a plot of this size in px. */
export function barsPath(
  phase: PhaseSpread,
  lane: LaneSpread,
  width: number,
  height: number,
): string {
  const most = tallest(phase);
  const each = width / barsOf(phase);
  const gap = each > 3 ? 1 : 0;
  const top = (count: number) => (height - heightOf(count, most) * height).toFixed(1);
  if (lane.lane === "host") {
    const steps = lane.bars.map(
      (count, place) => `V${top(count)}H${((place + 1) * each).toFixed(1)}`,
    );
    return `M0,${height}${steps.join("")}V${height}`;
  }
  return lane.bars
    .map((count, place) =>
      count > 0
        ? `M${(place * each).toFixed(1)},${height}V${top(count)}h${Math.max(0.5, each - gap).toFixed(1)}V${height}z`
        : "",
    )
    .join("");
}

/** "28.95–29.00 ms", "below 28.95 ms", "from 29.00 ms on": with the decimals that tell it apart. */
export function rangeText({ fromNs, toNs }: Pick<Bar, "fromNs" | "toNs">): string {
  const step = fromNs === null || toNs === null ? null : Math.max(1, toNs - fromNs);
  const small = (toNs ?? fromNs ?? 0) < 0.1 * NS_PER_MS;
  const [unit, divisor] = small ? ["µs", 1000] : ["ms", NS_PER_MS];
  const decimals =
    step === null ? 2 : Math.min(3, Math.max(small ? 0 : 2, decimalsOf(step / divisor)));
  const shown = (ns: number) => fixed(ns / divisor, decimals);
  if (fromNs === null) {
    return toNs === null ? "any time" : `below ${shown(toNs)} ${unit}`;
  }
  return toNs === null
    ? `from ${shown(fromNs)} ${unit} on`
    : `${shown(fromNs)}–${shown(toNs)} ${unit}`;
}

/** "verify on the device", "the whole cycle". */
export function subjectOf(phase: string, lane: LaneName): string {
  if (phase === CYCLE) {
    return "the whole cycle";
  }
  const where = lane === "device" ? "on the device" : "by host clock";
  return `${phaseLabel(phase)} ${where}`;
}

/** A bar in words, with its cycles. */
export function barInWords(phase: PhaseSpread, lane: LaneName, place: number): string {
  const count = countOf(phase, lane, place);
  const subject = phase.lanes.length > 1 ? `${lane}, ` : "";
  return `${subject}${rangeText(barOf(phase, lane, place))}: ${plural(count, "cycle")}`;
}

/** Phases without those that say nothing new: a parent with a single part of the same times. */
export function shownPhases(phases: readonly PhaseSpread[]): readonly PhaseSpread[] {
  return phases.filter((phase) => {
    const parts = phases.filter(
      (other) => other.name !== phase.name && topLevel(other.name) === phase.name,
    );
    const [only] = parts;
    return !(parts.length === 1 && only && sameTimes(phase, only));
  });
}

function sameTimes(one: PhaseSpread, other: PhaseSpread): boolean {
  return (
    one.lanes.length === other.lanes.length &&
    one.lanes.every((lane, place) => {
      const same = other.lanes[place];
      return same && lane.lane === same.lane && lane.p50 === same.p50 && lane.most === same.most;
    })
  );
}

/** Of how many cycles the figures are, and what is not among them. */
export function groundOf(spread: Spread): string {
  const parts = [
    plural(spread.cycles, "cycle"),
    spread.warmUp > 0 ? `${whole(spread.warmUp)} of warm-up left out` : "",
    spread.untimed > 0 ? `${whole(spread.untimed)} without a whole time left out` : "",
  ];
  return parts.filter(Boolean).join(", ");
}

/** That not all could be read; null where they were. */
export function cutInWords(spread: Spread): string | null {
  return spread.whole
    ? null
    : `Among the newest ${whole(spread.lookedAt)} of ${whole(spread.stored)} cycles: to read more would take too long.`;
}

/** Why a cycle was slow. */
export function causeInWords({ cause }: SlowCycle): string {
  if (!cause) {
    return "no single phase";
  }
  const name = cause.name === GAP ? "gap" : phaseLabel(cause.name);
  const where = cause.lane === "device" ? "" : ", host";
  return `${name} ${ms(cause.ns / NS_PER_MS)}${where}; usually ${ms(cause.usualNs / NS_PER_MS)}`;
}
