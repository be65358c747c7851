// A look at the kernels of a run: what it found of each phase, what it cost, and that in words.
import { enumerate, ms, plural, share, whole } from "./format.ts";
import { flag, type Json, maybeNumber, number, object, objects, text } from "./json.ts";
import type { ClassShare } from "./madeOf.ts";
import { phaseLabel, phaseOrder } from "./phases.ts";
import { type Looking, unixMs } from "./wire.ts";

/** What the device did for one phase, per cycle that has it. */
export interface PhaseWork {
  readonly rank: string;
  readonly phase: string;
  readonly cycles: number;
  readonly deviceMs: number;
  readonly busyMs: number;
  readonly gapMs: number;
  readonly kernels: number;
  readonly launches: number;
  readonly replays: number;
  /** Null where none was seen whole. */
  readonly replayMs: number | null;
}

/** The time of one class of kernels in one phase, over all cycles. */
export interface ClassTime {
  readonly rank: string;
  /** Empty for what no phase launched. */
  readonly phase: string;
  readonly kernelClass: string;
  readonly ms: number;
  readonly kernels: number;
}

/** What a window cost one rank; medians are null where no cycle was there. */
export interface WindowCost {
  readonly rank: string;
  readonly loadingMs: number;
  readonly switchingMs: number;
  readonly flushingMs: number;
  readonly takingMs: number;
  readonly beforeMs: number | null;
  readonly graphsMs: number | null;
  readonly kernelsMs: number | null;
  readonly afterMs: number | null;
}

/** What of one rank is not in the figures. */
export interface WindowLoss {
  readonly rank: string;
  readonly records: number;
  readonly noRoom: number;
  readonly torn: number;
  readonly unfinished: number;
  readonly unknown: number;
  readonly unnamed: number;
  readonly cutShort: boolean;
  readonly clockStepped: boolean;
}

/** One look. */
export interface KernelLook {
  /** `window` on a running server, or `trace` of another tool. */
  readonly source: string;
  /** UNIX ms from which on kernels were seen one by one, and up to which. */
  readonly startMs: number;
  readonly endMs: number;
  /** How many cycles were asked for; 0 for a trace. */
  readonly cycles: number;
  /** By rank. */
  readonly cyclesSeen: ReadonlyMap<string, number>;
  readonly phases: readonly PhaseWork[];
  readonly classes: readonly ClassTime[];
  /** By rank the share of communication, from 0 to 1. */
  readonly communication: ReadonlyMap<string, number>;
  readonly costs: readonly WindowCost[];
  readonly losses: readonly WindowLoss[];
}

/** Reads the looks of a run, the oldest first. */
export function decodeLooks(value: unknown): KernelLook[] {
  return objects(object(value, "answer"), "looks").map((look) => ({
    source: text(look, "source"),
    startMs: unixMs(text(look, "start_ns")),
    endMs: unixMs(text(look, "end_ns")),
    cycles: number(look, "cycles"),
    cyclesSeen: byRank(look, "cycles_seen"),
    phases: objects(look, "phases").map(decodeWork),
    classes: objects(look, "kernels").map((one) => ({
      rank: text(one, "rank"),
      phase: text(one, "phase"),
      kernelClass: text(one, "kernel_class"),
      ms: number(one, "time_ms"),
      kernels: number(one, "kernels"),
    })),
    communication: byRank(look, "communication"),
    costs: maybeObjects(look, "costs").map(decodeCost),
    losses: maybeObjects(look, "losses").map(decodeLoss),
  }));
}

function maybeObjects(from: Json, key: string): readonly Json[] {
  return from[key] === undefined || from[key] === null ? [] : objects(from, key);
}

function byRank(from: Json, key: string): ReadonlyMap<string, number> {
  const found = object(from[key] ?? {}, key);
  return new Map(Object.keys(found).map((rank) => [rank, number(found, rank)]));
}

function decodeWork(one: Json): PhaseWork {
  return {
    rank: text(one, "rank"),
    phase: text(one, "phase"),
    cycles: number(one, "cycles"),
    deviceMs: number(one, "device_ms"),
    busyMs: number(one, "busy_ms"),
    gapMs: number(one, "gap_ms"),
    kernels: number(one, "kernels"),
    launches: number(one, "launches"),
    replays: number(one, "replays"),
    replayMs: maybeNumber(one, "replay_ms"),
  };
}

