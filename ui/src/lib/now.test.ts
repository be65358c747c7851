import { describe, expect, test as it } from "vitest";
import { endOf, Skew, until } from "./now.ts";
import { cycleOf } from "./testing.ts";

const HOURS = 3 * 3600 * 1000;

function skewOf(...behindMs: number[]): number {
  const skew = new Skew();
  for (const each of behindMs) {
    skew.put(each);
  }
  return skew.ms;
}

describe("the difference between clocks", () => {
  it("is none while cycles come as soon as they can", () => {
    expect(skewOf(100, 300, 250, 120, 4000, 900)).toBe(0);
  });

  it("is not taken from a cycle of the future", () => {
    expect(skewOf(100, 300, 250, 120, -HOURS, 90)).toBe(0);
    expect(skewOf(-HOURS)).toBe(0);
  });

  it("is not the age of what a page finds when it opens", () => {
    expect(skewOf(HOURS)).toBe(0);
  });

  it("is what all cycles agree on", () => {
    expect(skewOf(30_100, 30_300, 30_200, 30_150, 30_250)).toBe(30_200);
    expect(skewOf(...Array.from({ length: 20 }, () => -HOURS))).toBe(-HOURS);
  });

  it("is forgotten when the clock was set", () => {
    const before = Array.from({ length: 20 }, () => -HOURS);
    expect(skewOf(...before, ...Array.from({ length: 8 }, () => 100))).toBe(0);
  });
});

it("a cycle of the future is not the newest one", () => {
  const cycles = [cycleOf(1), cycleOf(2), cycleOf(3, { t0Ms: 1_000_000 + HOURS })];
  const now = 1_000_100;
  expect(until(cycles, now)).toEqual(cycles.slice(0, 2));
  expect(until(cycles, now + HOURS)).toBe(cycles);
  expect(until([], now)).toEqual([]);
  expect(endOf(cycleOf(1))).toBe(1_000_020);
});
