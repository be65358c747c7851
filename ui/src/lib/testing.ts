// Cycles for the tests beside these files.
import {
  type Cycle,
  decodeState,
  type Phase,
  type RankCycle,
  type RequestRow,
  type RunState,
} from "./wire.ts";

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
    return { name, lane: "host", start: from, end, ofCycle, graph: null };
  });
  return {
    rank: "TP0",
    start,
    end,
    mode: "host",
    askedMode: null,
    lateSwitch: false,
    probeNs: 50_000,
    endedIdle: false,
    incomplete: false,
    clockErrorNs: null,
    deviceIncomplete: false,
    phases,
    ...over,
  };
}

/** `[name, start in ms from the cycle's start, length in ms]` on the device. */
export type DevicePart = readonly [name: string, startMs: number, ms: number];

/** The same rank with a device lane, its clock known to 10 µs. */
export function onDevice(rank: RankCycle, n: number, parts: readonly DevicePart[]): RankCycle {
  const phases = parts.map(
    ([name, start, ms]): Phase => ({
      name,
      lane: "device",
      start: start * NS_PER_MS,
      end: (start + ms) * NS_PER_MS,
      ofCycle: n,
      graph: null,
    }),
  );
  return { ...rank, mode: "device", clockErrorNs: 10_000, phases: [...rank.phases, ...phases] };
}

/** A speculative cycle of 5 steps that took 10 ms and began at second 1000. */
export function cycleOf(n: number, over: Partial<Cycle> = {}): Cycle {
  return {
    run: "r",
    group: "",
    n,
    kind: "speculative",
    batch: 1,
    padded: null,
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
    contextSum: null,
    contextMax: null,
    queued: null,
    running: null,
    ...over,
  };
}

/** A request with `correct` drafts and the bonus token. */
export function rowOf(correct: number | null, over: Partial<RequestRow> = {}): RequestRow {
  const tokens = (correct ?? 0) + 1;
  return { id: "r-1", correct, tokens, overshoot: false, health: false, ...over };
}

/** A run as the server sends it, with what `over` says. */
export function runOf(over: object = {}): RunState {
  const run = { run: "r", host: "gpu-07", server_pid: 41, algorithm: "EAGLE3", ...over };
  const [decoded] = decodeState(JSON.stringify({ runs: [run] })).runs;
  if (!decoded) {
    throw new Error("one run went in");
  }
  return decoded;
}
