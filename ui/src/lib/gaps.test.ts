import { expect, test as it } from "vitest";
import { decodeGaps, deviceGapsInWords, gapInWords, shownGaps } from "./gaps.ts";
import { sampleReport } from "./sampleReport.ts";

const RAW = sampleReport()["bubbles"] as Record<string, unknown>;
const GAPS = decodeGaps(RAW);

it("gaps that take less than 0.5 % of the time are not shown", () => {
  expect(shownGaps(GAPS).map(gapInWords)).toEqual(["draft extend → draft of the next"]);
  expect(GAPS.gaps).toHaveLength(2);
});

it("the words say who sets the pace, for how long the device waits and why, and what is hidden", () => {
  expect(deviceGapsInWords(GAPS)).toEqual([
    "The server is host-bound: the device waits for the host.",
    "The device runs no phase in 12.0 % (11.0–13.0) of the time.",
    "Of all time that is 9 % while the host was still in the scheduler and 3 % while the host was still preparing or launching.",
    "The scheduler's own work takes 2.90 ms of a cycle; in 10.0 % (8.0–12.0) of that the device is busy meanwhile.",
  ]);
});

it("why nothing can be said stands alone", () => {
  const problem = "There is no device lane.";
  expect(deviceGapsInWords(decodeGaps({ ...RAW, problem }))).toEqual([problem]);
});
