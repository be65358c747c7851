import { describe, expect, test as it } from "vitest";
import { WireError } from "./json.ts";
import { decodeCycle, decodeCycles, decodeState, unixMs } from "./wire.ts";

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
      {
        name: "wait",
        lane: "host",
        start: 9_109_278,
        end: 9_135_057,
        ofCycle: 4710,
        graph: null,
      },
    ]);
    expect(cycle.requests).toEqual([
      { id: "r-1", correct: 3, tokens: 4, overshoot: false, health: false },
    ]);
  });

  it("of an older sender has nothing where that sender said nothing", () => {
    const cycle = decodeCycle(CYCLE);
    expect(cycle).toMatchObject({
      padded: null,
      contextSum: null,
      contextMax: null,
      queued: null,
      running: null,
    });
    expect(cycle.ranks[0]).toMatchObject({
      askedMode: null,
      lateSwitch: false,
      clockErrorNs: null,
      deviceIncomplete: false,
    });
  });

  it("carries the device lane, how it was timed, and what it had to do", () => {
    const cycle = decodeCycle({
      ...CYCLE,
      padded: 8,
      context_sum: 590,
      context_max: 295,
      queued: 0,
      running: 2,
      ranks: [
        {
          ...CYCLE.ranks[0],
          asked_mode: "device",
          late_switch: true,
          clock_error_ns: 4712,
          device_incomplete: true,
          phases: [["draft", "device", 277_836, 2_468_336, 4711, true]],
        },
      ],
    });
    expect(cycle).toMatchObject({ padded: 8, contextSum: 590, contextMax: 295 });
    expect([cycle.queued, cycle.running]).toEqual([0, 2]);
    expect(cycle.ranks[0]).toMatchObject({
      askedMode: "device",
      lateSwitch: true,
      clockErrorNs: 4712,
      deviceIncomplete: true,
    });
    expect(cycle.ranks[0]?.phases[0]).toMatchObject({ lane: "device", graph: true });
  });

  it("whose results are not processed yet has no requests", () => {
    expect(decodeCycle({ ...CYCLE, requests: null }).requests).toBeNull();
  });

  it.each([
    ["n is no number", { ...CYCLE, n: "4711" }],
    ["ranks is no list", { ...CYCLE, ranks: {} }],
    ["run is no text", { ...CYCLE, run: 1 }],
    ["padded is no number", { ...CYCLE, padded: "8" }],
    ["queued is no number", { ...CYCLE, queued: true }],
    ["asked_mode is no text", { ...CYCLE, ranks: [{ ...CYCLE.ranks[0], asked_mode: 1 }] }],
    ["late_switch is neither", { ...CYCLE, ranks: [{ ...CYCLE.ranks[0], late_switch: 1 }] }],
    ["clock_error_ns is no", { ...CYCLE, ranks: [{ ...CYCLE.ranks[0], clock_error_ns: "1" }] }],
    ["graph", { ...CYCLE, ranks: [{ ...CYCLE.ranks[0], phases: [["wait", "host", 1, 2, 3, 1]] }] }],
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
      device_cycles: 1,
      device: [{ name: "draft", time: percentiles, share: 0.5, cycles: 1, max_lag: 0 }],
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
      lost: { records: 2, missing: 0, export: 0, stored: 0 },
      timing: "",
      sample_every: 1,
      skipped: { cycles: 0, output_tokens: 0 },
      notes: [],
      overlap: null,
      stored: { cycles: 0, first_n: null },
      summary: null,
    });
  });

  it("tells which spans are not stored, none where the server leaves that out", () => {
    const told = (changed: object) =>
      decodeState(JSON.stringify({ version: "1", runs: [], ...changed })).lostSpans;
    const joined = { unjoined: 0, evicted: 0, partial: 0 };
    expect(told({})).toEqual({ stored: 0, problem: "", refused: 0, reasons: "", ...joined });
    const spans = { stored: 2, problem: "No room.", refused: 3, reasons: "Not stored: no id (3)." };
    const lost = { ...spans, unjoined: 4, evicted: 5, partial: 6 };
    expect(told({ lost_spans: lost })).toEqual(lost);
  });

  it("carries the server's summary", () => {
    expect(decode({ summary })?.summary).toEqual(summary);
  });

  it("takes a summary of a server that sums up no device", () => {
    const { device, device_cycles, ...host } = summary.speculative;
    const old = decode({ summary: { ...summary, speculative: host } })?.summary?.speculative;
    expect(old).toEqual({ ...host, device: [], device_cycles: 0 });
  });

  it("carries how the run is traced", () => {
    const told = {
      timing: "The server runs on the CPU.",
      sample_every: 10,
      skipped: { cycles: 9, total_ns: 1, verifies: 2, correct_drafts: 3, output_tokens: 4 },
      notes: ["NVTX off."],
    };
    expect(decode(told)).toMatchObject(told);
    expect(() => decode({ sample_every: "10" })).toThrow("sample_every is no number");
  });

  it("takes a summary that lacks something for none", () => {
    expect(decode({ summary: { ...summary, window_s: undefined } })?.summary).toBeNull();
  });

  it("without runs is refused", () => {
    expect(() => decodeState("{}")).toThrow("runs is no list");
  });
});
