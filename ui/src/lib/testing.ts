// Cycles for the tests beside these files.
import type { Cycle, Phase, RankCycle, RequestRow } from "./wire.ts";

const NS_PER_MS = 1e6;

/** `[name, length in ms]`, and the cycle that it worked for if that was another one. */
export type Part = readonly [name: string, ms: number, ofCycle?: number];

/** A rank whose phases follow each other without holes. */
export function rankOf(
  n: number,
  parts: readonly Part[],
  over: Partial<RankCycle> = {},
): RankCycle {
  const start = over.start ?? 0;
  let end = start;
  const phases = parts.map(([name, ms, ofCycle = n]): Phase => {
    const from = end;
    end += ms * NS_PER_MS;
    return { name, lane: "host", start: from, end, ofCycle };
  });
  return {
    rank: "TP0",
    start,
    end,
    mode: "host",
    probeNs: 50_000,
    endedIdle: false,
    incomplete: false,
    phases,
    ...over,
  };
}

/** A speculative cycle of 5 steps that took 10 ms and began at second 1000. */
export function cycleOf(n: number, over: Partial<Cycle> = {}): Cycle {
  return {
    run: "r",
    group: "",
    n,
    kind: "speculative",
    batch: 1,
    steps: 5,
    topk: 1,
    draftTokens: 6,
    t0Ms: 1_000_000 + n * 10,
    ranks: [
      rankOf(n, [
        ["draft", 2],
        ["verify.forward", 7],
        ["schedule", 1],
      ]),
    ],
    requests: null,
    ...over,
  };
}

/** A request with `correct` drafts and the bonus token. */
export function rowOf(correct: number | null, over: Partial<RequestRow> = {}): RequestRow {
  const tokens = (correct ?? 0) + 1;
  return { id: "r-1", correct, tokens, overshoot: false, health: false, ...over };
}
