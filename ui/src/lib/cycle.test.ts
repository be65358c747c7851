import { describe, expect, test as it } from "vitest";
import {
  cycleMs,
  cycleTokens,
  foreignInWords,
  gainInWords,
  lateness,
  phaseTable,
  reachMs,
} from "./cycle.ts";
import { cycleOf, onDevice, rankOf, rowOf } from "./testing.ts";

const PARTS = [
  ["resolve", 1],
  ["verify.prepare", 2],
  ["verify.forward", 4],
  ["schedule", 1],
  ["wait", 1, 6],
  ["schedule", 1],
] as const;

describe("the phases of a cycle", () => {
  const cycle = cycleOf(7, { ranks: [rankOf(7, PARTS)] });
  const [rank] = cycle.ranks;
  const table = rank ? phaseTable(cycle, rank) : [];

  it("are summed up, the parent with its parts", () => {
    expect(table.map((row) => [row.name, row.ms])).toEqual([
      ["resolve", 1],
      ["verify", 6],
      ["verify.prepare", 2],
      ["verify.forward", 4],
      ["wait", 1],
      ["schedule", 2],
    ]);
  });

  it("add up to the cycle at the top level", () => {
    const top = table.filter((row) => !row.name.includes("."));
    expect(top.reduce((sum, row) => sum + row.share, 0)).toBeCloseTo(1);
  });

  it("say how often they came; touching parts are one stretch", () => {
    expect(table.map((row) => row.times)).toEqual([1, 1, 1, 1, 1, 2]);
  });

  it("say for which earlier cycle they worked", () => {
    expect(table.map((row) => row.ofCycle)).toEqual([null, null, null, null, 6, null]);
    expect(foreignInWords(cycle)).toBe("wait of cycle 6");
  });
});

it("phases of one earlier cycle are named together, with commas in its number", () => {
  const parts = [
    ["wait", 1, 4710],
    ["result", 1, 4710],
    ["draft", 1],
  ] as const;
  const cycle = cycleOf(4711, { ranks: [rankOf(4711, parts)] });
  expect(foreignInWords(cycle)).toBe("wait and result of cycle 4,710");
  expect(foreignInWords(cycleOf(1))).toBeNull();
});

it("a cycle is as long as its first rank, and reaches to the end of the last one", () => {
  const late = rankOf(1, [["draft", 10]], { rank: "TP1", start: 1e6 });
  const cycle = cycleOf(1, { ranks: [...cycleOf(1).ranks, late] });
  expect([cycleMs(cycle), reachMs(cycle)]).toEqual([10, 11]);
  expect(lateness(cycle)).toEqual(
    new Map([
      ["TP0", 0],
      ["TP1", 1],
    ]),
  );
});

it("a cycle reaches to the end of its device lane, where the host ran ahead", () => {
  const rank = onDevice(rankOf(1, [["draft", 10]]), 1, [["draft", 11, 14]]);
  const cycle = cycleOf(1, { ranks: [rank] });
  expect([cycleMs(cycle), reachMs(cycle)]).toEqual([10, 25]);
  expect(phaseTable(cycle, rank, "device").map((row) => [row.name, row.ms])).toEqual([
    ["draft", 14],
  ]);
  expect(phaseTable(cycle, rank).map((row) => row.ms)).toEqual([10]);
});

it("the server's health probes are no gain", () => {
  const cycle = cycleOf(1, { requests: [rowOf(2), rowOf(0, { health: true })] });
  expect(cycleTokens(cycle)).toBe(3);
  expect(gainInWords(cycle)).toBe("3 tokens");
  expect(gainInWords(cycleOf(1))).toBe("not counted");
});
