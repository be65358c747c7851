import { expect, test as it } from "vitest";
import { decodeSkew, shownPhase, skewInWords } from "./skew.ts";

const exact = (value: number) => ({ value, low: value, high: value });
const rank = (name: string, late: number, waited: number) => ({
  rank: name,
  late_ms: exact(late),
  late_at_end_ms: exact(0),
  lost_ms: exact(0),
  took_ms: exact(130 - late),
  waited_ms: exact(waited),
});
const phase = (name: string, spread: number, over: object = {}) => ({
  phase: name,
  lane: "host",
  cycles: 100,
  start_spread_ms: exact(spread),
  start_spread_p95_ms: exact(spread * 1.1),
  end_spread_ms: exact(0),
  synchronises: true,
  error_ms: 0,
  ranks: [rank("TP0", 0, spread), rank("TP1", spread, 0)],
  straggler: null,
  ...over,
});
const NOBODY = {
  phases: [phase("draft", 1), phase("verify", 2)],
  straggler: null,
  waits_in: null,
  lost_in: null,
  waited_ms: null,
  left_out_ranks: [],
  problem: "",
};

it("a straggler is named with where it is waited for and where it falls behind", () => {
  const skew = decodeSkew({
    ...NOBODY,
    phases: [phase("verify", 75, { straggler: "TP1" }), phase("result", 90)],
    straggler: "TP1",
    waits_in: "verify",
    lost_in: "draft",
    waited_ms: exact(75),
  });
  expect(shownPhase(skew)?.phase).toBe("verify");
  expect(skewInWords(skew)).toEqual([
    "TP1 comes to verify 75.0 ms behind the first rank, and the others wait for it there: up to 75.0 ms of it.",
    "It falls behind in draft.",
  ]);
});

it("without a straggler the phase is named in which ranks lie furthest apart", () => {
  expect(skewInWords(decodeSkew(NOBODY))).toEqual([
    "No rank is clearly later than the others. They lie furthest apart where they come to verify: 2.00 ms in the median (p95 2.20 ms).",
  ]);
});

it("ranks on other machines are named", () => {
  const skew = decodeSkew({
    ...NOBODY,
    phases: [],
    left_out_ranks: ["TP1", "TP2"],
    problem: "One.",
  });
  expect(shownPhase(skew)).toBeNull();
  expect(skewInWords(skew)).toEqual([
    "One.",
    "On other machines, and left out: TP1 and TP2. How far the clocks lie apart is not known.",
  ]);
});
