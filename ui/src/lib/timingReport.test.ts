import { describe, expect, it } from "vitest";
import {
  costText,
  decodeTimingReport,
  differenceText,
  groundOf,
  laneOf,
  phaseNames,
  piecesOf,
} from "./timingReport.ts";

const at = (value: number, reach = 0.01) => ({ value, low: value - reach, high: value + reach });
const mode = (name: string, cycle: number, over: object = {}) => ({
  mode: name,
  cycles: 900,
  cycles_per_s: at(33),
  tokens_per_s: at(70.2),
  cycle_p50_ms: at(cycle),
  accept_length: 2.1,
  break_even_accept_length: null,
  host: [],
  device: [],
  ...over,
});
const phase = (name: string, ms: number) => ({ name, time_ms: at(ms), share: at(0.5) });
const RESULT = {
  engine: "sglang 0.5.23",
  worker: "EAGLEWorker",
  device: "cuda",
  server_pid: 70,
  duration_s: 40,
  comparison: {
    confidence: 0.95,
    reference: { mode: "device", lane: "device" },
    modes: [
      mode("off", 29.8),
      mode("host", 29.9, { host: [phase("verify", 28.7), phase("draft", 0.87)] }),
      mode("device", 29.9, {
        host: [phase("draft", 0.87)],
        device: [phase("draft", 2.18), phase("verify", 26.6), phase("draft_extend", 0.71)],
      }),
    ],
    differences: [
      { mode: "host", phase: "draft", difference_ms: at(-1.31), verdict: "differs" },
      { mode: "host", phase: "verify", difference_ms: at(2.1), verdict: "open" },
    ],
    costs: [
      { mode: "host", throughput_ratio: at(1.001), verdict: "same" },
      { mode: "sync", throughput_ratio: at(1.039), verdict: "differs" },
      { mode: "device", throughput_ratio: null, verdict: "open" },
    ],
    sentences: ["The host's clock hides 1.30 ms of draft."],
    rounds: 2,
    blocks: 8,
  },
};
const REPORT = decodeTimingReport(JSON.stringify(RESULT));

describe("a report", () => {
  it("divides each mode by the lane that it has", () => {
    expect(REPORT.modes.map(laneOf)).toEqual([null, "host", "device"]);
    expect(phaseNames(REPORT)).toEqual(["draft", "verify", "draft_extend"]);
  });
  it("has bars that are as long as the cycle, with what no phase covers", () => {
    const [off, host, device] = REPORT.modes.map(piecesOf);
    expect(off).toEqual([{ name: null, from: 0, to: 29.8 }]);
    expect(host?.map(({ name }) => name)).toEqual(["draft", "verify", null]);
    expect(device?.at(-1)?.name).toBeNull();
    expect(device?.at(-1)?.from).toBeCloseTo(2.18 + 26.6 + 0.71);
    expect(device?.at(-1)?.to).toBeCloseTo(29.9);
  });
  it("has no rest where the phases are longer than the median cycle", () => {
    const [, host] = REPORT.modes;
    const pieces = host && piecesOf({ ...host, cycleMs: { value: 1, low: null, high: null } });
    expect(pieces?.map(({ name }) => name)).toEqual(["draft", "verify"]);
  });
  it("says what each mode shows otherwise, and what it costs", () => {
    const host = REPORT.differences.get("host");
    expect(differenceText(host?.get("draft"))).toBe("−1.31 (−1.32 to −1.30)");
    expect(differenceText(host?.get("verify"))).toBe("+2.10 (+2.09 to +2.11) ?");
    expect(differenceText(undefined)).toBe("–");
    expect(
      ["host", "sync", "device", "off"].map((name) => costText(REPORT.costs.get(name))),
    ).toEqual(["none that matters", "3.9 % slower", "–", "–"]);
  });
  it("says what it rests on", () => {
    expect(groundOf(REPORT)).toBe(
      "sglang 0.5.23, EAGLEWorker, cuda, process 70; 8 blocks in 2 rounds, 40 s. " +
        "Cycles: off 900, host 900, device 900. Medians; intervals hold in 95 % of cases.",
    );
  });
});

it.each(["", "[]", "{}", '{"comparison": {"modes": 1}}', '{"cycles": 3}'])(
  "that is none is refused: %j",
  (json) => {
    expect(() => decodeTimingReport(json)).toThrow();
  },
);
