import { describe, expect, test as it } from "vitest";
import { evenLabel, goalsInWords, goalsOf, plainLabel } from "./goals.ts";
import { decodeReport } from "./report.ts";
import { sampleReport } from "./sampleReport.ts";
import { cycleOf, rankOf } from "./testing.ts";
import type { Cycle } from "./wire.ts";

/** The founding story: a cycle of 29.9 ms at five steps, a plain decode of 11.1 ms. */
const CYCLE_MS = 29.9;
const PLAIN_MS = 11.1;
const PLAIN = { kind: "decode", steps: 0, topk: 0, draftTokens: 0 } as const;

function cycles(count: number, ms: number, over: Partial<Cycle> = {}): Cycle[] {
  return Array.from({ length: count }, (_, n) =>
    cycleOf(n, { ranks: [rankOf(n, [["verify", ms]])], ...over }),
  );
}

describe("what speculation has to reach", () => {
  const speculative = cycles(30, CYCLE_MS);

  it("is what the report says of this setting and batch size", () => {
    const report = decodeReport(sampleReport());
    const goals = goalsOf(cycles(30, 12), report, null);
    expect(goals).toMatchObject({ batch: 1, plainMs: 11.1, source: "report" });
    expect(goals?.breakEven).toEqual({ value: 2.69, low: 2.67, high: 2.71 });
    expect(goals?.plainTokensPerS).toBeCloseTo(1000 / 11.1);
  });

  it("is measured against what a person says that plain decode takes", () => {
    const goals = goalsOf(speculative, null, PLAIN_MS);
    expect(goals?.source).toBe("given");
    expect(goals?.breakEven.value).toBeCloseTo(CYCLE_MS / PLAIN_MS);
  });

  it("is else measured against plain decodes of the same batch size, if there are twenty", () => {
    const plain = cycles(20, PLAIN_MS, PLAIN);
    expect(goalsOf([...plain, ...speculative], null, null)).toMatchObject({
      plainMs: PLAIN_MS,
      source: "cycles",
    });
    expect(goalsOf([...plain.slice(1), ...speculative], null, null)).toBeNull();
    const larger = plain.map((cycle) => ({ ...cycle, batch: 2 }));
    expect(goalsOf([...larger, ...speculative], null, null)).toBeNull();
  });

  it("counts every request of the batch, and every group", () => {
    const both = ["DP0", "DP1"].flatMap((group) => cycles(30, CYCLE_MS, { group, batch: 4 }));
    expect(goalsOf(both, null, PLAIN_MS)?.plainTokensPerS).toBeCloseTo((2 * 4 * 1000) / PLAIN_MS);
  });

  it("is of what most of the newest cycles are, and of no other setting", () => {
    const others = cycles(10, 50, { steps: 2, draftTokens: 3 });
    const holes = speculative.slice(0, 5).map((cycle) => ({
      ...cycle,
      ranks: cycle.ranks.map((rank) => ({ ...rank, end: 9e9, incomplete: true })),
    }));
    const goals = goalsOf([...others, ...speculative, ...holes], null, PLAIN_MS);
    expect(goals?.setting).toEqual({ steps: 5, topk: 1, draftTokens: 6 });
    expect(goals?.breakEven.value).toBeCloseTo(CYCLE_MS / PLAIN_MS);
  });

  it("is not known where nothing speculates, or plain decode is not known", () => {
    expect(goalsOf(cycles(30, PLAIN_MS, PLAIN), null, PLAIN_MS)).toBeNull();
    expect(goalsOf(speculative, null, null)).toBeNull();
    expect(goalsOf([], null, PLAIN_MS)).toBeNull();
  });

  it("is named at its lines, and said with where it comes from", () => {
    const goals = goalsOf(speculative, null, PLAIN_MS);
    if (!goals) {
      throw new Error("plain decode was given");
    }
    expect(evenLabel(goals)).toBe("break-even 2.69");
    expect(plainLabel(goals)).toBe("plain decode 90");
    expect(goalsInWords(goals)).toBe(
      "At batch size 1, 5 steps: a plain decode takes 11.1 ms (as you said), break-even 2.69 tokens.",
    );
  });
});
