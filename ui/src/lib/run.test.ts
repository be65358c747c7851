import { describe, expect, test as it } from "vitest";
import {
  address,
  algorithm,
  endInWords,
  isSampled,
  isTraced,
  lostInWords,
  lostTotal,
  modelName,
  silentRanks,
} from "./run.ts";
import { summarize } from "./summary.ts";
import { cycleOf, runOf } from "./testing.ts";

describe("the model", () => {
  it.each([
    [["python", "--model-path", "/models/Llama-8B/"], "Llama-8B"],
    [["python", "--model=org/Qwen3"], "Qwen3"],
    [["python", "--model-path", "/m/x", "--served-model-name", "chat"], "chat"],
  ])("of %j is %s", (command, name) => {
    expect(modelName(runOf({ command }))).toBe(name);
  });

  it("without a flag gives way to the engine, then to the process", () => {
    expect(modelName(runOf({ engine: "sglang 0.5.23" }))).toBe("sglang 0.5.23");
    expect(modelName(runOf())).toBe("pid 41");
    expect(address(runOf())).toBe("gpu-07:41");
  });
});

it("a run that is traced here was sampled if it is now or left cycles out", () => {
  const none = { cycles: 0, total_ns: 0, verifies: 0, correct_drafts: 0, output_tokens: 0 };
  const skipped = { ...none, cycles: 9 };
  const here = { source: "attached", skipped: none, sample_every: 1 };
  expect(isSampled(runOf(here))).toBe(false);
  expect(isSampled(runOf({ ...here, sample_every: 10 }))).toBe(true);
  expect(isSampled(runOf({ ...here, skipped }))).toBe(true);
  expect(isSampled(runOf({ ...here, source: "received" }))).toBe(true);
});

it("the algorithm says as much as was seen", () => {
  expect(algorithm(runOf(), null)).toBe("EAGLE3");
  expect(algorithm(runOf({ algorithm: "None" }), null)).toBe("");
  expect(algorithm(runOf(), summarize([cycleOf(1)], 1))).toBe("EAGLE3, 5 steps, 6 tokens");
  const both = summarize([cycleOf(1), cycleOf(2, { steps: 2, draftTokens: 3 })], 1);
  expect(algorithm(runOf(), both)).toBe("EAGLE3, 2–5 steps, 3–6 tokens");
});

it("what was lost is counted and said", () => {
  const run = runOf({ lost: { records: 214, missing: 0, export: 1, stored: 2 } });
  expect(lostTotal(run)).toBe(217);
  expect(lostInWords(run)).toBe(
    "214 records overwritten in the ring before they were read, 2 cycles that could not be stored and 1 span that an exporter could not deliver.",
  );
  expect(lostInWords(runOf())).toBe("");
});

it("a run that ended says so, and that its cycles stay", () => {
  expect(endInWords(runOf({ state: "server_gone" }))).toEqual({
    head: "The server ended.",
    text: "What was collected stays.",
  });
  expect(isTraced(runOf({ state: "idle" }))).toBe(true);
  expect(isTraced(runOf({ state: "server_gone" }))).toBe(false);
});

it.each([
  ["server_gone", "The server has ended; what was measured is still here.", ""],
  ["server_gone", "The server ended.", ""],
  ["server_gone", "The server process exited. Two ranks were killed.", "Two ranks were killed. "],
  ["detached", "Tracing was ended; the server goes on without it.", "The server goes on. "],
  [
    "detached",
    "Another process traces the server now.",
    "The server goes on. Another process traces the server now. ",
  ],
])("a run in state %s with the message %j says each thing once", (state, message, said) => {
  expect(endInWords(runOf({ state, message }))?.text).toBe(`${said}What was collected stays.`);
});

it("a silent sender may come back, and the server's sentence says why", () => {
  const run = runOf({ state: "lost_sender", message: "Nothing has come for 10 s." });
  expect(endInWords(run)?.text).toBe("Nothing has come for 10 s. What was collected stays.");
  expect(isTraced(run)).toBe(true);
});

it("a recording is none that ended by itself", () => {
  const run = runOf({ source: "file", state: "detached", message: "Read from a recording." });
  expect(endInWords(run)).toEqual({ head: "Read from a recording.", text: "" });
  expect(isTraced(run)).toBe(false);
});

it("silent ranks are named while the run is traced", () => {
  const ranks = [
    { name: "TP0", pid: 1, reporting: true },
    { name: "TP1", pid: 2, reporting: false },
    { name: "TP2", pid: 3, reporting: false },
  ];
  expect(silentRanks(runOf({ ranks }))).toBe(
    "TP1 and TP2 do not report. Cycles are drawn without them.",
  );
  expect(silentRanks(runOf({ ranks, state: "server_gone" }))).toBeNull();
  expect(silentRanks(runOf())).toBeNull();
  const long = [{ name: "w".repeat(900), pid: 1, reporting: false }];
  expect(silentRanks(runOf({ ranks: long }))?.length).toBeLessThan(100);
});
