import { expect, test as it } from "vitest";
import { classesOf, decodeReportedLook, lookInWords, trustInWords } from "./reportedLook.ts";

const part = (kind: string, time: number, of: number) => ({
  kernel_class: kind,
  time_ms: time,
  share: time / of,
});
const VERIFY = {
  phase: "verify.forward",
  cycles: 10,
  device_ms: 28.7,
  busy_ms: 26.7,
  gap_ms: 2,
  kernels: 412,
  launches: 3,
  replays: 1,
  parts: [
    part("matmul", 17.2, 26.7),
    part("attention", 6.1, 26.7),
    part("communication", 3.1, 26.7),
    part("norm", 0.3, 26.7),
  ],
  communication: 3.1 / 26.7,
  beside_ms: 0,
  replay_ms: 26,
  replays_seen: 5,
  stretched: 28.7 / 26,
};
const DRAFT = {
  ...VERIFY,
  phase: "draft",
  device_ms: 2,
  gap_ms: 0.4,
  parts: [part("matmul", 1.6, 1.6)],
  communication: 0,
  replay_ms: null,
  stretched: null,
};
const rank = (name: string, own: number, told: number) => ({
  rank: name,
  cycles: 10,
  own_ms: own,
  communication_ms: told,
  communication: told / (own + told),
});
const LOOK = {
  source: "window",
  start_ns: 1_700_000_000_000_000_000,
  looks: 1,
  rank: "TP0",
  phases: [VERIFY, DRAFT],
  ranks: [rank("TP0", 25.2, 3.1)],
  slowest: null,
  cost: { rank: "TP0", before_ms: 30.1, kernels_ms: 34, after_ms: 30.1, graphs_ms: 30.2 },
  losses: [],
};

/** A look as the page has it. */
function looked(over: object = {}) {
  const look = decodeReportedLook({ ...LOOK, ...over });
  if (look === null) {
    throw new Error("nothing was read");
  }
  return look;
}

it("a run at whose kernels nobody looked has none", () => {
  expect(decodeReportedLook(null)).toBeNull();
  expect(decodeReportedLook(undefined)).toBeNull();
});

it("a look that is damaged is refused", () => {
  expect(() => decodeReportedLook({ ...LOOK, phases: 3 })).toThrow("phases");
  expect(() => decodeReportedLook({ ...LOOK, ranks: [{ rank: "TP0" }] })).toThrow("cycles");
});

it("a sentence says of what verify is made, and that nothing is a part of it", () => {
  // 0.3 ms are less than 2 % of 28.7.
  expect(lookInWords(looked())).toEqual([
    "Of the 28.7 ms that TP0's device takes for verify.forward in a cycle, 17.2 ms are matrix products, 6.10 ms attention, 3.10 ms communication and 2.00 ms nothing at all.",
    "Communication is 11 % of the time of all kernels that TP0's phases launched.",
  ]);
});

it("small parts are summed up, and a class of one's own keeps its name", () => {
  const parts = [part("lm_head", 26, 26.7), part("norm", 0.4, 26.7), part("copy", 0.3, 26.7)];
  const [words] = lookInWords(looked({ phases: [{ ...VERIFY, parts }] }));
  expect(words).toContain("26.0 ms are lm_head, 0.70 ms smaller ones and 2.00 ms nothing at all.");
});

it("kernels that ran at once are said to take more than the time there was", () => {
  const parts = [part("matmul", 30, 40), part("communication", 10, 40)];
  const [words] = lookInWords(looked({ phases: [{ ...VERIFY, parts, beside_ms: 13.3 }] }));
  expect(words).toBe(
    "In the 28.7 ms that TP0's device takes for verify.forward in a cycle (2.00 ms of them nothing at all), its kernels take 40.0 ms, since some ran at once: 30.0 ms are matrix products and 10.0 ms communication.",
  );
});

it("a phase of which no kernel's time came is said to be unknown", () => {
  const [words] = lookInWords(looked({ phases: [{ ...VERIFY, parts: [] }] }));
  expect(words).toBe("Of what verify.forward is made is not known.");
});

it("ranks are compared where one is slower", () => {
  const ranks = [rank("TP0", 24.9, 7), rank("TP1", 28.7, 3.4)];
  expect(lookInWords(looked({ ranks, rank: "TP1", slowest: "TP1" })).slice(2)).toEqual([
    "TP1's own kernels take 28.7 ms of a cycle, those of TP0 24.9 ms.",
    "TP0 spends 7.00 ms in communication, TP1 3.40 ms: a collective lasts until the last rank has come, so that the difference may be waiting.",
  ]);
});

it("what watching did to the times is said", () => {
  expect(trustInWords(looked({ looks: 2 }))).toEqual([
    "Seen whole, which disturbs little, a replay of its graph took 26.0 ms (mean of 5 replays); kernel by kernel, and with what is launched around it, verify.forward takes 28.7 ms, 1.10 times as much.",
    "Over 10 cycles of a watched server, the newest of 2 looks: a cycle took 34.0 ms while kernels were seen, and 30.1 ms before (medians). For how long phases take, timing is the measure.",
  ]);
  expect(trustInWords(looked({ source: "trace", cost: null, phases: [DRAFT] }))).toEqual([
    "Over 10 cycles of a trace: whoever wrote it made the server slower.",
  ]);
});

it("classes stand in the order of their time in all phases", () => {
  expect(classesOf(looked())).toEqual(["matmul", "attention", "communication", "norm"]);
});
