// Says in plain words whether speculation pays, what to change first, and what is not known.
import { estimateText, percentText, reachOf } from "./estimate.ts";
import { enumerate, fixed, ms, plural, rate, share, whole } from "./format.ts";
import { phaseLabel } from "./phases.ts";
import type { Advice, BatchVerdict, Point, Report, Setting, Stratum, VerifyFit } from "./report.ts";
import { isSame } from "./report.ts";
import { gapShare } from "./shares.ts";

/** A share of the time that rounds to all of it. */
const ALL = 0.995;

const SOURCES: Readonly<Record<string, string>> = {
  run: "measured in this run",
  recording: "measured in another run",
  given: "as you said",
  between: "between the batch sizes that were measured",
};

const GAPS: Readonly<Record<string, string>> = {
  no_speculation:
    "No cycle speculated: there is nothing to judge. Start the server with --speculative-algorithm.",
  too_few: "Too few cycles count to give their times: trace for longer, while requests run.",
  few_windows: "The run is short, so that intervals are wide or missing: trace for longer.",
  no_baseline:
    "Plain decode was never measured. Say what it takes, in the box above, or run the server for half a minute without --speculative-algorithm.",
  baseline_elsewhere:
    "Plain decode was measured at other batch sizes alone than the one that took most of the time.",
  no_device:
    "There is no device lane: phases are as the host's clock saw them, and one that only launches looks cheap.",
  waits_in_verify:
    "The host runs ahead of the device and only its clock was there: its named waits are counted as verify.",
  one_width:
    "Verify was seen with one number of tokens alone: how its time depends on that is not identifiable. Trace a run with other steps.",
  one_batch: "Only one batch size was seen.",
  tree: "Drafts form trees, which are judged as they ran: which drafts a tree of another shape would have kept was never seen, so that none is predicted. Measure some with `spectrace sweep --topk`.",
  sampled:
    "Sampling left cycles out: windows are not of cycles that follow each other, and where it was switched, each stretch counts by the cycles that were recorded of it.",
  sync_left_out: "Cycles in sync timing are in none of the times: it slows the server.",
  no_results: "Of some cycles no results came; their times count, their acceptance cannot.",
  no_counts:
    "Of no cycle that speculated did results come that count, as in a trace that has only times: what was accepted is not known.",
  verify_inside:
    "Nobody looked of what verify is made: `spectrace kernels PID` shows it, on the running server.",
};

/** Why a prediction may be wrong beyond its interval, in the order of their marks. */
const DOUBTS: readonly (readonly [doubt: string, words: string])[] = [
  ["deeper", "drafts so deep were never made: the last measured position stands for them"],
  [
    "verify_span",
    "verify was seen with one number of tokens: the interval reaches from no dependence on it to full dependence",
  ],
  ["verify_beyond", "verify is extrapolated beyond the measured numbers of tokens"],
  ["draft_share", "each draft step is taken to cost as much as any other"],
  ["cuts", "requests are short: what their ends cut off is computed from what they did"],
];
const MARKS = ["a", "b", "c", "d", "e"] as const;

const CHANGES: Readonly<Record<string, string>> = {
  draft: "a faster draft",
  verify: "a verify as cheap as plain decode",
  overhead: "less overhead between the phases",
};

/** The answer in one sentence. */
export function leadInWords(report: Report): string {
  const { answer, speedUp } = report.verdict;
  if (report.gaps.includes("no_speculation")) {
    return "Nothing was speculated in this run.";
  }
  if (speedUp === null) {
    return `Whether speculation pays cannot be said: ${whyUnknown(report)}.`;
  }
  const shown = `${estimateText(speedUp)} times plain decode`;
  switch (answer) {
    case "pays":
      return `Speculation pays: ${shown}.`;
    case "loses":
      return `Speculation does not pay: ${shown}.`;
    case "same":
      return `Speculation makes no difference that matters: ${shown}.`;
    default:
      return `Whether speculation pays cannot be said yet: ${shown}.`;
  }
}

/** Why there is no factor, to follow a colon. */
function whyUnknown({ gaps, verdict }: Report): string {
  if (gaps.includes("no_counts")) {
    return "what was accepted is not known";
  }
  if (gaps.includes("too_few") || verdict.byBatch.length === 0) {
    return "too few cycles count";
  }
  return gaps.includes("baseline_elsewhere")
    ? "plain decode was measured at other batch sizes alone"
    : "plain decode was not measured";
}