function decodeCost(one: Json): WindowCost {
  return {
    rank: text(one, "rank"),
    loadingMs: number(one, "loading_ms"),
    switchingMs: number(one, "switching_ms"),
    flushingMs: number(one, "flushing_ms"),
    takingMs: number(one, "taking_ms"),
    beforeMs: maybeNumber(one, "before_ms"),
    graphsMs: maybeNumber(one, "graphs_ms"),
    kernelsMs: maybeNumber(one, "kernels_ms"),
    afterMs: maybeNumber(one, "after_ms"),
  };
}

function decodeLoss(one: Json): WindowLoss {
  return {
    rank: text(one, "rank"),
    records: number(one, "records"),
    noRoom: number(one, "no_room", 0),
    torn: number(one, "torn", 0),
    unfinished: number(one, "unfinished", 0),
    unknown: number(one, "unknown", 0),
    unnamed: number(one, "unnamed", 0),
    cutShort: flag(one, "cut_short"),
    clockStepped: flag(one, "clock_stepped"),
  };
}

/** The ranks of a look in its own order. */
export function ranksOf({ cyclesSeen, phases }: KernelLook): readonly string[] {
  return [...new Set([...cyclesSeen.keys(), ...phases.map(({ rank }) => rank)])];
}

/** The phases of a rank in the order of a cycle. */
export function worksOf({ phases }: KernelLook, rank: string): readonly PhaseWork[] {
  return phases
    .filter((one) => one.rank === rank)
    .toSorted((one, other) => phaseOrder(one.phase) - phaseOrder(other.phase));
}

/** One phase by class; empty for what no phase launched. */
export interface PhaseClasses {
  readonly phase: string;
  readonly ms: number;
  readonly kernels: number;
  /** The most time first. */
  readonly classes: readonly (ClassShare & { readonly kernels: number })[];
}

/** The kernels of a rank by phase, in the order of a cycle; what no phase launched comes last. */
export function classesOf(look: KernelLook, rank: string): readonly PhaseClasses[] {
  const phases = new Map<string, ClassTime[]>();
  for (const one of look.classes.filter((each) => each.rank === rank)) {
    phases.set(one.phase, [...(phases.get(one.phase) ?? []), one]);
  }
  const place = (phase: string) => (phase === "" ? Number.POSITIVE_INFINITY : phaseOrder(phase));
  return [...phases]
    .toSorted(([one], [other]) => place(one) - place(other))
    .map(([phase, times]) => {
      const total = times.reduce((sum, { ms: time }) => sum + time, 0);
      return {
        phase,
        ms: total,
        kernels: times.reduce((sum, { kernels }) => sum + kernels, 0),
        classes: times
          .toSorted((one, other) => other.ms - one.ms)
          .map(({ kernelClass, ms: time, kernels }) => ({
            kernelClass,
            ms: time,
            share: total > 0 ? time / total : 0,
            kernels,
          })),
      };
    });
}

const CLASS_WORDS: Readonly<Record<string, string>> = {
  communication: "communication",
  moe: "work of experts",
  attention: "attention",
  matmul: "matrix products",
  norm: "norms",
  sampling: "sampling",
  copy: "copies and fills",
  other: "kernels of no class",
};

/** What kernels of a class do; the name itself of a class of somebody's own. */
export function classInWords(kernelClass: string): string {
  return CLASS_WORDS[kernelClass] ?? kernelClass;
}

/** "verify forward": a phase within a sentence. */
function phaseInWords(phase: string): string {
  return phaseLabel(phase).replaceAll(".", " ");
}

/** What a rank's biggest phase is made of, and how much of all time is communication. */
export function headline(look: KernelLook, rank: string): string {
  const phases = classesOf(look, rank).filter(({ phase }) => phase !== "");
  const [biggest] = phases.toSorted((one, other) => other.ms - one.ms);
  const [first] = biggest?.classes ?? [];
  if (!(biggest && first)) {
    return `No phase of ${rank} was seen to launch a kernel.`;
  }
  const what = `${phaseInWords(biggest.phase)} is ${share(first.share)} ${classInWords(first.kernelClass)}`;
  const told = look.communication.get(rank) ?? 0;
  const rest = told > 0 ? `; communication is ${share(told)} of all kernels' time` : "";
  return `${what.charAt(0).toUpperCase()}${what.slice(1)}${rest}.`;
}

