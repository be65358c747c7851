// What the newest look at kernels shows: `spectrace.analysis.made_of.MadeOf`, read and in words.
import { enumerate, fixed, ms, plural, share, whole } from "./format.ts";
import { maybeNumber, maybeText, number, object, objects, text } from "./json.ts";
import { classInWords } from "./kernelLook.ts";
import { phaseLabel } from "./phases.ts";

/** The kernels of one class in a phase, per cycle; `share` is of all kernels of the phase. */
export interface ClassPart {
  readonly kernelClass: string;
  readonly ms: number;
  readonly share: number;
}

/** What the device did for one phase, per cycle that has it. */
export interface PhaseParts {
  readonly phase: string;
  readonly deviceMs: number;
  /** Of that without any kernel. */
  readonly gapMs: number;
  /** By how much the kernels' times add up to more than the time in which one ran. */
  readonly besideMs: number;
  /** The most time first. */
  readonly parts: readonly ClassPart[];
  /** Share of communication, from 0 to 1. */
  readonly communication: number;
  /** One replay of its graph, seen whole; null where none was. */
  readonly replayMs: number | null;
  readonly replaysSeen: number;
  /** How many times as long the phase takes watched; null where that cannot be said. */
  readonly stretched: number | null;
}

/** The kernels of one rank, per cycle. */
export interface RankWork {
  readonly rank: string;
  readonly cycles: number;
  /** Without communication. */
  readonly ownMs: number;
  readonly communicationMs: number;
  readonly communication: number;
}

/** The newest look. */
export interface ReportedLook {
  /** `window` on a running server, or `trace` of another tool. */
  readonly source: string;
  readonly looks: number;
  readonly rank: string;
  /** What takes most time first; never empty. */
  readonly phases: readonly PhaseParts[];
  readonly ranks: readonly RankWork[];
  readonly slowest: string | null;
  /** A cycle before the window and while kernels were seen, the medians. */
  readonly beforeMs: number | null;
  readonly kernelsMs: number | null;
}

/** Reads it; null where nobody looked. */
export function decodeReportedLook(value: unknown): ReportedLook | null {
  if (value === null || value === undefined) {
    return null;
  }
  const look = object(value, "made_of");
  const cost = object(look["cost"] ?? {}, "cost");
  return {
    source: text(look, "source"),
    looks: number(look, "looks"),
    rank: text(look, "rank"),
    phases: objects(look, "phases").map((phase) => ({
      phase: text(phase, "phase"),
      deviceMs: number(phase, "device_ms"),
      gapMs: number(phase, "gap_ms"),
      besideMs: number(phase, "beside_ms"),
      parts: objects(phase, "parts").map((part) => ({
        kernelClass: text(part, "kernel_class"),
        ms: number(part, "time_ms"),
        share: number(part, "share"),
      })),
      communication: number(phase, "communication"),
      replayMs: maybeNumber(phase, "replay_ms"),
      replaysSeen: number(phase, "replays_seen", 0),
      stretched: maybeNumber(phase, "stretched"),
    })),
    ranks: objects(look, "ranks").map((rank) => ({
      rank: text(rank, "rank"),
      cycles: number(rank, "cycles"),
      ownMs: number(rank, "own_ms"),
      communicationMs: number(rank, "communication_ms"),
      communication: number(rank, "communication"),
    })),
    slowest: maybeText(look, "slowest"),
    beforeMs: maybeNumber(cost, "before_ms"),
    kernelsMs: maybeNumber(cost, "kernels_ms"),
  };
}

/** The target model's forward, of verify and else of plain decode. */
const FORWARDS = ["verify.forward", "verify", "forward"];
/** Of the device's time: what takes less is named in the table alone. */
const NAMED = 0.02;

/** The classes that occur, what takes most time in all phases first. */
export function classesOf({ phases }: ReportedLook): readonly string[] {
  const sums = new Map<string, number>();
  for (const { kernelClass, ms: time } of phases.flatMap(({ parts }) => parts)) {
    sums.set(kernelClass, (sums.get(kernelClass) ?? 0) + time);
  }
  return [...sums].toSorted(([, one], [, other]) => other - one).map(([kind]) => kind);
}

