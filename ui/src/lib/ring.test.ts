import { expect, test as it } from "vitest";
import { amend, CycleRing, findCycle, merge } from "./ring.ts";
import { cycleOf, rowOf } from "./testing.ts";

const numbers = (cycles: readonly { n: number }[]) => cycles.map((cycle) => cycle.n);

it("cycles stand in the order of their start, however they come", () => {
  const ring = new CycleRing(10);
  for (const n of [2, 1, 4, 3]) {
    expect(ring.put(cycleOf(n))).toBeNull();
  }
  expect(numbers(ring.cycles)).toEqual([1, 2, 3, 4]);
});

it("a cycle that is sent again replaces its earlier version and hands it back", () => {
  const ring = new CycleRing(10);
  const first = cycleOf(1);
  const amended = cycleOf(1, { requests: [rowOf(3)] });
  ring.put(first);
  ring.put(cycleOf(2));
  expect(ring.put(amended)).toBe(first);
  expect(ring.cycles).toEqual([amended, cycleOf(2)]);
});

it("an amendment may move the start", () => {
  const ring = new CycleRing(10);
  ring.put(cycleOf(1));
  ring.put(cycleOf(2, { group: "DP1" }));
  ring.put(cycleOf(1, { t0Ms: cycleOf(3).t0Ms }));
  expect(numbers(ring.cycles)).toEqual([2, 1]);
});

it("a cycle of the future stays in its place among those of its group", () => {
  const ring = new CycleRing(10);
  const future = { t0Ms: cycleOf(2).t0Ms + 3 * 3600 * 1000 };
  ring.put(cycleOf(1));
  ring.put(cycleOf(2, future));
  ring.put(cycleOf(3));
  expect(numbers(ring.cycles)).toEqual([1, 2, 3]);
  expect(numbers(merge([cycleOf(1)], [cycleOf(2, future), cycleOf(3)]))).toEqual([1, 2, 3]);
});

it("groups count for themselves", () => {
  const ring = new CycleRing(10);
  ring.put(cycleOf(1, { group: "DP0" }));
  expect(ring.put(cycleOf(1, { group: "DP1" }))).toBeNull();
  expect(ring.cycles).toHaveLength(2);
  expect(ring.has({ group: "DP1", n: 1 })).toBe(true);
  expect(ring.has({ group: "DP2", n: 1 })).toBe(false);
});

it("the oldest cycles leave, and count as new if they come again", () => {
  const ring = new CycleRing(16);
  for (let n = 1; n <= 100; n += 1) {
    ring.put(cycleOf(n));
  }
  expect(ring.cycles.length).toBeGreaterThanOrEqual(16);
  expect(ring.cycles.length).toBeLessThan(18);
  expect(ring.cycles.at(-1)?.n).toBe(100);
  expect(ring.has({ group: "", n: 1 })).toBe(false);
});

it("a frozen list takes amendments, but no new cycles", () => {
  const list = [cycleOf(1), cycleOf(2)];
  const amended = cycleOf(2, { requests: [] });
  expect(amend(list, amended)).toEqual([cycleOf(1), amended]);
  expect(amend(list, cycleOf(3))).toBe(list);
});

it("stored cycles go before those in view, which are the newer versions", () => {
  const seen = cycleOf(2, { requests: [] });
  expect(merge([cycleOf(2), cycleOf(1)], [seen, cycleOf(3)])).toEqual([
    cycleOf(1),
    seen,
    cycleOf(3),
  ]);
  expect(findCycle([cycleOf(1)], "", 2)).toBeNull();
});
