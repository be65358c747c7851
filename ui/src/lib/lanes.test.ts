import { describe, expect, test as it } from "vitest";
import { cycleBefore, deviceInWords, deviceKnown, gapMs, stretches } from "./lanes.ts";
import { EARLIER, GAP } from "./phases.ts";
import { cycleOf, type DevicePart, onDevice, type Part, rankOf } from "./testing.ts";
import type { Cycle, RankCycle } from "./wire.ts";

const HOST: readonly Part[] = [
  ["draft", 2],
  ["verify.prepare", 1],
  ["verify.forward", 6],
  ["schedule", 1],
];

const drawn = (cycle: Cycle, before: Cycle | null = null) => {
  const [rank] = cycle.ranks;
  return rank ? stretches(cycle, rank, before) : [];
};
const device = (cycle: Cycle, before: Cycle | null = null) =>
  drawn(cycle, before)
    .filter(({ lane }) => lane === "device")
    .map(({ name, start, end }) => [name, start, end]);
/** Cycles of the tests are 10 ms long and apart. */
const timed = (n: number, parts: readonly DevicePart[], over: Partial<RankCycle> = {}) =>
  cycleOf(n, { ranks: [{ ...onDevice(rankOf(n, HOST), n, parts), ...over }] });

it("touching parts make one stretch of their parent, which comes before them", () => {
  expect(
    drawn(cycleOf(1, { ranks: [rankOf(1, HOST)] })).map((s) => [s.name, s.start, s.end]),
  ).toEqual([
    ["draft", 0, 2],
    ["verify", 2, 9],
    ["verify.prepare", 2, 3],
    ["verify.forward", 3, 9],
    ["schedule", 9, 10],
  ]);
});

describe("a device lane", () => {
  it("comes after the host's, with gaps between its phases", () => {
    const cycle = timed(1, [
      ["draft", 1, 2],
      ["verify.prepare", 4, 1],
      ["verify.forward", 5, 6],
    ]);
    expect(drawn(cycle).map(({ lane }) => lane)).toEqual([
      ...Array(5).fill("host"),
      ...Array(5).fill("device"),
    ]);
    expect(device(cycle)).toEqual([
      ["draft", 1, 3],
      [GAP, 3, 4],
      ["verify", 4, 11],
      ["verify.prepare", 4, 5],
      ["verify.forward", 5, 11],
    ]);
    expect(gapMs(drawn(cycle))).toBe(1);
  });

  it("divides a parent where nothing ran between its parts", () => {
    const cycle = timed(1, [
      ["verify.prepare", 1, 1],
      ["verify.forward", 3, 7],
    ]);
    expect(device(cycle).map(([name]) => name)).toEqual([
      "verify",
      "verify.prepare",
      GAP,
      "verify",
      "verify.forward",
    ]);
  });

  it("has no gaps where something is missing: nobody knows what was there", () => {
    const parts: readonly DevicePart[] = [
      ["draft", 1, 2],
      ["verify.forward", 5, 6],
    ];
    const cycle = timed(1, parts, { deviceIncomplete: true });
    expect(device(cycle).map(([name]) => name)).toEqual(["draft", "verify", "verify.forward"]);
  });

  it("begins with what the device did for the cycle before, and with the gap behind it", () => {
    const before = timed(1, [["verify.forward", 8, 6]]);
    // The first ended 14 ms after its start: 4 ms after the start of the second.
    const cycle = timed(2, [["draft", 5, 6]]);
    expect(device(cycle, before)).toEqual([
      [EARLIER, 0, 4],
      [GAP, 4, 5],
      ["draft", 5, 11],
    ]);
    expect(device(cycle)).toEqual([["draft", 5, 11]]);
  });

  it("begins with a gap where the device had run dry, and ends with one as far as the cycle goes", () => {
    const before = timed(1, [["verify.forward", 3, 6]]);
    expect(device(before).at(-1)).toEqual([GAP, 9, 10]);
    expect(device(timed(2, [["draft", 1, 8]]), before)).toEqual([
      [GAP, 0, 1],
      ["draft", 1, 9],
      [GAP, 9, 10],
    ]);
  });

  it("claims no gap that is within the errors of the clocks, nor one after idling", () => {
    const before = timed(1, [["verify.forward", 3, 6]]);
    const near = timed(2, [["draft", 0.015, 9.98]]);
    expect(device(near, before).map(([name]) => name)).toEqual(["draft"]);
    const idle = timed(1, [["verify.forward", 3, 6]], { endedIdle: true });
    expect(device(timed(2, [["draft", 1, 9]]), idle).map(([name]) => name)).toEqual(["draft"]);
  });

  it("says of a gap how late the host was, if it was", () => {
    const lateness = (cycle: Cycle) => drawn(cycle).find(({ name }) => name === GAP)?.hostLate;
    const verify = (start: number) =>
      timed(1, [
        ["draft", 0.5, 1],
        ["verify.prepare", start, 1],
      ]);
    // The host begins verify.prepare at 2 ms, 0.5 ms after the device has done with the draft.
    expect(lateness(verify(2.25))).toBeCloseTo(0.5);
    const early = timed(1, [
      ["draft", 0.5, 2],
      ["verify.prepare", 4, 1],
    ]);
    expect(lateness(early)).toBeNull();
    // What is left of the cycle was the host's alone, unless there was no next cycle to come to.
    const done = [["draft", 0, 7]] as const;
    expect(lateness(timed(1, done))).toBe(3);
    expect(lateness(timed(1, done, { endedIdle: true }))).toBeNull();
  });
});

describe("what is known of a device lane", () => {
  const rank = rankOf(1, HOST);
  const lane = onDevice(rank, 1, [["draft", 1, 2]]);
  it.each([
    ["whole", lane, null],
    ["incomplete", { ...lane, deviceIncomplete: true }, "device times incomplete"],
    ["missing", { ...rank, mode: "device", deviceIncomplete: true }, "device times missing"],
    ["nothing", { ...rank, mode: "device" }, "nothing timed on the device"],
    ["untimed", rank, "not timed on the device"],
  ])("is said: %s", (known, of, words) => {
    expect([deviceKnown(of), deviceInWords(of)]).toEqual([known, words]);
  });
});

it("the cycle before is the one with the number before, of the same group", () => {
  const all = [
    cycleOf(1, { group: "DP0" }),
    cycleOf(1, { group: "DP1" }),
    cycleOf(2, { group: "DP0" }),
    cycleOf(4, { group: "DP0" }),
  ];
  expect(cycleBefore(all, 2)).toBe(all[0]);
  expect([0, 1, 3, -1].map((place) => cycleBefore(all, place))).toEqual([null, null, null, null]);
});
