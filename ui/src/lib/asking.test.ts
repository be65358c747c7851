import { expect, test as it } from "vitest";
import { type Had, isDue, type Want } from "./asking.ts";

const WANT: Want = { run: "a", baselineMs: null, stored: 200 };
const HAD: Had = { run: "a", baselineMs: null, stored: 100, atMs: 50_000, tookMs: 100 };

it("asks at once for what is not here: the first time, another run, another baseline", () => {
  expect(isDue(WANT, null, false, 0)).toBe(true);
  expect(isDue({ ...WANT, run: "b" }, HAD, false, 50_001)).toBe(true);
  expect(isDue({ ...WANT, baselineMs: 11.1 }, HAD, false, 50_001)).toBe(true);
});

it("asks again at most every 10 s, and only while live", () => {
  expect(isDue(WANT, HAD, true, 59_999)).toBe(false);
  expect(isDue(WANT, HAD, true, 60_000)).toBe(true);
  expect(isDue(WANT, HAD, false, 60_000)).toBe(false);
});

it("does not ask where no cycle came since", () => {
  expect(isDue({ ...WANT, stored: 100 }, HAD, true, 999_000)).toBe(false);
});

it("lets the server rest nine times as long as a report took", () => {
  const slow = { ...HAD, tookMs: 5000 };
  expect(isDue(WANT, slow, true, 94_999)).toBe(false);
  expect(isDue(WANT, slow, true, 95_000)).toBe(true);
});
