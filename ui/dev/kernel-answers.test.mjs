// The simulated server keeps the contract of kernels: the page's own readers take what it answers.
import { describe, expect, test as it, vi } from "vitest";
import { classesOf, decodeLooks, headline, worksOf } from "../src/lib/kernelLook.ts";
import { decodeKernels } from "../src/lib/kernels.ts";
import { madeOf } from "../src/lib/madeOf.ts";
import { keep, kernels, look, looks } from "./kernel-answers.mjs";

const MS = 1e6;
const T0 = 1_796_000_000_000_000_000n;

function runOf() {
  const cycles = Array.from({ length: 40 }, (_, place) => ({
    n: 101 + place,
    t0: String(T0 + BigInt(place * 30 * MS)),
    ranks: [
      {
        rank: "TP0",
        start: 0,
        end: 30 * MS,
        phases: [
          ["draft", "host", 0, MS, 101 + place],
          ["draft", "device", MS, 3 * MS, 101 + place],
          ["verify.forward", "device", 3 * MS, 29 * MS, 101 + place],
        ],
      },
    ],
  }));
  return { cycles, looks: [], looking: null, n: 140 };
}

describe("the simulated server", () => {
  const run = runOf();
  keep(run, 121, 20);

  it("has kernels of the cycles that a look saw one by one, and of no others", () => {
    expect(decodeKernels(kernels(run, 125)).ranks).toEqual([]);
    const [rank] = decodeKernels(kernels(run, 126)).ranks;
    const [draft, verify] = madeOf(rank, 3);
    expect([draft.phase, verify.phase]).toEqual(["draft", "verify.forward"]);
    expect(verify.deviceMs).toBeGreaterThan(25);
    expect(verify.deviceMs).toBeLessThan(26);
    expect(kernels(run, 99)).toBeNull();
  });

  it("sums a look up as its cycles do", () => {
    const [found] = decodeLooks(looks(run));
    expect(found.cyclesSeen.get("TP0")).toBe(15);
    expect(worksOf(found, "TP0").map(({ phase, cycles }) => [phase, cycles])).toEqual([
      ["draft", 15],
      ["verify.forward", 15],
    ]);
    const [rank] = decodeKernels(kernels(run, 126)).ranks;
    const made = madeOf(rank, 1)[1].classes.find(({ kernelClass }) => kernelClass === "matmul");
    const [, verify] = classesOf(found, "TP0");
    const all = verify.classes.find(({ kernelClass }) => kernelClass === "matmul");
    expect(all.ms).toBeCloseTo(15 * made.ms);
    expect(headline(found, "TP0")).toMatch(/^Verify forward is \d+ % matrix products; comm/);
  });

  it("goes through the stages of a window, and opens one at a time", () => {
    vi.useFakeTimers();
    try {
      const stages = [];
      const one = runOf();
      one.n = 100;
      const changed = () => stages.push(one.looking.stage);
      expect(look(one, 4, { changed })).toBeNull();
      expect(look(one, 4, { changed })).toMatch(/goes on/);
      vi.advanceTimersByTime(1000);
      one.n = 104;
      vi.advanceTimersByTime(3000);
      expect(stages).toEqual(["asked", "open", "reading", "done"]);
      expect(one.looks).toHaveLength(1);
    } finally {
      vi.useRealTimers();
    }
  });
});
