// What other numbers of steps would give: which points stand in the chart, and what is said of one.
import { limits, niceStep, type Range, ticks } from "./axis.ts";
import { estimateText, percentText } from "./estimate.ts";
import { rate, whole } from "./format.ts";
import { type Best, isSame, type Point, type Report, settingKey } from "./report.ts";
import { originInWords, settingInWords } from "./verdict.ts";

const OUTSIDE = new Set(["deeper", "verify_span", "verify_beyond"]);

/** The settings of one batch size. */
export interface Choice {
  readonly batch: number;
  /** With drafts, by number of steps. */
  readonly points: readonly Point[];
  /** Plain decode; null where it is not known. */
  readonly plain: Point | null;
  /** What took most of the time at this batch size; null where it is not among the points. */
  readonly current: Point | null;
  readonly best: Best | null;
}

/** The batch sizes of which something can be said, smallest first. */
export function batchesOf(report: Report): number[] {
  return [...new Set(report.points.map((point) => point.batch))].sort((a, b) => a - b);
}

/** The settings of the batch size that is asked for, else of the one that took most of the time. */
export function choiceOf(report: Report, asked: number | null): Choice | null {
  const known = batchesOf(report);
  const main = report.verdict.byBatch.find((one) => known.includes(one.batch))?.batch;
  const batch = known.find((one) => one === asked) ?? main ?? known[0];
  if (batch === undefined) {
    return null;
  }
  const all = report.points.filter((point) => point.batch === batch);
  const now = report.verdict.byBatch.find((one) => one.batch === batch)?.setting;
  return {
    batch,
    points: all.filter(({ setting }) => setting.draftTokens !== 0).toSorted(bySteps),
    plain: all.find(({ setting }) => setting.draftTokens === 0) ?? null,
    current: all.find(({ setting }) => now && isSame(setting, now)) ?? null,
    best: report.best.find((one) => one.batch === batch) ?? null,
  };
}

/** The place of the point that is asked for by its key, else of the one with most throughput. */
export function placeOf({ points }: Choice, asked: string | null): number {
  const place = points.findIndex((point) => settingKey(point.setting) === asked);
  return place < 0 ? points.indexOf(topOf(points) as Point) : place;
}

/** Whether a point lies outside of what was measured. */
export function isExtrapolated({ doubts }: Point): boolean {
  return doubts.some((doubt) => OUTSIDE.has(doubt));
}

/** Round limits of the throughput around all points with their intervals, and ticks in them. */
export function throughputAxis({ points, plain }: Choice): { range: Range; at: number[] } {
  const shown = [...points, ...(plain ? [plain] : [])].map(({ tokensPerS }) => tokensPerS);
  const values = shown.flatMap(({ value, low, high }) => [value, low, high]);
  const range = limits(values, null) ?? { start: 0, end: 1 };
  return { range, at: ticks(range, 5) };
}

/** Round limits from 0 that hold all values, and ticks in them. */
export function axisFromZero(values: readonly (number | null)[]): { range: Range; at: number[] } {
  const most = Math.max(0, ...values.map((value) => value ?? 0)) * 1.08;
  const step = niceStep(most / 4);
  const range = { start: 0, end: Math.max(step, Math.ceil(most / step) * step) };
  return { range, at: ticks(range, 5) };
}

/** What the best setting is, in one sentence. */
export function bestInWords(choice: Choice): string {
  const { best, plain, current, points, batch } = choice;
  if (best === null) {
    return points.length === 0
      ? "Other numbers of steps cannot be told from this run."
      : `Only ${settingInWords((points[0] as Point).setting)} can be told at batch size ${whole(batch)}.`;
  }
  const top = points.find((point) => isSame(point.setting, best.setting));
  const sure = best.clear ? "" : " No setting is clear of all others.";
  if (top === undefined) {
    const next = topOf(points);
    const against = plain ? ` against ${rate(plain.tokensPerS.value)}` : "";
    return next
      ? `No number of steps pays here: the best, ${settingInWords(next.setting)}, ${makes(next)} ${rate(next.tokensPerS.value)} tok/s${against}.${sure}`
      : `Plain decode is the best here.${sure}`;
  }
  const words = settingInWords(top.setting);
  if (current && isSame(top.setting, current.setting)) {
    return `${words}, which runs now, is the best of those that can be told.${sure}`;
  }
  return `${words} ${makes(top)} most: ${estimateText(top.tokensPerS, 1)} tok/s, ${percentText(best.gain)} more than now.${sure}`;
}

/** One point in words, as the slider says it. */
export function pointInWords(point: Point): string {
  const guessed = isExtrapolated(point) ? "extrapolated" : "predicted";
  const how = point.measured || point.plainSource !== null ? originInWords(point) : guessed;
  return `${settingInWords(point.setting)}: ${estimateText(point.tokensPerS, 1)} tok/s, ${how}`;
}

function makes({ measured }: Point): string {
  return measured ? "makes" : "would make";
}

function topOf(points: readonly Point[]): Point | undefined {
  return points.toSorted((one, other) => other.tokensPerS.value - one.tokensPerS.value)[0];
}

function bySteps({ setting: one }: Point, { setting: other }: Point): number {
  return one.steps - other.steps || one.topk - other.topk || one.draftTokens - other.draftTokens;
}