/** Of what the target model's forward is made, and how much of everything is communication. */
export function lookInWords(look: ReportedLook): string[] {
  const main = mainPhase(look);
  const own = look.ranks.find(({ rank }) => rank === look.rank);
  return main && own
    ? [
        phaseInWords(look.rank, main),
        `Communication is ${share(own.communication)} of the time of all kernels that ${own.rank}'s phases launched.`,
        ...ranksInWords(look),
      ]
    : [];
}

/** How far the figures are to be trusted. */
export function trustInWords(look: ReportedLook): string[] {
  const main = mainPhase(look);
  return [...(main ? replayInWords(main) : []), watchedInWords(look)];
}

function mainPhase({ phases }: ReportedLook): PhaseParts | null {
  const forwards = FORWARDS.map((name) => phases.find(({ phase }) => phase === name));
  return forwards.find((phase) => phase !== undefined) ?? phases[0] ?? null;
}

function phaseInWords(rank: string, { phase, deviceMs, gapMs, besideMs, parts }: PhaseParts) {
  if (parts.length === 0) {
    return `Of what ${phaseLabel(phase)} is made is not known.`;
  }
  const times = parts.map(
    ({ ms: time, kernelClass }) => [time, classInWords(kernelClass)] as const,
  );
  const named = times.filter(([time]) => time >= NAMED * deviceMs);
  const sum = (some: typeof times) => some.reduce((total, [time]) => total + time, 0);
  const restMs = sum(times) - sum(named);
  const rest = restMs >= NAMED * deviceMs ? [[restMs, "smaller ones"] as const] : [];
  const idle = gapMs > 0 ? [[gapMs, "nothing at all"] as const] : [];
  const takes = `${ms(deviceMs)} that ${rank}'s device takes for ${phaseLabel(phase)} in a cycle`;
  if (besideMs < NAMED * deviceMs) {
    return `Of the ${takes}, ${areInWords([...named, ...rest, ...idle])}.`;
  }
  const told = gapMs > 0 ? ` (${ms(gapMs)} of them nothing at all)` : "";
  return `In the ${takes}${told}, its kernels take ${ms(sum(times))}, since some ran at once: ${areInWords([...named, ...rest])}.`;
}

/** "17.2 ms are matrix products and 4.10 ms attention". */
function areInWords(parts: readonly (readonly [time: number, what: string])[]): string {
  return enumerate(
    parts.map(([time, what], place) => `${ms(time)} ${place === 0 ? "are " : ""}${what}`),
  );
}

function ranksInWords({ ranks, slowest }: ReportedLook): string[] {
  const [quickest] = ranks.toSorted((one, other) => one.ownMs - other.ownMs);
  const last = ranks.find(({ rank }) => rank === slowest);
  if (!(quickest && last)) {
    return [];
  }
  const words = [
    `${last.rank}'s own kernels take ${ms(last.ownMs)} of a cycle, those of ${quickest.rank} ${ms(quickest.ownMs)}.`,
  ];
  return quickest.communicationMs > last.communicationMs
    ? [
        ...words,
        `${quickest.rank} spends ${ms(quickest.communicationMs)} in communication, ${last.rank} ${ms(last.communicationMs)}: a collective lasts until the last rank has come, so that the difference may be waiting.`,
      ]
    : words;
}

function replayInWords({ phase, deviceMs, replayMs, replaysSeen, stretched }: PhaseParts) {
  const longer = stretched === null ? "" : `, ${fixed(stretched, 2)} times as much`;
  return replayMs === null
    ? []
    : [
        `Seen whole, which disturbs little, a replay of its graph took ${ms(replayMs)} (mean of ${plural(replaysSeen, "replay")}); kernel by kernel, and with what is launched around it, ${phaseLabel(phase)} takes ${ms(deviceMs)}${longer}.`,
      ];
}

function watchedInWords({ source, looks, rank, ranks, beforeMs, kernelsMs }: ReportedLook): string {
  const cycles = plural(ranks.find((one) => one.rank === rank)?.cycles ?? 0, "cycle");
  if (source === "trace") {
    return `Over ${cycles} of a trace: whoever wrote it made the server slower.`;
  }
  const newest = looks > 1 ? `, the newest of ${whole(looks)} looks` : "";
  const slower =
    beforeMs === null || kernelsMs === null
      ? ""
      : `: a cycle took ${ms(kernelsMs)} while kernels were seen, and ${ms(beforeMs)} before (medians)`;
  return `Over ${cycles} of a watched server${newest}${slower}. For how long phases take, timing is the measure.`;
}