/** "5 steps", "3 steps, topk 4, 8 tokens", "plain decode". */
export function settingInWords({ steps, topk, draftTokens }: Setting): string {
  if (draftTokens === 0) {
    return "plain decode";
  }
  const known = draftTokens > 0; // a loop of one's own may not say it
  if (steps === 0) {
    return known ? plural(draftTokens, "draft token") : "drafts of unknown length"; // as NGRAM's
  }
  const words = plural(steps, "step");
  if (topk === 1 && draftTokens === steps + 1) {
    return words;
  }
  const branches = topk > 0 ? `, topk ${topk}` : "";
  return `${words}${branches}${known ? `, ${plural(draftTokens, "token")}` : ""}`;
}

/** What a cycle takes and gives at the batch size that took most of the time, and what follows. */
export function basisInWords(main: BatchVerdict, covered: number): string[] {
  const at = `At batch size ${whole(main.batch)}, ${settingInWords(main.setting)}, a cycle takes ${ms(main.cycleMs.value)}`;
  const gives = `${at} and gives a request ${estimateText(main.tokensPerCycle)} tokens`;
  if (main.breakEven === null || main.plainMs === null) {
    return [`${gives}.`];
  }
  const source = SOURCES[main.plainSource ?? ""] ?? "of unknown origin";
  const found = [
    `${gives}. A plain decode takes ${ms(main.plainMs.value)} (${source}): break-even is ${estimateText(main.breakEven)} tokens.`,
  ];
  if (main.answer === "loses" && main.setting.topk === 1) {
    found.push(...needed(main, main.breakEven.value));
  }
  if (covered < ALL) {
    found.push(
      `The factor is of ${share(covered)} of the time in speculative cycles: for the other batch sizes plain decode is not known, or too few cycles are.`,
    );
  }
  return found;
}

function needed({ setting, neededChance, chance }: BatchVerdict, breakEven: number): string[] {
  if (breakEven > setting.steps + 1) {
    return ["No acceptance reaches break-even with so few steps at this cost."];
  }
  return neededChance === null || chance === null
    ? []
    : [
        `Break-even needs each draft accepted in ${share(neededChance)} of all cases, where now it is ${share(chance)}.`,
      ];
}

/** "70 tok/s, plain decode 90": at the batch size that took most of the time. */
export function throughputInWords({ tokensPerS, speedUp }: BatchVerdict): string {
  const now = `${estimateText(tokensPerS, 1)} tok/s`;
  return speedUp === null ? now : `${now}, plain decode ${rate(tokensPerS.value / speedUp.value)}`;
}

/** What to change first, and what it brings. */
export function firstInWords({ verdict, best }: Report): string {
  const { first } = verdict;
  if (first === null) {
    return "Too little is known to say what to change.";
  }
  if (first.change === "nothing" && first.atMost) {
    const largest = changeInWords(verdict.caps[0]?.change ?? "");
    return `That cannot be said without plain decode: ${largest} can bring ${percentText(first.gain)} at most, and what a cheaper verify would bring is not known.`;
  }
  if (first.change === "nothing") {
    return "No single change that the data show would bring more than 1 %.";
  }
  const words = adviceInWords(first);
  const top = best.find((one) => one.batch === first.batch);
  if (first.change !== "steps" || first.setting === null || !top || top.clear) {
    return words;
  }
  return isSame(top.setting, first.setting)
    ? `${words} It is not clear of all others: measure it before you trust it.`
    : `${words} More may come of ${settingInWords(top.setting)}, but that lies beyond what was measured: measure it.`;
}

/** One change as a sentence. */
export function adviceInWords({ change, gain, batch, atMost, setting }: Advice): string {
  const brings = percentText(gain);
  if (atMost) {
    const what = CHANGES[change] ?? change;
    return `${what[0]?.toUpperCase()}${what.slice(1)} can bring ${brings} more tok/s at most.`;
  }
  if (change === "off" || setting === null) {
    return `Turn speculation off at batch size ${whole(batch)}: ${brings} more tok/s.`;
  }
  return `Set ${settingInWords(setting)}: ${brings} more tok/s expected at batch size ${whole(batch)}.`;
}

/** What a cap is of: "a faster draft". */
export function changeInWords(change: string): string {
  return CHANGES[change] ?? change;
}

/** What is not known, each with what to do about it. */
export function gapsInWords({ gaps }: Report): string[] {
  return gaps.map((gap) => GAPS[gap] ?? `Not known: ${gap.replaceAll("_", " ")}.`);
}

/** The marks of a point's doubts: "a, d"; empty where there are none. */
export function marksOf(doubts: readonly string[]): string {
  return DOUBTS.flatMap(([doubt], place) => (doubts.includes(doubt) ? [MARKS[place]] : [])).join(
    ", ",
  );
}

