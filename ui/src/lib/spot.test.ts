import { describe, expect, test as it } from "vitest";
import { barOf, findSpot, moveSpot, spotOf } from "./spot.ts";
import { cycleOf, onDevice, rankOf } from "./testing.ts";
import { bars, rowShape } from "./waterfall.ts";

const PARTS = [
  ["draft", 2],
  ["verify.forward", 7],
  ["schedule", 1],
] as const;
const RANKS = ["TP0", "TP1"];
const SHAPE = rowShape(2, 0, { parts: true, device: false, kernels: false });
const cycles = [1, 2, 3].map((n) =>
  cycleOf(n, { ranks: RANKS.map((rank) => rankOf(n, PARTS, { rank })) }),
);
const [, second] = cycles;
const here = { key: "/2", rank: "TP0", place: 1 };

describe("keys", () => {
  it("lead to the newest cycle from nowhere", () => {
    expect(moveSpot("ArrowDown", null, cycles, RANKS)).toEqual({
      key: "/3",
      rank: "TP0",
      place: 0,
    });
  });

  it.each([
    ["ArrowUp", { ...here, key: "/3" }],
    ["ArrowDown", { ...here, key: "/1" }],
    ["ArrowLeft", { ...here, place: 0 }],
    ["ArrowRight", { ...here, place: 2 }],
    ["j", { ...here, rank: "TP1" }],
    ["k", here],
  ])("%s goes one step", (key, to) => {
    expect(moveSpot(key, here, cycles, RANKS)).toEqual(to);
  });

  it("stop at the last phase", () => {
    // draft, verify, verify.forward, schedule
    expect(moveSpot("ArrowRight", { ...here, place: 3 }, cycles, RANKS)?.place).toBe(3);
  });

  it("that mean something else lead nowhere", () => {
    expect(moveSpot("x", here, cycles, RANKS)).toBeNull();
    expect(moveSpot("ArrowUp", here, [], RANKS)).toBeNull();
  });
});

describe("on two lanes", () => {
  const timed = [1, 2].map((n) =>
    cycleOf(n, {
      ranks: [
        onDevice(rankOf(n, PARTS), n, [
          ["draft", 1, 2],
          ["verify.forward", 3, 6],
        ]),
      ],
    }),
  );
  // draft, verify, verify.forward, schedule; then draft, verify, verify.forward on the device.
  const at = (place: number) => ({ key: "/1", rank: "TP0", place });

  it("l goes to the same phase of the other lane and back", () => {
    expect(moveSpot("l", at(1), timed, RANKS)).toEqual(at(5));
    expect(moveSpot("l", at(5), timed, RANKS)).toEqual(at(1));
  });

  it("l goes to the first phase of a lane that does not have this one", () => {
    expect(moveSpot("l", at(3), timed, RANKS)).toEqual(at(4));
  });

  it("other cycles show the same phase of the same lane", () => {
    // The second cycle's device lane may begin with what the first one left to do.
    const up = moveSpot("ArrowUp", at(6), timed, RANKS);
    expect(up && findSpot(timed, up)?.stretch).toMatchObject({
      name: "verify.forward",
      lane: "device",
    });
  });

  it("arrows go through the host first, then through the device", () => {
    expect(moveSpot("ArrowRight", at(3), timed, RANKS)).toEqual(at(4));
  });
});

it("a spot and its bar name each other", () => {
  const window = { range: { start: 0, end: 10 }, width: 1000 };
  const drawn = second ? bars({ cycle: second, before: null }, RANKS, SHAPE, window) : [];
  const found = findSpot(cycles, here);
  expect(found?.stretch.name).toBe("verify");
  const bar = found && barOf(drawn, "TP0", found.stretch);
  expect(bar && second && spotOf(second, bar)).toEqual(here);
});

it("a spot that is gone is not found", () => {
  expect(findSpot(cycles, { ...here, key: "/9" })).toBeNull();
  expect(findSpot(cycles, { ...here, place: 99 })).toBeNull();
});
