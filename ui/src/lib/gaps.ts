// When the device ran nothing, and why: `spectrace.analysis.bubbles.Bubbles`, read and in words.
import { decodeEstimate, type Estimate, maybeEstimate, percentText } from "./estimate.ts";
import { enumerate, ms, share } from "./format.ts";
import { flag, list, maybeNumber, number, object, text } from "./json.ts";
import { phaseLabel } from "./phases.ts";

/** The gaps between two phases. */
export interface Gap {
  readonly before: string;
  readonly after: string;
  /** The two are of two cycles. */
  readonly betweenCycles: boolean;
  readonly perCycle: number;
  readonly lengthMs: Estimate;
  /** Of all time, from 0 to 1. */
  readonly share: Estimate;
  /** Parts of all time by cause. */
  readonly causes: Readonly<Record<string, number>>;
}

/** All gaps of the first rank's device. */
export interface Gaps {
  readonly bound: string;
  readonly idleShare: Estimate | null;
  readonly hiddenShare: Estimate | null;
  readonly ownWorkMs: number | null;
  readonly causes: Readonly<Record<string, Estimate>>;
  readonly gaps: readonly Gap[];
  /** Why nothing can be said; empty where something can. */
  readonly problem: string;
}

/** Shorter ones are not shown: a share of the time. */
const SHOWN = 0.005;
/** So much of the time has a cause that is named. */
const NAMED = 0.01;
const BOUNDS: Readonly<Record<string, string>> = {
  host: "The server is host-bound: the device waits for the host.",
  device: "The server is device-bound: its device has next to no gaps.",
  others: "The device waits for other streams or ranks more than for the host.",
  open: "Whether host or device sets the pace cannot be said.",
};
const WHILE: Readonly<Record<string, string>> = {
  late_launch: "the host was still preparing or launching",
  scheduler: "the host was still in the scheduler",
  waiting: "another stream or rank kept the device",
  unclear: "the times do not say why",
};
/** The causes in the order of their columns, with their heads. */
export const CAUSES: readonly (readonly [cause: string, head: string])[] = [
  ["late_launch", "late launch"],
  ["scheduler", "scheduler"],
  ["waiting", "other streams, ranks"],
  ["unclear", "unclear"],
];

/** Reads them. */
export function decodeGaps(value: unknown): Gaps {
  const found = object(value, "bubbles");
  const causes = Object.entries(object(found["causes"], "causes"));
  return {
    bound: text(found, "bound"),
    idleShare: maybeEstimate(found, "idle_share"),
    hiddenShare: maybeEstimate(found, "hidden_share"),
    ownWorkMs: maybeNumber(found, "own_work_ms"),
    causes: Object.fromEntries(causes.map(([cause, part]) => [cause, decodeEstimate(part)])),
    gaps: list(found["gaps"], "gaps").map(decodeGap),
    problem: text(found, "problem"),
  };
}

function decodeGap(value: unknown): Gap {
  const gap = object(value, "gap");
  const causes = object(gap["causes"], "causes");
  return {
    before: text(gap, "before"),
    after: text(gap, "after"),
    betweenCycles: flag(gap, "between_cycles"),
    perCycle: number(gap, "per_cycle"),
    lengthMs: decodeEstimate(gap["length_ms"]),
    share: decodeEstimate(gap["share"]),
    causes: Object.fromEntries(CAUSES.map(([cause]) => [cause, number(causes, cause, 0)])),
  };
}

/** Those that take what matters of the time, the largest first. */
export function shownGaps({ gaps }: Gaps): readonly Gap[] {
  return gaps.filter((gap) => gap.share.value >= SHOWN);
}

/** "verify → draft extend", "draft extend → draft of the next". */
export function gapInWords({ before, after, betweenCycles }: Gap): string {
  return `${phaseLabel(before)} → ${phaseLabel(after)}${betweenCycles ? " of the next" : ""}`;
}

/** What sets the pace, for how long the device stands still and why, and what overlap hides. */
export function deviceGapsInWords({ problem, ...found }: Gaps): string[] {
  if (problem !== "") {
    return [problem];
  }
  const words = [BOUNDS[found.bound] ?? BOUNDS["open"] ?? ""];
  if (found.idleShare !== null) {
    words.push(`The device runs no phase in ${percentText(found.idleShare)} of the time.`);
  }
  const causes = Object.entries(found.causes)
    .filter(([, part]) => part.value >= NAMED)
    .sort(([, one], [, other]) => other.value - one.value)
    .map(([cause, part]) => `${share(part.value)} while ${WHILE[cause] ?? cause}`);
  if (causes.length > 0) {
    words.push(`Of all time that is ${enumerate(causes)}.`);
  }
  if (found.hiddenShare !== null && found.ownWorkMs !== null) {
    words.push(
      `The scheduler's own work takes ${ms(found.ownWorkMs)} of a cycle; in ${percentText(found.hiddenShare)} of that the device is busy meanwhile.`,
    );
  }
  return words;
}
