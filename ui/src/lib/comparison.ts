// Two runs held against each other, `spectrace.analysis.run_comparison`: read, and put into words.
import { decodeEstimate, type Estimate, maybeEstimate, reachOf, signedText } from "./estimate.ts";
import { enumerate, fixed, length, MISSING, ms, whole } from "./format.ts";
import {
  type Json,
  list,
  maybeNumber,
  maybeText,
  maybeTexts,
  number,
  numbers,
  object,
  objects,
  text,
  texts,
} from "./json.ts";
import { phaseLabel } from "./phases.ts";
import { endOf, type Piece, piled } from "./stack.ts";

/** What an interval says: it is not 0, it is less than the margin, or neither can be said. */
export type Verdict = "differs" | "same" | "open";

/** A quantity in both runs. */
export interface Difference {
  readonly one: Estimate;
  readonly other: Estimate;
  /** The second less the first. */
  readonly excess: Estimate;
  readonly verdict: Verdict;
}

/** A phase in both runs, mean ms of a cycle; no name is what no phase covers. */
export interface PhaseDifference {
  readonly name: string | null;
  readonly ms: Difference;
  /** Which part of the cycle's difference it makes; null where the cycle has none. */
  readonly share: number | null;
}

/** One of the two, as far as it counts. */
export interface Side {
  readonly cycles: number;
  readonly of: number;
  readonly steps: readonly number[];
  readonly draftTokens: readonly number[];
  readonly modes: readonly string[];
  readonly batch: number;
  readonly context: number | null;
  readonly groups: number;
}

/** Something that differs; `one` and `other` as they are written. */
export interface Setting {
  readonly what: string;
  readonly one: string;
  readonly other: string;
}

/** What was found. */
export interface Comparison {
  readonly settings: readonly Setting[];
  readonly sides: readonly [Side, Side];
  readonly cycleMs: Difference | null;
  readonly tokensPerS: Difference | null;
  readonly throughputRatio: Estimate | null;
  readonly msPerToken: Difference | null;
  readonly acceptLength: Difference | null;
  readonly host: readonly PhaseDifference[];
  readonly device: readonly PhaseDifference[];
  readonly notes: readonly string[];
  readonly confidence: number;
  readonly claims: number;
  readonly margin: number;
}

/** Of the cycle's difference: smaller parts are not named in the sentence. */
const TELLING = 0.1;

const NOTES: Readonly<Record<string, string>> = {
  other_kinds:
    "One run speculates and the other decodes plainly: look at tokens, not at cycles, to see which is faster.",
  other_modes: "They were timed in different ways, which changes what each phase shows.",
  sync: "One was timed with a synchronize at every boundary, which slows the server.",
  other_batches:
    "Most cycles of one run have batch sizes that the other hardly has, and are left out.",
  other_contexts: "The requests of one run are much longer, which costs time by itself.",
  nothing_like:
    "Nothing can be compared: no batch size has 20 decode cycles of the same kind in both. Record both under the same load.",
  few_blocks: "One run is too short for intervals: record for longer.",
};

/** Reads what the server found. */
export function decodeComparison(value: unknown): Comparison {
  const answer = object(value, "answer");
  const found = object(answer["comparison"], "comparison");
  const [one, other] = list(found["sides"], "sides").map(decodeSide);
  if (!(one && other)) {
    throw new TypeError("a comparison has two sides");
  }
  const phases = (key: string) => list(found[key] ?? [], key).map(decodePhase);
  return {
    settings: objects(answer, "settings").map((setting) => ({
      what: text(setting, "what"),
      one: text(setting, "one"),
      other: text(setting, "other"),
    })),
    sides: [one, other],
    cycleMs: maybeDifference(found, "cycle_ms"),
    tokensPerS: maybeDifference(found, "tokens_per_s"),
    throughputRatio: maybeEstimate(found, "throughput_ratio"),
    msPerToken: maybeDifference(found, "ms_per_token"),
    acceptLength: maybeDifference(found, "accept_length"),
    host: phases("host"),
    device: phases("device"),
    notes: maybeTexts(found, "notes"),
    confidence: number(found, "confidence"),
    claims: number(found, "claims", 0),
    margin: number(found, "margin"),
  };
}

function maybeDifference(from: Json, key: string): Difference | null {
  const value = from[key] ?? null;
  return value === null ? null : decodeDifference(value);
}

function decodeDifference(value: unknown): Difference {
  const difference = object(value, "difference");
  const verdict = text(difference, "verdict");
  return {
    one: decodeEstimate(difference["one"]),
    other: decodeEstimate(difference["other"]),
    excess: decodeEstimate(difference["excess"]),
    verdict: verdict === "differs" || verdict === "same" ? verdict : "open",
  };
}

function decodePhase(value: unknown): PhaseDifference {
  const phase = object(value, "phase");
  return {
    name: maybeText(phase, "phase"),
    ms: decodeDifference(phase["time_ms"]),
    share: maybeNumber(phase, "share"),
  };
}

function decodeSide(value: unknown): Side {
  const side = object(value, "side");
  return {
    cycles: number(side, "cycles"),
    of: number(side, "of"),
    steps: numbers(side, "steps"),
    draftTokens: numbers(side, "draft_tokens"),
    modes: texts(side, "modes"),
    batch: number(side, "batch"),
    context: maybeNumber(side, "context"),
    groups: number(side, "groups", 1),
  };
}