/** Of which cycles the figures are. */
export function groundOf(look: KernelLook, rank: string): string {
  const seen = look.cyclesSeen.get(rank) ?? 0;
  const of = `Per cycle on ${rank}, over ${plural(seen, "cycle")} whose kernels were seen one by one`;
  return look.source === "trace"
    ? `${of}, from a trace.`
    : `${of}, of ${whole(look.cycles)} that were asked for. A server that is watched is slower: for how long phases take, timing is the measure.`;
}

/** What the window cost a rank, in two sentences. */
export function costInWords(cost: WindowCost): string {
  const stood = cost.loadingMs + cost.switchingMs + cost.flushingMs;
  const medians = (
    [
      [cost.beforeMs, "before the window"],
      [cost.graphsMs, "while graphs were seen whole"],
      [cost.kernelsMs, "while kernels were"],
      [cost.afterMs, "after it"],
    ] as const
  ).flatMap(([time, when]) => (time === null ? [] : [`${ms(time)} ${when}`]));
  const held =
    `The window held ${cost.rank} up for ${ms(stood)}, ${ms(cost.loadingMs)} of that to load CUPTI. ` +
    `Taking its buffers took ${ms(cost.takingMs)}.`;
  return medians.length > 0 ? `${held} A cycle took ${enumerate(medians)} (medians).` : held;
}

/** What is not in the figures, a sentence for each kind. */
export function lossesInWords({ losses }: KernelLook): readonly string[] {
  return losses.flatMap((loss) =>
    [
      loss.noRoom > 0
        ? `${whole(loss.noRoom)} of ${whole(loss.records)} records found no room: look at fewer cycles.`
        : "",
      loss.torn > 0
        ? `${plural(loss.torn, "buffer")} could not be read, and ${isAre(loss.torn)} left out.`
        : "",
      loss.unfinished > 0
        ? `${plural(loss.unfinished, "kernel")} had not ended, and ${isAre(loss.unfinished)} left out.`
        : "",
      loss.unknown > 0
        ? `${plural(loss.unknown, "record")} can only be another tool's in this server, and ${isAre(loss.unknown)} left out.`
        : "",
      loss.unnamed > 0
        ? `The names of ${plural(loss.unnamed, "kernel")} could not be read out of the server: they stand under other.`
        : "",
      loss.cutShort ? "The window was closed before its last cycle." : "",
      loss.clockStepped
        ? "The machine's clock was set meanwhile: kernels may be in the wrong phase."
        : "",
    ]
      .filter(Boolean)
      .map((sentence) => `${loss.rank}: ${sentence}`),
  );
}

function isAre(count: number): string {
  return count === 1 ? "is" : "are";
}

/** Whether a stretch of time has something in common with one of the looks; UNIX ms. */
export function isSeen(looks: readonly KernelLook[], startMs: number, endMs: number): boolean {
  return looks.some((look) => look.startMs < endMs && look.endMs > startMs);
}

/** Whether a look goes on. */
export function isUnderWay(looking: Looking | null): boolean {
  return looking !== null && ["asked", "open", "reading"].includes(looking.stage);
}

/** How far a look is, or what came of it. */
export function lookingInWords({ stage, cycles, why, mend }: Looking): {
  readonly head: string;
  readonly text: string;
} {
  const some = plural(cycles, "cycle");
  switch (stage) {
    case "asked":
      return {
        head: "A look at kernels is asked for.",
        text: `The window opens with one of the next cycles, for ${some}.`,
      };
    case "open":
      return {
        head: "The kernels are looked at.",
        text: `For ${some} the GPU's work is recorded; they take longer meanwhile.`,
      };
    case "reading":
      return { head: "The window is closed.", text: "What it saw is read and added up." };
    case "done":
      return { head: "The look at kernels is done.", text: `It was asked for ${some}.` };
    default:
      return { head: "There was no look at kernels.", text: [why, mend].filter(Boolean).join(" ") };
  }
}
