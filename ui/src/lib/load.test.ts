import { describe, expect, test as it } from "vitest";
import { contextInWords, graphsInWords, loadOf, paddedInWords } from "./load.ts";
import { cycleOf, rankOf } from "./testing.ts";

const forwards = (n: number, draft: boolean | null, verify: boolean | null) => {
  const rank = rankOf(n, [
    ["draft", 1],
    ["verify.forward", 1],
  ]);
  const graphs = [draft, verify];
  return {
    ...rank,
    phases: rank.phases.map((p, place) => ({ ...p, graph: graphs[place] ?? null })),
  };
};

describe("the load", () => {
  it("is that of the newest cycle that decodes and says", () => {
    const cycles = [
      cycleOf(1, { contextSum: 90, contextMax: 60, queued: 3, running: 2 }),
      cycleOf(2, { contextSum: 96, contextMax: 63 }),
      cycleOf(3),
      cycleOf(4, { kind: "extend", contextSum: 9999 }),
    ];
    expect(loadOf(cycles)).toMatchObject({ contextSum: 96, contextMax: 63, queued: 3, running: 2 });
    expect(loadOf([cycleOf(1)])).toMatchObject({ contextSum: null, padded: null, queued: null });
  });

  it("has the median of what batches were padded to", () => {
    const cycles = [4, 8, 8].map((padded, n) => cycleOf(n, { padded }));
    expect(loadOf(cycles).padded).toBe(8);
  });

  it("names what ran as a graph and what did not", () => {
    const words = (...ranks: [boolean | null, boolean | null][]) =>
      graphsInWords(loadOf(ranks.map((of, n) => cycleOf(n, { ranks: [forwards(n, ...of)] }))));
    expect(words([true, true])).toBe("draft and verify");
    expect(words([false, true])).toBe("verify, eager: draft");
    expect(words([false, false])).toBe("none, eager: draft and verify");
    expect(words([true, null], [false, null])).toBe("draft, eager: draft");
    expect(words([null, null])).toBeNull();
  });
});

it("a cycle says what its batch was padded to, if it was", () => {
  expect(paddedInWords(cycleOf(1, { batch: 3, padded: 4 }))).toBe("padded to 4");
  expect(paddedInWords(cycleOf(1, { batch: 4, padded: 4 }))).toBeNull();
  expect(paddedInWords(cycleOf(1))).toBeNull();
});

it("a cycle says how long its contexts were and who ran and waited, as far as it knows", () => {
  const all = { batch: 2, contextSum: 1200, contextMax: 700, running: 2, queued: 0 };
  expect(contextInWords(cycleOf(1, all))).toBe(
    "context 1,200 tokens, longest 700, 2 running, 0 queued",
  );
  expect(contextInWords(cycleOf(1, { queued: 1 }))).toBe("1 queued");
  expect(contextInWords(cycleOf(1))).toBeNull();
});
