import { describe, expect, test as it } from "vitest";
import {
  classesOf,
  costInWords,
  decodeLooks,
  groundOf,
  headline,
  isSeen,
  isUnderWay,
  type KernelLook,
  lookingInWords,
  lossesInWords,
  ranksOf,
  worksOf,
} from "./kernelLook.ts";

const WORK = {
  rank: "TP0",
  phase: "verify.forward",
  cycles: 15,
  device_ms: 26.5,
  busy_ms: 26,
  gap_ms: 0.5,
  kernels: 900,
  launches: 1,
  replays: 1,
  replay_ms: 26.2,
  replays_seen: 5,
};
const COST = {
  rank: "TP0",
  loading_ms: 400,
  switching_ms: 3,
  flushing_ms: 7,
  taking_ms: 5,
  before_ms: 30,
  graphs_ms: 30.5,
  kernels_ms: 42,
  after_ms: null,
};
const LOOK = {
  source: "window",
  start_ns: "1796000000123456789",
  end_ns: "1796000000623456789",
  cycles: 20,
  cycles_seen: { TP0: 15 },
  phases: [WORK, { ...WORK, phase: "draft" }],
  kernels: [
    { rank: "TP0", phase: "", kernel_class: "other", time_ms: 1000, kernels: 4 },
    {
      rank: "TP0",
      phase: "verify.forward",
      kernel_class: "communication",
      time_ms: 38,
      kernels: 1,
    },
    { rank: "TP0", phase: "verify.forward", kernel_class: "matmul", time_ms: 62, kernels: 2 },
    { rank: "TP0", phase: "draft", kernel_class: "attention", time_ms: 10, kernels: 3 },
  ],
  communication: { TP0: 0.12 },
  costs: [COST],
  losses: [{ rank: "TP0", records: 4000, no_room: 12, unfinished: 1, cut_short: true }],
};

function lookOf(over: object = {}): KernelLook {
  const [look] = decodeLooks({ looks: [{ ...LOOK, ...over }] });
  if (!look) {
    throw new Error("one look went in");
  }
  return look;
}

describe("a look", () => {
  it("is read whole, its times to less than a µs", () => {
    const look = lookOf();
    expect(look.startMs).toBeCloseTo(1_796_000_000_123.4568, 3);
    expect(look.phases[0]).toMatchObject({ phase: "verify.forward", replayMs: 26.2, launches: 1 });
    expect(look.costs[0]).toMatchObject({ loadingMs: 400, afterMs: null });
    expect(look.losses[0]).toMatchObject({
      noRoom: 12,
      torn: 0,
      cutShort: true,
      clockStepped: false,
    });
    expect(ranksOf(look)).toEqual(["TP0"]);
  });

  it("of a trace has neither cost nor losses", () => {
    const look = lookOf({ source: "trace", cycles: 0, costs: undefined, losses: undefined });
    expect([look.costs, look.losses]).toEqual([[], []]);
    expect(groundOf(look, "TP0")).toMatch(/15 cycles .* from a trace\.$/);
  });

  it.each([
    ["looks is no list", {}],
    ["start_ns is no text", { looks: [{ ...LOOK, start_ns: 5 }] }],
    ["no whole number", { looks: [{ ...LOOK, end_ns: "1.5" }] }],
    ["device_ms is no number", { looks: [{ ...LOOK, phases: [{ ...WORK, device_ms: "1" }] }] }],
    ["TP0 is no number", { looks: [{ ...LOOK, communication: { TP0: null, TP1: 1 } }] }],
    [
      "no_room is no number",
      { looks: [{ ...LOOK, losses: [{ ...LOOK.losses[0], no_room: "1" }] }] },
    ],
  ])("that breaks the contract is refused: %s", (message, broken) => {
    expect(() => decodeLooks(broken)).toThrow(message);
  });

  it("has phases in the order of a cycle, what no phase launched last, most time first", () => {
    expect(worksOf(lookOf(), "TP0").map(({ phase }) => phase)).toEqual(["draft", "verify.forward"]);
    const phases = classesOf(lookOf(), "TP0");
    expect(phases.map(({ phase, ms, kernels }) => [phase, ms, kernels])).toEqual([
      ["draft", 10, 3],
      ["verify.forward", 100, 3],
      ["", 1000, 4],
    ]);
    expect(phases[1]?.classes.map(({ kernelClass, share }) => [kernelClass, share])).toEqual([
      ["matmul", 0.62],
      ["communication", 0.38],
    ]);
  });
});

describe("a look in words", () => {
  it("begins with what the biggest phase is made of, and the share of communication", () => {
    expect(headline(lookOf(), "TP0")).toBe(
      "Verify forward is 62 % matrix products; communication is 12 % of all kernels' time.",
    );
    expect(headline(lookOf({ communication: { TP0: 0 } }), "TP0")).toBe(
      "Verify forward is 62 % matrix products.",
    );
  });

  it("says where nothing was launched, and keeps a class of somebody's own", () => {
    expect(headline(lookOf(), "TP1")).toBe("No phase of TP1 was seen to launch a kernel.");
    const own = [{ ...LOOK.kernels[3], kernel_class: "lm_head" }];
    expect(headline(lookOf({ kernels: own }), "TP0")).toBe(
      "Draft is 100 % lm_head; communication is 12 % of all kernels' time.",
    );
  });

  it("adds up for how long a rank stood still, and leaves out what was not seen", () => {
    const [cost] = lookOf().costs;
    expect(cost && costInWords(cost)).toBe(
      "The window held TP0 up for 410.0 ms, 400.0 ms of that to load CUPTI. Taking its buffers took 5.00 ms. " +
        "A cycle took 30.0 ms before the window, 30.5 ms while graphs were seen whole and 42.0 ms while kernels were (medians).",
    );
  });

  it("tells each kind of loss", () => {
    expect(lossesInWords(lookOf())).toEqual([
      "TP0: 12 of 4,000 records found no room: look at fewer cycles.",
      "TP0: 1 kernel had not ended, and is left out.",
      "TP0: The window was closed before its last cycle.",
    ]);
    expect(lossesInWords(lookOf({ losses: [{ rank: "TP0", records: 1 }] }))).toEqual([]);
  });

  it("says how far it is, and why there was none", () => {
    const at = (stage: string) => ({ stage, cycles: 20, why: "No driver.", mend: "Install one." });
    expect(["asked", "open", "reading"].map((stage) => isUnderWay(at(stage)))).toEqual([
      true,
      true,
      true,
    ]);
    expect([isUnderWay(at("done")), isUnderWay(at("refused")), isUnderWay(null)]).toEqual([
      false,
      false,
      false,
    ]);
    expect(lookingInWords(at("open")).text).toMatch(/20 cycles/);
    expect(lookingInWords(at("refused"))).toEqual({
      head: "There was no look at kernels.",
      text: "No driver. Install one.",
    });
  });
});

it("a cycle was looked at if it has something in common with a look", () => {
  const look = lookOf();
  const { startMs, endMs } = look;
  expect(isSeen([look], startMs - 5, startMs + 5)).toBe(true);
  expect(isSeen([look], endMs - 1, endMs + 30)).toBe(true);
  expect(isSeen([look], startMs - 30, startMs)).toBe(false);
  expect(isSeen([look], endMs, endMs + 30)).toBe(false);
  expect(isSeen([], startMs, endMs)).toBe(false);
});