/** What the marks mean, of all doubts that occur: "a: …". */
export function doubtsInWords(doubts: readonly string[]): string[] {
  return DOUBTS.flatMap(([doubt, words], place) =>
    doubts.includes(doubt) ? [`${MARKS[place]}: ${words}.`] : [],
  );
}

/** The two or three largest phases of a cycle on the lane that is nearest to the truth. */
export function phasesInWords({ times }: Stratum): string {
  const timed = times.device.length > 0;
  const top = (timed ? times.device : times.phases).filter(({ name }) => !name.includes("."));
  const largest = top.toSorted((one, other) => other.share - one.share).slice(0, 3);
  if (largest.length === 0) {
    return "";
  }
  const gap = timed ? gapShare(times.device) : 0;
  const names = largest.map((phase) => `${phaseLabel(phase.name)} ${share(phase.share)}`);
  const idle = gap > 0 ? `; for ${share(gap)} the device ran none` : "";
  return `${timed ? "On the device" : "By the host's clock"} a cycle is ${enumerate(names)}${idle}.`;
}

/** What verify costs at one batch size. */
export function verifyInWords(fit: VerifyFit): string[] {
  const at = `At batch size ${whole(fit.batch)} verify takes`;
  if (fit.shape === "line" && fit.fixedMs !== null && fit.perTokenMs !== null) {
    const reach = reachOf(fit.perTokenMs);
    const depends = reach === null || reach[0] > 0 || reach[1] < 0;
    const line = depends
      ? `${at} ${estimateText(fit.fixedMs)} ms and ${estimateText(fit.perTokenMs)} ms for each token.`
      : `${at} ${estimateText(fit.fixedMs)} ms whatever the number of tokens: each costs ${estimateText(fit.perTokenMs)} ms.`;
    const jump = fit.jumpMs;
    return jump !== null && jump.value > 0 && (jump.low ?? 0) > 0
      ? [
          line,
          `With one token that would be ${estimateText(jump)} ms more than plain decode takes: a jump that any number of steps pays.`,
        ]
      : [line];
  }
  if (fit.shape === "unknown") {
    const [only] = fit.points;
    return only
      ? [
          `${at} ${estimateText(only.verifyMs)} ms with ${plural(only.tokens, "token")}. How that depends on the number of tokens is not identifiable from one.`,
        ]
      : [];
  }
  return [
    `${at} no fixed time and so much per token: it is ${fit.shape}. Other numbers of tokens are told only between those that were measured.`,
  ];
}

/** The strata that the verdict's first row speaks of. */
export function mainStratum(report: Report): Stratum | null {
  const [main] = report.verdict.byBatch;
  const found = report.strata.find(
    (one) => main && one.batch === main.batch && isSame(one.setting, main.setting),
  );
  return found ?? null;
}

/** "1.75×", or an en dash. */
export function factorText(report: Report): string {
  const { speedUp } = report.verdict;
  return speedUp === null ? "–" : `${fixed(speedUp.value, 2)}×`;
}

/** Where the time of a point comes from: "measured", "as you said", "predicted (a, d)". */
export function originInWords({ plainSource, measured, doubts }: Point): string {
  const source = SOURCES[plainSource ?? ""];
  if (source !== undefined) {
    return source;
  }
  if (measured) {
    return "measured";
  }
  const marks = marksOf(doubts);
  return marks === "" ? "predicted" : `predicted (${marks})`;
}

/** What is in none of the figures, and of what throughput is. */
export function leftOutInWords({ leftOut, groups }: Report): string {
  const rows = `${plural(leftOut.overshootRows, "row")} of overshoot, ${whole(leftOut.healthCheckRows)} of health checks`;
  const left = `Left out: ${plural(leftOut.warmUpCycles, "cycle")} of warm-up, ${rows}.`;
  return groups > 1
    ? `${left} Each throughput is that of one of ${whole(groups)} groups of ranks.`
    : left;
}

/** What all of it rests on. */
export function groundInWords(report: Report): string {
  const { cycles, durationS, sampledCycles, windows, modes } = report;
  return `${plural(cycles, "cycle")} in ${fixed(durationS, 1)} s; times from ${whole(sampledCycles)} of them in ${plural(windows, "window")}, timing ${enumerate(modes)}. Intervals are at 95 %.`;
}

/** A time in ms as a person writes it, "11.1" or "11.1 ms"; null if it is none. */
export function parseMs(written: string): number | null {
  const digits = /^\s*(\d+(?:[.,]\d+)?|[.,]\d+)\s*(?:ms)?\s*$/i.exec(written)?.[1];
  const value = Number(digits?.replace(",", "."));
  return value >= 0.001 && value <= 1e9 ? value : null;
}
