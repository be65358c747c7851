// The report of a run, `spectrace.analysis.run_report.RunReport`: the part of it that is shown.
import { decodeEstimate, type Estimate, maybeEstimate } from "./estimate.ts";
import { decodeGaps, type Gaps } from "./gaps.ts";
import {
  flag,
  type Json,
  list,
  maybeNumber,
  maybeText,
  maybeTexts,
  number,
  object,
  objects,
  text,
} from "./json.ts";
import { decodeReportedLook, type ReportedLook } from "./reportedLook.ts";
import { decodeSkew, type Skew } from "./skew.ts";
import type { CycleTimes, Percentiles, PhaseSummary } from "./wire.ts";

/** Draft steps, branches per step and tokens that verify looks at; all 0 for plain decode. */
export interface Setting {
  readonly steps: number;
  readonly topk: number;
  readonly draftTokens: number;
}

/** What one setting gives at one batch size, and against plain decode where that is known. */
interface Pace {
  readonly setting: Setting;
  readonly batch: number;
  readonly cycleMs: Estimate;
  readonly tokensPerS: Estimate;
  /** Where the time of plain decode comes from. */
  readonly plainSource: string | null;
  readonly speedUp: Estimate | null;
}

/** One setting at one batch size of the run. */
export interface BatchVerdict extends Pace {
  readonly cycles: number;
  /** Of the time of all speculative cycles, from 0 to 1. */
  readonly share: number;
  readonly tokensPerCycle: Estimate;
  readonly plainMs: Estimate | null;
  readonly breakEven: Estimate | null;
  readonly answer: string;
  /** Acceptance at every position that break-even needs, and the one that it has; from 0 to 1. */
  readonly neededChance: number | null;
  readonly chance: number | null;
}

/** A change and what it brings in throughput, as a share; `atMost` marks a cap. */
export interface Advice {
  readonly change: string;
  readonly batch: number;
  readonly gain: Estimate;
  readonly atMost: boolean;
  readonly setting: Setting | null;
  readonly doubts: readonly string[];
}

/** Whether speculation pays. */
export interface Verdict {
  readonly answer: string;
  readonly speedUp: Estimate | null;
  /** Share of the time for which it is known, from 0 to 1. */
  readonly covered: number;
  readonly byBatch: readonly BatchVerdict[];
  readonly first: Advice | null;
  readonly caps: readonly Advice[];
}

/** How often the draft at a position was accepted, of the times that it was reached. */
export interface Position {
  readonly place: number;
  readonly reached: number;
  readonly accepted: number;
  /** A share from 0 to 1 with Wilson's interval. */
  readonly conditional: Estimate;
}

/** The acceptance in a part of the run: from one batch size or context length to another. */
export interface Slice {
  readonly low: number;
  readonly high: number;
  readonly verifies: number;
  readonly acceptLength: Estimate;
}

/** A request whose drafts are accepted less often than those of the others. */
export interface BadRequest {
  readonly id: string;
  readonly verifies: number;
  readonly acceptLength: number;
  /** Its share of accepted drafts, and that of the others; from 0 to 1. */
  readonly rate: Estimate;
  readonly others: number;
}

/** What verify accepted under one setting. */
export interface Acceptance {
  readonly setting: Setting;
  readonly verifies: number;
  readonly cut: number;
  readonly acceptLength: Estimate;
  readonly tokensPerCycle: Estimate;
  readonly serverAcceptLength: number;
  readonly draftsAccepted: number | null;
  readonly positions: readonly Position[];
  readonly byBatch: readonly Slice[];
  readonly byContext: readonly Slice[];
  readonly badRequests: readonly BadRequest[];
}

/** The time of verify at one batch size, by tokens per request. */
export interface VerifyFit {
  readonly batch: number;
  readonly points: readonly { readonly tokens: number; readonly verifyMs: Estimate }[];
  readonly shape: string;
  readonly fixedMs: Estimate | null;
  readonly perTokenMs: Estimate | null;
  readonly jumpMs: Estimate | null;
}

/** One setting at one batch size, measured or predicted. */
export interface Point extends Pace {
  readonly measured: boolean;
  readonly acceptLength: Estimate;
  readonly doubts: readonly string[];
  readonly flags: readonly string[];
}

/** The setting with the highest throughput at one batch size. */
export interface Best {
  readonly batch: number;
  readonly setting: Setting;
  readonly clear: boolean;
  /** By how much it exceeds what runs now, as a share. */
  readonly gain: Estimate | null;
}

/** Cycles of one setting and batch size, and what they take. */
export interface Stratum {
  readonly setting: Setting;
  readonly batch: number;
  readonly times: CycleTimes;
}