/** Which run makes more tokens: the one sentence of the view. */
export function headline(found: Comparison): string {
  const { cycleMs, tokensPerS, throughputRatio: ratio } = found;
  if (!cycleMs) {
    return "These two runs cannot be compared.";
  }
  if (!(ratio && tokensPerS)) {
    return "How many tokens came is not known in both runs.";
  }
  const reach = reachOf(ratio);
  if (!reach || tokensPerS.verdict === "open") {
    return "Which run makes more tokens cannot be said.";
  }
  if (tokensPerS.verdict === "same") {
    return `Both make as many tokens while they decode, within ${percent(found.margin)}.`;
  }
  const word = ratio.value > 1 ? "more" : "fewer";
  const limits = reach.map((limit) => Math.abs(limit - 1)).toSorted((a, b) => a - b);
  const groups = Math.max(...found.sides.map((side) => side.groups)) > 1 ? " per group" : "";
  return `The second run makes ${tenths(Math.abs(ratio.value - 1))} ${word} tokens per second of decoding${groups} (${limits.map(tenths).join(" to ")}).`;
}

/** What the cycles do, which phase makes it so, what was accepted, and what to beware of. */
export function detailsOf(found: Comparison): readonly string[] {
  return [
    ...cycleInWords(found),
    ...acceptanceInWords(found.acceptLength),
    ...found.notes.map((note) => NOTES[note] ?? note),
  ];
}

function cycleInWords({ cycleMs, device, host, margin }: Comparison): string[] {
  if (!cycleMs) {
    return [];
  }
  if (cycleMs.verdict === "same") {
    return [`Their cycles are as long, within ${percent(margin)}.`];
  }
  if (cycleMs.verdict === "open") {
    return ["Whether their cycles differ in length cannot be said."];
  }
  const word = cycleMs.excess.value > 0 ? "longer" : "shorter";
  const size = ms(Math.abs(cycleMs.excess.value));
  const phases = device.length > 0 ? device : host;
  const telling = phases.filter(
    (each) => each.ms.verdict === "differs" && Math.abs(each.share ?? 0) >= TELLING,
  );
  const where = device.length > 0 ? "on the device" : "by the host's clock";
  const parts = telling.map((each) => `${nameOf(each)} ${signed(each.ms.excess.value)}`);
  return [
    `Its cycles are ${size} ${word}, from ${ms(cycleMs.one.value)} to ${ms(cycleMs.other.value)}.`,
    parts.length > 0
      ? `Of that difference ${where}: ${enumerate(parts)}.`
      : "No phase makes the difference clearly.",
  ];
}

function acceptanceInWords(found: Difference | null): string[] {
  if (!found) {
    return [];
  }
  const [one, other] = [length(found.one.value), length(found.other.value)];
  switch (found.verdict) {
    case "differs":
      return [`The accept length goes from ${one} to ${other}.`];
    case "same":
      return [`The accept length is the same, ${other}.`];
    default:
      return [`Whether the accept length differs (${one}, ${other}) cannot be said.`];
  }
}

/** "verify", "no phase". */
export function nameOf({ name }: PhaseDifference): string {
  return name === null ? "no phase" : phaseLabel(name);
}

/** A difference with its interval and a mark: none, or not known. */
export function excessText({ excess, verdict }: Difference, places: number): string {
  if (verdict === "same") {
    return "none";
  }
  const words = signedText(excess, places);
  return verdict === "open" ? `${words} ?` : words;
}

/** What the cycles themselves say of how the runs differ. */
export function sideDifferences([one, other]: readonly [Side, Side]): readonly Setting[] {
  const facts: readonly (readonly [what: string, of: (side: Side) => string])[] = [
    ["groups", (side) => whole(side.groups)],
    ["draft steps", (side) => listed(side.steps)],
    ["tokens to verify", (side) => listed(side.draftTokens)],
    ["timed in mode", (side) => listed(side.modes)],
    ["mean batch", (side) => fixed(side.batch, 1)],
    ["mean context", (side) => whole(side.context && Math.round(side.context))],
  ];
  return facts
    .map(([what, of]) => ({ what, one: of(one), other: of(other) }))
    .filter((each) => each.one !== each.other);
}

/** What the figures rest on. */
export function basisOf({ sides, confidence, claims, margin }: Comparison): string {
  const [one, other] = sides.map((side) => `${whole(side.cycles)} of ${whole(side.of)}`);
  return (
    `Decode cycles that were compared, like with like: ${one} and ${other} of the sample. Intervals hold in ` +
    `${percent(confidence)} of cases, those of the ${whole(claims)} differences all together. ` +
    `“none”: below ${percent(margin)}; “?”: the data do not allow a statement.`
  );
}

function listed(values: readonly (number | string)[]): string {
  return values.length > 0 ? values.join(", ") : MISSING;
}

function signed(value: number): string {
  return `${value > 0 ? "+" : ""}${ms(value)}`;
}

function percent(part: number): string {
  return `${fixed(part * 100, 0)} %`;
}

function tenths(part: number): string {
  return `${fixed(part * 100, 1)} %`;
}

/**
 * The phases of both runs as two stacked bars, in one order, the largest of the first run first;
 * what is below 0 for rounding is left out. `whole` are the two lengths.
 */
export function stacked(phases: readonly PhaseDifference[]): {
  readonly bars: readonly [readonly Piece[], readonly Piece[]];
  readonly whole: readonly [number, number];
} {
  const order = phases.toSorted((a, b) => b.ms.one.value - a.ms.one.value);
  const bar = (of: (each: Difference) => number) =>
    piled(order.map((each) => ({ name: each.name, size: of(each.ms) })));
  const one = bar((each) => each.one.value);
  const other = bar((each) => each.other.value);
  return { bars: [one, other], whole: [endOf(one), endOf(other)] };
}
