// What speculation has to reach under the load of now: break-even, and the pace of plain decode.
import { cycleMs } from "./cycle.ts";
import type { Estimate } from "./estimate.ts";
import { length, ms, rate, whole } from "./format.ts";
import { type BatchVerdict, isSame, type Report, type Setting, settingKey } from "./report.ts";
import { median } from "./summary.ts";
import { settingInWords } from "./verdict.ts";
import type { Cycle } from "./wire.ts";

const MS_PER_S = 1000;
/** So many of the newest cycles say what the load is. */
const SAMPLE = 200;
/** Fewer plain decodes give no median. */
const LEAST_PLAIN = 20;

/** What most of some speculative cycles have in common. */
interface Usual {
  readonly setting: Setting;
  readonly batch: number;
}

/** Where the time of a plain decode comes from: the report of the run, a person, or its cycles. */
type Source = "report" | "given" | "cycles";

/** What has to be reached at one batch size. */
export interface Goals extends Usual {
  readonly plainMs: number;
  /** Of plain decode, all groups together. */
  readonly plainTokensPerS: number;
  /** The accept length at which both are as fast, in tokens. */
  readonly breakEven: Estimate;
  readonly source: Source;
}

/**
 * The goals for what most of the newest of some cycles have in common, oldest first; null where
 * nothing speculates or nobody knows what a plain decode takes at their batch size.
 */
export function goalsOf(
  cycles: readonly Cycle[],
  report: Report | null,
  givenMs: number | null,
): Goals | null {
  const newest = cycles.slice(-SAMPLE).filter(({ kind }) => kind === "speculative");
  const usual = usualOf(newest);
  const known = usual && (reportedOf(usual, report) ?? measuredOf(usual, newest, cycles, givenMs));
  if (!(usual && known)) {
    return null;
  }
  const groups = new Set(newest.map(({ group }) => group)).size;
  return { ...usual, ...known, plainTokensPerS: (usual.batch * groups * MS_PER_S) / known.plainMs };
}

type Known = Pick<Goals, "plainMs" | "breakEven" | "source">;

function reportedOf(usual: Usual, report: Report | null): Known | null {
  const found = report && alikeIn(report, usual);
  return found?.plainMs && found.breakEven
    ? { plainMs: found.plainMs.value, breakEven: found.breakEven, source: "report" }
    : null;
}

function measuredOf(
  usual: Usual,
  newest: readonly Cycle[],
  all: readonly Cycle[],
  givenMs: number | null,
): Known | null {
  const plain = all.filter((cycle) => cycle.kind === "decode" && counts(cycle, usual.batch));
  const seenMs = plain.length < LEAST_PLAIN ? null : median(plain.map(cycleMs));
  const plainMs = givenMs ?? seenMs;
  const ownMs = median(
    newest
      .filter((cycle) => counts(cycle, usual.batch) && isSame(settingOf(cycle), usual.setting))
      .map(cycleMs),
  );
  return plainMs && ownMs
    ? {
        plainMs,
        breakEven: { value: ownMs / plainMs, low: null, high: null },
        source: givenMs === null ? "cycles" : "given",
      }
    : null;
}

/** What a report says of a setting at a batch size; undefined where it does not. */
export function alikeIn(report: Report, { setting, batch }: Usual): BatchVerdict | undefined {
  return report.verdict.byBatch.find((one) => one.batch === batch && isSame(one.setting, setting));
}

function usualOf(cycles: readonly Cycle[]): Usual | null {
  const counted = new Map<string, { readonly usual: Usual; readonly count: number }>();
  for (const cycle of cycles) {
    const usual = { setting: settingOf(cycle), batch: cycle.batch };
    const key = `${settingKey(usual.setting)} ${usual.batch}`;
    counted.set(key, { usual, count: (counted.get(key)?.count ?? 0) + 1 });
  }
  const [most] = [...counted.values()].toSorted((one, other) => other.count - one.count);
  return most?.usual ?? null;
}

function counts(cycle: Cycle, batch: number): boolean {
  return cycle.batch === batch && cycle.ranks[0]?.incomplete === false;
}

function settingOf({ steps, topk, draftTokens }: Cycle): Setting {
  return { steps, topk, draftTokens };
}

/** "break-even 2.69". */
export function evenLabel({ breakEven }: Goals): string {
  return `break-even ${length(breakEven.value)}`;
}

/** "plain decode 90". */
export function plainLabel({ plainTokensPerS }: Goals): string {
  return `plain decode ${rate(plainTokensPerS)}`;
}

/** What both lines stand for, and where they come from. */
export function goalsInWords(goals: Goals): string {
  const { batch, setting, plainMs, source } = goals;
  const from: Readonly<Record<Source, string>> = {
    report: "by the verdict on this run",
    given: "as you said",
    cycles: "the median of those in this run",
  };
  return `At batch size ${whole(batch)}, ${settingInWords(setting)}: a plain decode takes ${ms(plainMs)} (${from[source]}), ${evenLabel(goals)} tokens.`;
}