/** Everything that the page says of a run as a whole. */
export interface Report {
  readonly cycles: number;
  readonly sampledCycles: number;
  readonly windows: number;
  readonly durationS: number;
  readonly modes: readonly string[];
  readonly verdict: Verdict;
  readonly acceptance: readonly Acceptance[];
  readonly strata: readonly Stratum[];
  readonly verify: readonly VerifyFit[];
  readonly points: readonly Point[];
  readonly best: readonly Best[];
  readonly crossoverBatch: number | null;
  readonly crossoverClear: boolean;
  readonly gaps: readonly string[];
  /** What is in none of the figures. */
  readonly leftOut: LeftOut;
  /** Of the device of the first rank. */
  readonly device: Gaps;
  readonly skew: Skew;
  /** Of what phases are made; null where nobody looked at kernels. */
  readonly inside: ReportedLook | null;
  /** Groups of ranks: each throughput is that of one. */
  readonly groups: number;
}

/** How much is in none of the figures. */
export interface LeftOut {
  readonly warmUpCycles: number;
  readonly overshootRows: number;
  readonly healthCheckRows: number;
}

/** Reads a report from parsed JSON. */
export function decodeReport(value: unknown): Report {
  const report = object(value, "report");
  const whatIf = object(report["what_if"], "what_if");
  return {
    cycles: number(report, "cycles"),
    sampledCycles: number(report, "sampled_cycles"),
    windows: number(report, "windows"),
    durationS: number(report, "duration_s"),
    modes: maybeTexts(report, "modes"),
    verdict: decodeVerdict(report["verdict"]),
    acceptance: list(report["acceptance"], "acceptance").map(decodeAcceptance),
    strata: list(report["strata"], "strata").map(decodeStratum),
    verify: list(report["verify"], "verify").map(decodeFit),
    points: list(whatIf["points"], "points").map(decodePoint),
    best: list(whatIf["best"], "best").map(decodeBest),
    crossoverBatch: maybeNumber(whatIf, "crossover_batch"),
    crossoverClear: flag(whatIf, "crossover_clear"),
    gaps: maybeTexts(report, "gaps"),
    leftOut: decodeLeftOut(report["left_out"]),
    device: decodeGaps(report["bubbles"]),
    skew: decodeSkew(report["skew"]),
    inside: decodeReportedLook(report["made_of"]),
    groups: number(report, "groups"),
  };
}

function decodeLeftOut(value: unknown): LeftOut {
  const left = object(value, "left_out");
  return {
    warmUpCycles: number(left, "warm_up_cycles"),
    overshootRows: number(left, "overshoot_rows"),
    healthCheckRows: number(left, "health_check_rows"),
  };
}

/** Whether two settings are the same. */
export function isSame(one: Setting, other: Setting): boolean {
  return settingKey(one) === settingKey(other);
}

/** A setting in an address: "5-1-6". */
export function settingKey({ steps, topk, draftTokens }: Setting): string {
  return `${steps}-${topk}-${draftTokens}`;
}

function decodeVerdict(value: unknown): Verdict {
  const verdict = object(value, "verdict");
  const first = verdict["first"] ?? null;
  return {
    answer: text(verdict, "answer"),
    speedUp: maybeEstimate(verdict, "speed_up"),
    covered: number(verdict, "covered"),
    byBatch: list(verdict["by_batch"], "by_batch").map(decodeBatch),
    first: first === null ? null : decodeAdvice(first),
    caps: list(verdict["caps"], "caps").map(decodeAdvice),
  };
}

function decodeBatch(value: unknown): BatchVerdict {
  const batch = object(value, "batch verdict");
  return {
    ...decodePace(batch),
    cycles: number(batch, "cycles"),
    share: number(batch, "share"),
    tokensPerCycle: decodeEstimate(batch["tokens_per_cycle"]),
    plainMs: maybeEstimate(batch, "plain_ms"),
    breakEven: maybeEstimate(batch, "break_even"),
    answer: text(batch, "answer"),
    neededChance: maybeNumber(batch, "needed_chance"),
    chance: maybeNumber(batch, "chance"),
  };
}

function decodePace(from: Json): Pace {
  return {
    setting: decodeSetting(from["setting"]),
    batch: number(from, "batch"),
    cycleMs: decodeEstimate(from["cycle_ms"]),
    tokensPerS: decodeEstimate(from["tokens_per_s"]),
    plainSource: maybeText(from, "plain_source"),
    speedUp: maybeEstimate(from, "speed_up"),
  };
}

