import { expect, test as it } from "vitest";
import { decodeReport, type Point, type Report } from "./report.ts";
import { sampleReport } from "./sampleReport.ts";
import {
  axisFromZero,
  batchesOf,
  bestInWords,
  type Choice,
  choiceOf,
  isExtrapolated,
  placeOf,
  pointInWords,
  throughputAxis,
} from "./whatif.ts";

const REPORT = decodeReport(sampleReport());

function choice(report: Report = REPORT, asked: number | null = null): Choice {
  const found = choiceOf(report, asked);
  if (!found) {
    throw new Error("there is no choice");
  }
  return found;
}

it("settings with drafts stand in the order of their steps, plain decode apart", () => {
  const found = choice();
  expect(found.points.map(({ setting }) => setting.steps)).toEqual([2, 3, 5, 7]);
  expect(found.plain?.cycleMs.value).toBe(11.1);
  expect(found.current?.setting.steps).toBe(5);
});

it("a batch size that is not there gives the one that took most of the time", () => {
  const larger = REPORT.points.map((point): Point => ({ ...point, batch: 4 }));
  const both = { ...REPORT, points: [...larger, ...REPORT.points] };
  expect(batchesOf(both)).toEqual([1, 4]);
  expect([4, 1, 7, null].map((batch) => choice(both, batch).batch)).toEqual([4, 1, 1, 1]);
  expect(choiceOf({ ...REPORT, points: [] }, 1)).toBeNull();
});

it("what is tried is what the address asks for, else what gives most", () => {
  const found = choice();
  expect(placeOf(found, "5-1-6")).toBe(2);
  // 2 steps give 1000 × 2 / 26.3 = 76.0 tok/s, 3 steps 1000 × 2.07 / 27.5 = 75.3.
  expect(placeOf(found, "9-1-10")).toBe(0);
  expect(placeOf(found, null)).toBe(0);
});

it("only what lies outside of what was measured is extrapolated", () => {
  expect(choice().points.map(isExtrapolated)).toEqual([false, false, false, true]);
});

it("the best setting is named with what it makes, and where none pays that is said", () => {
  // 1000 × 2 tokens / 26.3 ms, against 1000 / 11.1 ms.
  expect(bestInWords(choice())).toBe(
    "No number of steps pays here: the best, 2 steps, makes 76 tok/s against 90.",
  );
  const found = choice();
  const guessed = found.points.slice(1);
  expect(bestInWords({ ...found, points: guessed })).toMatch(/the best, 3 steps, would make 75 /);
  const best = found.best && { ...found.best, setting: { steps: 3, topk: 1, draftTokens: 4 } };
  expect(bestInWords({ ...found, best })).toMatch(/^3 steps would make most: 75\.3 .* more than/);
  const now = best && { ...best, setting: { steps: 5, topk: 1, draftTokens: 6 }, clear: false };
  expect(bestInWords({ ...found, best: now })).toBe(
    "5 steps, which runs now, is the best of those that can be told. No setting is clear of all others.",
  );
});

it("the slider says what a setting gives and how that is known", () => {
  // 1000 × 2.11 / 32.3 = 65.3, ± 2.
  expect(choice().points.map(pointInWords).at(-1)).toBe(
    "7 steps: 65.3 (63.3–67.3) tok/s, extrapolated",
  );
});

it("the axis holds every interval and plain decode", () => {
  const { range, at } = throughputAxis(choice());
  expect(range.start).toBeLessThanOrEqual(63.3);
  expect(range.end).toBeGreaterThanOrEqual(92.1);
  expect(at.every((tick) => tick >= range.start && tick <= range.end)).toBe(true);
});

it("an axis from zero ends at a round number above all values", () => {
  expect(axisFromZero([28.9, null]).range).toEqual({ start: 0, end: 40 });
});
