import { expect, test as it } from "vitest";
import { decodeKernels } from "./kernels.ts";
import { madeOf } from "./madeOf.ts";

const MS = 1e6;

/** Two phases; of verify one kernel runs on another stream, at once with what is a gap there. */
const [RANK] = decodeKernels({
  t0: "1796000000000000000",
  ranks: [
    {
      rank: "TP0",
      phases: ["verify.forward", "draft"],
      names: ["void a::gemm<1>(int)", "attn", "nccl"],
      classes: ["matmul", "attention", "communication"],
      // draft 0–1; verify 2–5, 6–8 (1 ms free), 5–6.5 aside
      start: [0, 2 * MS, 5 * MS, 6 * MS],
      end: [MS, 5 * MS, 6.5 * MS, 8 * MS],
      stream: [7, 7, 9, 7],
      phase: [1, 0, 0, 0],
      name: [0, 0, 2, 1],
      graph: [0, 1, 0, 1],
    },
  ],
}).ranks;

it("a phase is summed up by class, with its gaps on the stream that did most", () => {
  const [draft, verify] = RANK ? madeOf(RANK, 2) : [];
  expect(draft).toMatchObject({ phase: "draft", deviceMs: 1, gapMs: 0, kernels: 1, ofGraphs: 0 });
  expect(verify).toMatchObject({ phase: "verify.forward", deviceMs: 6, kernels: 3, ofGraphs: 2 });
  expect(verify?.gapMs).toBeCloseTo(1);
  expect(verify?.classes.map(({ kernelClass, ms }) => [kernelClass, ms])).toEqual([
    ["matmul", 3],
    ["attention", 2],
    ["communication", 1.5],
  ]);
  expect(verify?.classes.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1);
  expect(verify?.biggest.map(({ short, ms, kernels }) => [short, ms, kernels])).toEqual([
    ["gemm", 3, 1],
    ["attn", 2, 1],
  ]);
});

it("kernels of one name are one line", () => {
  const [rank] = decodeKernels({
    t0: "1",
    ranks: [
      {
        rank: "TP0",
        phases: ["draft"],
        names: ["k"],
        classes: ["other"],
        start: [0, 2 * MS],
        end: [MS, 3 * MS],
        stream: [7, 7],
        phase: [0, 0],
        name: [0, 0],
        graph: [0, 0],
      },
    ],
  }).ranks;
  const [draft] = rank ? madeOf(rank, 3) : [];
  expect(draft?.biggest).toEqual([{ name: "k", short: "k", ms: 2, kernels: 2 }]);
  expect(draft).toMatchObject({ deviceMs: 3, gapMs: 1 });
});
