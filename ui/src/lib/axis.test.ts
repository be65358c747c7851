import { describe, expect, test as it } from "vitest";
import {
  axisSpan,
  decimalsOf,
  exactStep,
  limits,
  limitText,
  niceStep,
  ticks,
  tickText,
  timeStep,
} from "./axis.ts";

it("steps are 1, 2 or 5 times a power of ten", () => {
  expect([0.3, 1, 1.1, 3, 7, 40].map(niceStep)).toEqual([0.5, 1, 2, 5, 10, 50]);
  expect([0, Number.NaN].map(niceStep)).toEqual([1, 1]);
});

it("steps of the time of day divide a minute, an hour or a day from 10 s on", () => {
  expect([0.3, 3000, 7000, 20_000, 50_000].map(timeStep)).toEqual([
    0.5, 5000, 10_000, 30_000, 60_000,
  ]);
  const hour = 3_600_000;
  expect([200_000, 2.5 * hour, 13 * hour, 30 * hour].map(timeStep)).toEqual([
    300_000,
    3 * hour,
    24 * hour,
    48 * hour,
  ]);
  expect(ticks({ start: 0, end: 100_000 }, 5, 30_000)).toEqual([0, 30_000, 60_000, 90_000]);
});

it("ticks are round and inside", () => {
  expect(ticks({ start: 0, end: 10 }, 5)).toEqual([0, 2, 4, 6, 8, 10]);
  expect(ticks({ start: 3.1, end: 4 }, 2)).toEqual([3.5, 4]);
});

it("a step has as many decimals as it needs", () => {
  expect([10, 1, 0.5, 0.02].map(decimalsOf)).toEqual([0, 0, 1, 2]);
});

it.each([
  [0, 2, 10, "0"],
  [2.5, 0.5, 10, "2.5 ms"],
  [800, 200, 900, "800 ms"],
  [200, 200, 1200, "0.2 s"],
  [1000, 500, 4000, "1.0 s"],
  [1234.5, 0.5, 1236, "1.2345 s"],
  [2e9, 2e9, 16e9, "2,000,000 s"],
  [16e9, 2e9, 16e9, "16,000,000 s"],
])("%f ms on an axis with steps of %f up to %f is %s", (value, step, end, text) => {
  expect(tickText(value, step, end)).toBe(text);
});

it("a limit has the decimals that it takes to be true", () => {
  expect(exactStep({ start: 40, end: 100 })).toBe(1);
  expect(exactStep({ start: 1.5, end: 3 })).toBe(0.1);
  expect(exactStep({ start: 0.1 * 3, end: 1 })).toBe(0.1);
  expect(exactStep({ start: 3.38, end: 3.6 })).toBe(0.01);
  expect(exactStep({ start: 0, end: 0.001 })).toBe(0.01);
});

it("the limits of a track are short", () => {
  expect([limitText(0, 0.5), limitText(12_000, 2000), limitText(16e9, 2e9)]).toEqual([
    "0.0",
    "12,000",
    "1.6e10",
  ]);
});

describe("the limits of a track", () => {
  it("are round and hold all values", () => {
    const range = limits([9.1, null, 11.7], null);
    expect(range).toEqual({ start: 8, end: 12 });
  });

  it("stay while the values fit and fill enough", () => {
    const now = { start: 8, end: 12 };
    expect(limits([9, 11], now)).toBe(now);
    expect(limits([9, 12.5], now)).not.toBe(now);
  });

  it("are kept without values, and never begin below the floor", () => {
    const now = { start: 8, end: 12 };
    expect(limits([null], now)).toBe(now);
    expect(limits([null], null)).toBeNull();
    expect(limits([1.1, 4], null, 1)?.start).toBe(1);
  });

  it("have a length even if all values are the same", () => {
    const range = limits([7, 7], null);
    expect(range?.end).toBeGreaterThan(range?.start ?? 0);
    expect(limits([0, 0], null)).toEqual({ start: 0, end: 1 });
  });
});

describe("the waterfall's axis", () => {
  it("holds nine tenths of the cycles", () => {
    expect(axisSpan([...Array.from({ length: 19 }, () => 29), 500], null)).toBe(35);
  });

  it("stays while they fit and fill half of it", () => {
    expect(axisSpan([20], 35)).toBe(35);
    expect(axisSpan([40], 35)).toBe(45);
    expect(axisSpan([10], 35)).toBe(12);
  });

  it("has a length without cycles", () => {
    expect(axisSpan([], null)).toBe(10);
    expect(axisSpan([], 35)).toBe(35);
  });
});