function decodeAdvice(value: unknown): Advice {
  const advice = object(value, "advice");
  const setting = advice["setting"] ?? null;
  return {
    change: text(advice, "change"),
    batch: number(advice, "batch"),
    gain: decodeEstimate(advice["gain"]),
    atMost: flag(advice, "at_most"),
    setting: setting === null ? null : decodeSetting(setting),
    doubts: maybeTexts(advice, "doubts"),
  };
}

function decodeAcceptance(value: unknown): Acceptance {
  const found = object(value, "acceptance");
  return {
    setting: decodeSetting(found["setting"]),
    verifies: number(found, "verifies"),
    cut: number(found, "cut"),
    acceptLength: decodeEstimate(found["accept_length"]),
    tokensPerCycle: decodeEstimate(found["delivered_length"]),
    serverAcceptLength: number(found, "sglang_accept_length"),
    draftsAccepted: maybeNumber(found, "draft_acceptance_rate"),
    positions: objects(found, "positions").map(decodePosition),
    byBatch: list(found["by_batch"], "by_batch").map(decodeSlice),
    byContext: list(found["by_context"], "by_context").map(decodeSlice),
    badRequests: objects(found, "bad_requests").map((request) => ({
      id: text(request, "request_id"),
      verifies: number(request, "verifies"),
      acceptLength: number(request, "accept_length"),
      rate: decodeEstimate(request["rate"]),
      others: number(request, "others"),
    })),
  };
}

/** Reads what was accepted at a position. */
export function decodePosition(position: Json): Position {
  return {
    place: number(position, "place"),
    reached: number(position, "reached"),
    accepted: number(position, "accepted"),
    conditional: decodeEstimate(position["conditional"]),
  };
}

function decodeSlice(value: unknown): Slice {
  const slice = object(value, "slice");
  return {
    low: number(slice, "low"),
    high: number(slice, "high"),
    verifies: number(slice, "verifies"),
    acceptLength: decodeEstimate(slice["accept_length"]),
  };
}

function decodeStratum(value: unknown): Stratum {
  const stratum = object(value, "stratum");
  const phases = objects(stratum, "phases");
  const of = (lane: string) =>
    phases.filter((phase) => phase["lane"] === lane).map(decodePhaseTimes);
  const device = of("device");
  const cycle = stratum["cycle"] ?? null;
  return {
    setting: decodeSetting(stratum["setting"]),
    batch: number(stratum, "batch"),
    times: {
      cycles: number(stratum, "sampled"),
      incomplete: 0,
      time: cycle === null ? null : decodePercentiles(cycle),
      phases: of("host"),
      device_cycles: Math.max(0, ...device.map((phase) => phase.cycles)),
      device,
    },
  };
}

function decodePhaseTimes(phase: Json): PhaseSummary {
  return {
    name: text(phase, "name"),
    time: decodePercentiles(phase["time"]),
    share: decodeEstimate(phase["share"]).value,
    cycles: number(object(phase["time"], "time"), "cycles"),
    max_lag: 0,
  };
}

function decodePercentiles(value: unknown): Percentiles {
  const times = object(value, "times");
  return {
    p50_ms: decodeEstimate(times["p50_ms"]).value,
    p95_ms: decodeEstimate(times["p95_ms"]).value,
    p99_ms: decodeEstimate(times["p99_ms"]).value,
  };
}

function decodeFit(value: unknown): VerifyFit {
  const fit = object(value, "fit");
  return {
    batch: number(fit, "batch"),
    points: objects(fit, "points").map((point) => ({
      tokens: number(point, "tokens"),
      verifyMs: decodeEstimate(point["verify_ms"]),
    })),
    shape: text(fit, "shape"),
    fixedMs: maybeEstimate(fit, "fixed_ms"),
    perTokenMs: maybeEstimate(fit, "per_token_ms"),
    jumpMs: maybeEstimate(fit, "jump_ms"),
  };
}

function decodePoint(value: unknown): Point {
  const point = object(value, "point");
  return {
    ...decodePace(point),
    measured: flag(point, "measured"),
    acceptLength: decodeEstimate(point["accept_length"]),
    doubts: maybeTexts(point, "doubts"),
    flags: maybeTexts(point, "flags"),
  };
}

function decodeBest(value: unknown): Best {
  const best = object(value, "best");
  return {
    batch: number(best, "batch"),
    setting: decodeSetting(best["setting"]),
    clear: flag(best, "clear"),
    gain: maybeEstimate(best, "gain"),
  };
}

/** Reads a setting. */
export function decodeSetting(value: unknown): Setting {
  const setting = object(value, "setting");
  return {
    steps: number(setting, "steps"),
    topk: number(setting, "topk"),
    draftTokens: number(setting, "draft_tokens"),
  };
}
