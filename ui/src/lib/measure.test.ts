import { expect, test as it } from "vitest";
import { measure } from "./measure.ts";
import { cycleOf, onDevice, rankOf } from "./testing.ts";

const T0 = 1_000_000;

it("counts what lies wholly within a stretch, by hand", () => {
  // Drafts of 1, 2, 3 and 4 ms, each cycle 10 ms long.
  const cycles = [1, 2, 3, 4].map(
    (n) =>
    cycleOf(n, { ranks: [rankOf(n, [["draft", n], ["verify", 10 - n]])] }), // biome-ignore format: one cycle
  );
  const { cycles: lengths, phases, cut } = measure(cycles, "TP0", { start: T0, end: T0 + 45 });
  expect(lengths).toEqual({ count: 3, sum: 30, p50: 10, p95: 10, p99: 10 });
  // The fourth draft ends at 44 ms; the fourth verify is cut by the edge at 45.
  const [draft, verify] = phases;
  expect(draft).toMatchObject({ name: "draft", lane: "host", count: 4, sum: 10, p50: 2.5 });
  // By definition 7: at 0.95 * 3 = 2.85 between 3 and 4, at 2.97.
  expect(draft?.p95).toBeCloseTo(3.85, 9);
  expect(draft?.p99).toBeCloseTo(3.97, 9);
  expect(verify).toMatchObject({ name: "verify", count: 3, sum: 24 });
  expect(cut).toBe(1);
});

it("keeps the lanes apart and the gaps at the end", () => {
  const cycle = cycleOf(1, {
    ranks: [onDevice(rankOf(1, [["draft", 10]]), 1, [["draft", 1, 3], ["verify", 5, 5]])], // biome-ignore format: one lane
  });
  const { phases } = measure([cycle], "TP0", { start: T0, end: T0 + 100 });
  expect(phases.map(({ lane, name, sum }) => [lane, name, sum])).toEqual([
    ["host", "draft", 10],
    ["device", "draft", 3],
    ["device", "verify", 5],
    ["device", "gap", 1],
  ]);
});

it("says nothing of a rank that did not report", () => {
  const nothing = { cycles: null, phases: [], cut: 0 };
  expect(measure([cycleOf(1)], "TP7", { start: T0, end: T0 + 100 })).toEqual(nothing);
  expect(measure([], "TP0", { start: 0, end: 1 })).toEqual(nothing);
});
