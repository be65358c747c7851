import { expect, test as it } from "vitest";
import { gapShare, lanesOf } from "./shares.ts";
import { summarize } from "./summary.ts";
import { cycleOf, onDevice, rankOf } from "./testing.ts";

const rank = rankOf(1, [
  ["verify.forward", 9],
  ["schedule", 1],
]);
const lanes = onDevice(rank, 1, [
  ["draft", 0, 2],
  ["verify.forward", 2, 6],
]);
const times = (of: typeof rank) => summarize([cycleOf(1, { ranks: [of] })], 1)?.speculative;

it("phases of either lane stand in the order of a cycle, with what each lane took", () => {
  const rows = lanesOf(times(lanes) ?? expect.fail("no times"));
  expect(
    rows.map(({ name, device, host }) => [name, device?.time.p50_ms, host?.time.p50_ms]),
  ).toEqual([
    ["draft", 2, undefined],
    ["verify", 6, 9],
    ["verify.forward", 6, 9],
    ["schedule", undefined, 1],
  ]);
});

it("what device phases lack of the cycle's time is the gap: 10 ms less 2 and 6", () => {
  expect(gapShare(times(lanes)?.device ?? [])).toBeCloseTo(0.2);
  expect(gapShare(times(rank)?.device ?? [])).toBe(0);
});
