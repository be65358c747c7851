import { expect, test as it } from "vitest";
import { notesOf, partInWords, samplingInWords } from "./notes.ts";
import { runOf } from "./testing.ts";

const NONE = { cycles: 0, total_ns: 0, verifies: 0, correct_drafts: 0, output_tokens: 0 };

it("notes say what is not seen before what it cost, and nothing twice", () => {
  const run = runOf({
    timing: "The server runs on the CPU.",
    worker: "EAGLEWorkerV2",
    device: "cpu",
    overlap: true,
    notes: ["NVTX off.", "NVTX off."],
  });
  expect(notesOf(run)).toEqual([
    "The device is not timed: The server runs on the CPU.",
    "EAGLEWorkerV2 on cpu, with the overlap scheduler.",
    "NVTX off.",
  ]);
  expect(notesOf(runOf())).toEqual([]);
});

it("a figure says of which part of the cycles it is", () => {
  expect([1, 0.99, 0.1, 0.001].map(partInWords)).toEqual([
    null,
    null,
    "of 1 cycle in 10",
    "of 1 cycle in 1,000",
  ]);
  // 55 of 100 numbers, as where sampling changed in between.
  expect([0.55, 0.9].map(partInWords)).toEqual(["of 55 % of the cycles", "of 90 % of the cycles"]);
});

it("sampling says how much is recorded in full and what the others gave", () => {
  expect(samplingInWords(runOf())).toBeNull();
  expect(samplingInWords(runOf({ sample_every: 10, skipped: NONE }))).toBe(
    "1 cycle of 10 is recorded in full.",
  );
  const skipped = { cycles: 9, total_ns: 90e6, verifies: 9, correct_drafts: 18, output_tokens: 27 };
  // 90 ms / 9 cycles; (18 + 9) / 9 tokens.
  expect(samplingInWords(runOf({ sample_every: 10, skipped }))).toBe(
    "1 cycle of 10 is recorded in full; 9 others were counted: 10.0 ms each, 27 tokens, accept length 3.00.",
  );
});
