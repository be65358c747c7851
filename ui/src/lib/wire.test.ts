import { describe, expect, test as it } from "vitest";
import { decodeCycle, decodeCycles, decodeState, unixMs, WireError } from "./wire.ts";

const CYCLE = {
  run: "r",
  group: "",
  n: 4711,
  kind: "speculative",
  batch: 1,
  steps: 5,
  topk: 1,
  draft_tokens: 6,
  t0: "1796000000123456789",
  ranks: [
    {
      rank: "TP0",
      start: 0,
      end: 9_509_409,
      mode: "host",
      probe_ns: 49_000,
      ended_idle: false,
      incomplete: false,
      phases: [["wait", "host", 9_109_278, 9_135_057, 4710]],
    },
  ],
  requests: [{ id: "r-1", correct: 3, tokens: 4, overshoot: false, health: false }],
};

it("UNIX ns become ms without losing more than a µs", () => {
  expect(unixMs("1796000000123456789")).toBeCloseTo(1_796_000_000_123.4568, 3);
  expect(() => unixMs("12.5")).toThrow(WireError);
});

describe("a cycle", () => {
  it("keeps everything that the page shows", () => {
    const cycle = decodeCycle(CYCLE);
    expect(cycle).toMatchObject({ n: 4711, draftTokens: 6, kind: "speculative" });
    expect(cycle.ranks[0]).toMatchObject({ rank: "TP0", probeNs: 49_000, end: 9_509_409 });
    expect(cycle.ranks[0]?.phases).toEqual([
      { name: "wait", lane: "host", start: 9_109_278, end: 9_135_057, ofCycle: 4710 },
    ]);
    expect(cycle.requests).toEqual([
      { id: "r-1", correct: 3, tokens: 4, overshoot: false, health: false },
    ]);
  });

  it("whose results are not processed yet has no requests", () => {
    expect(decodeCycle({ ...CYCLE, requests: null }).requests).toBeNull();
  });

  it.each([
    ["n is no number", { ...CYCLE, n: "4711" }],
    ["ranks is no list", { ...CYCLE, ranks: {} }],
    ["run is no text", { ...CYCLE, run: 1 }],
    ["of_cycle", { ...CYCLE, ranks: [{ ...CYCLE.ranks[0], phases: [["wait", "host", 1, 2]] }] }],
  ])("that breaks the contract is refused: %s", (message, broken) => {
    expect(() => decodeCycles(JSON.stringify([broken]))).toThrow(message);
  });
});

describe("a state", () => {
  const run = { run: "r", ranks: [{ name: "TP0", pid: 1, reporting: true }], lost: { records: 2 } };
  const percentiles = { p50_ms: 1, p95_ms: 2, p99_ms: 3 };
  const summary = {
    window_s: 10,
    cycles: 1,
    cycles_per_s: 0.1,
    tokens_per_s: 0.3,
    speculative: {
      cycles: 1,
      incomplete: 0,
      time: percentiles,
      phases: [{ name: "draft", time: percentiles, share: 1, cycles: 1, max_lag: 0 }],
    },
    decode: null,
    verifies: 1,
    accept_length: 3,
    server_accept_length: null,
    batch_size_median: 1,
    steps_seen: [5],
    draft_tokens_seen: [6],
    probe_median_us: 49,
    probe_share: 0.005,
  };
  const decode = (changed: object) =>
    decodeState(JSON.stringify({ version: "1", runs: [{ ...run, ...changed }] })).runs[0];

  it("has defaults for what a server leaves out", () => {
    expect(decode({})).toMatchObject({
      state: "tracing",
      lost: { records: 2, missing: 0, export: 0 },
      stored: { cycles: 0, first_n: null },
      summary: null,
    });
  });

  it("carries the server's summary", () => {
    expect(decode({ summary })?.summary).toEqual(summary);
  });

  it("takes a summary that lacks something for none", () => {
    expect(decode({ summary: { ...summary, window_s: undefined } })?.summary).toBeNull();
  });

  it("without runs is refused", () => {
    expect(() => decodeState("{}")).toThrow("runs is no list");
  });
});
