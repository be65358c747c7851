import { describe, expect, it } from "vitest";
import {
  basisOf,
  type Comparison,
  decodeComparison,
  detailsOf,
  excessText,
  headline,
  sideDifferences,
  stacked,
} from "./comparison.ts";

const estimate = (value: number, reach = 0.1) => ({
  value,
  low: value - reach,
  high: value + reach,
});
const difference = (one: number, other: number, verdict = "differs") => ({
  one: estimate(one),
  other: estimate(other),
  excess: estimate(other - one),
  verdict,
});
const SIDE = {
  cycles: 900,
  of: 1000,
  steps: [5],
  draft_tokens: [6],
  modes: ["device"],
  batch: 1,
  context: 812.4,
};
const ANSWER = {
  run_ids: ["a", "b"],
  engines: ["", ""],
  settings: [{ what: "--speculative-num-steps", one: "5", other: "2" }],
  comparison: {
    sides: [SIDE, { ...SIDE, steps: [2], draft_tokens: [3], batch: 1.04, context: null }],
    cycle_ms: difference(29.9, 26.28),
    tokens_per_s: difference(70.2, 80.3),
    throughput_ratio: { value: 1.143, low: 1.12, high: 1.165 },
    ms_per_token: difference(14.2, 12.5),
    accept_length: difference(2.1, 2.11, "open"),
    host: [],
    device: [
      { phase: "verify", time_ms: difference(28.7, 25.6), share: 0.856 },
      { phase: "draft", time_ms: difference(0.6, 0.24), share: 0.099 },
      { phase: null, time_ms: difference(0.6, 0.44, "open"), share: 0.045 },
    ],
    notes: ["other_contexts"],
    confidence: 0.95,
    claims: 7,
    margin: 0.01,
  },
};
const FOUND = decodeComparison(ANSWER);

describe("what differs", () => {
  it("is said in one sentence", () => {
    expect(headline(FOUND)).toBe(
      "The second run makes 14.3 % more tokens per second of decoding (12.0 % to 16.5 %).",
    );
  });
  it("is said of cycles and of the phases that make it so", () => {
    expect(detailsOf(FOUND)).toEqual([
      "Its cycles are 3.62 ms shorter, from 29.9 ms to 26.3 ms.",
      "Of that difference on the device: verify −3.10 ms.",
      "Whether the accept length differs (2.10, 2.11) cannot be said.",
      "The requests of one run are much longer, which costs time by itself.",
    ]);
  });
  it("is said of fewer tokens, of none and of nothing known", () => {
    const with_ = (over: Partial<Comparison>) => headline({ ...FOUND, ...over });
    const rate = FOUND.tokensPerS;
    expect(with_({ throughputRatio: { value: 0.9, low: 0.88, high: 0.92 } })).toMatch(
      "10.0 % fewer tokens per second of decoding (8.0 % to 12.0 %)",
    );
    expect(with_({ tokensPerS: rate && { ...rate, verdict: "same" } })).toMatch("within 1 %");
    expect(with_({ tokensPerS: rate && { ...rate, verdict: "open" } })).toMatch("cannot be said");
    expect(with_({ throughputRatio: null })).toMatch("not known");
    expect(with_({ cycleMs: null })).toMatch("cannot be compared");
  });
  it("in a cell has its interval, or a mark", () => {
    const [verify, , rest] = FOUND.device;
    expect(verify && excessText(verify.ms, 2)).toBe("−3.10 (−3.20 to −3.00)");
    expect(rest && excessText(rest.ms, 2)).toBe("−0.16 (−0.26 to −0.06) ?");
    expect(verify && excessText({ ...verify.ms, verdict: "same" }, 2)).toBe("none");
  });
  it("in the runs themselves stands with the settings", () => {
    expect(sideDifferences(FOUND.sides)).toEqual([
      { what: "draft steps", one: "5", other: "2" },
      { what: "tokens to verify", one: "6", other: "3" },
      { what: "mean context", one: "812", other: "–" },
    ]);
  });
});

it("says what it rests on", () => {
  expect(basisOf(FOUND)).toMatch("900 of 1,000 and 900 of 1,000 of the sample");
  expect(basisOf(FOUND)).toMatch("95 % of cases, those of the 7 differences");
});

it("phases stack up to the cycles, in the same order", () => {
  const { bars, whole } = stacked(FOUND.device);
  expect(bars.map((bar) => bar.map(({ name }) => name))).toEqual([
    ["verify", "draft", null],
    ["verify", "draft", null],
  ]);
  expect(bars[1][1]).toEqual({ name: "draft", from: 25.6, to: 25.84 });
  expect(whole[0]).toBeCloseTo(29.9);
  expect(whole[1]).toBeCloseTo(26.28);
});

it.each([{}, { ...ANSWER, comparison: { ...ANSWER.comparison, sides: [SIDE] } }])(
  "of another form is refused: %#",
  (other) => {
    expect(() => decodeComparison(other)).toThrow();
  },
);
