import { expect, test as it } from "vitest";
import { decodeEstimate, estimateText, percentText, reachOf } from "./estimate.ts";

it("an interval stands in brackets behind its value", () => {
  expect(estimateText({ value: 2.1, low: 2.052, high: 2.148 })).toBe("2.10 (2.05–2.15)");
  expect(estimateText({ value: 1234.56, low: 1200, high: 1300 }, 1)).toBe(
    "1,234.6 (1,200.0–1,300.0)",
  );
});

it("without both limits, or with none between them, there is no bracket", () => {
  expect(estimateText({ value: 2, low: null, high: 3 })).toBe("2.00");
  expect(estimateText({ value: 2, low: 2, high: 2 })).toBe("2.00");
  expect(reachOf({ value: 2, low: 1, high: null })).toBeNull();
  expect(estimateText(null)).toBe("–");
});

it("a share has one decimal where its interval is narrower than 5 %, and what rounds to 0 no sign", () => {
  expect(percentText({ value: 0.12, low: 0.02, high: 0.22 })).toBe("12 % (2–22)");
  expect(percentText({ value: 0.125, low: 0.115, high: 0.135 })).toBe("12.5 % (11.5–13.5)");
  expect(percentText({ value: -0.0001, low: -0.004, high: 0.2 })).toBe("0 % (0–20)");
  expect(percentText({ value: -0.25, low: null, high: null })).toBe("−25 %");
});

it("what has no value is refused", () => {
  expect(() => decodeEstimate({ low: 1, high: 2 })).toThrow("value is no number");
});
