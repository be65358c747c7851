import { describe, expect, it } from "vitest";
import {
  acceptLength,
  decodeHistory,
  decodeServedPage,
  found,
  mostLength,
  overLife,
  type Served,
  type ServedCycle,
  withPage,
} from "./served.ts";

const REQUEST: Served = {
  id: "a",
  cycles: 3,
  verifies: 2,
  correct: 3,
  tokens: 6,
  firstN: 1,
  lastN: 3,
  t0Ms: 1000,
  lengthMs: 90,
};
const WIRE = {
  id: "a",
  cycles: 3,
  verifies: 2,
  correct: 3,
  tokens: 6,
  first_n: 1,
  last_n: 3,
  t0: "1000000000",
  length_ns: 90_000_000,
};

function cycle(n: number, correct: number | null, over: Partial<ServedCycle> = {}): ServedCycle {
  const tokens = (correct ?? 0) + 1;
  return {
    n,
    startMs: n * 10,
    ms: 8,
    batch: 1,
    steps: 5,
    correct,
    tokens,
    overshoot: false,
    ...over,
  };
}

describe("an answer", () => {
  it("is read as requests and where the next page begins", () => {
    const page = { groups: [""], requests: [WIRE], before: [3, "a"] };
    expect(decodeServedPage(page)).toEqual({ groups: [""], requests: [REQUEST], before: [3, "a"] });
    expect(decodeServedPage({ ...page, before: null }).before).toBeNull();
  });
  it("is read as one request with its cycles", () => {
    const rows = [[3, 30_000_000, 8_000_000, 1, 5, null, 1, true]];
    expect(decodeHistory({ request: WIRE, cycles: rows, before: 3 })).toEqual({
      request: REQUEST,
      cycles: [cycle(3, null, { overshoot: true })],
      before: 3,
    });
  });
  it.each([
    { groups: [], requests: [{ id: 1 }], before: null },
    { groups: [], requests: [], before: ["a", 3] },
  ])("of another form is refused: %j", (other) => {
    expect(() => decodeServedPage(other)).toThrow();
  });
  it("with a row of another form is refused", () => {
    expect(() => decodeHistory({ request: WIRE, cycles: [["x"]], before: null })).toThrow();
  });
});

it("accept length counts one token more for each verify", () => {
  expect(acceptLength(REQUEST)).toBe(2.5);
  expect(acceptLength({ ...REQUEST, verifies: 0, correct: 0 })).toBeNull();
});

describe("over its life", () => {
  it("each stretch has five verifies or more, in order, and nothing else counts", () => {
    const cycles = [
      cycle(0, null),
      ...[1, 2, 3, 4, 5].map((n) => cycle(n, 1)),
      ...[6, 7, 8, 9, 10, 11].map((n) => cycle(n, 3)),
      cycle(12, 5, { overshoot: true }),
    ];
    const stretches = overLife(cycles.toReversed());
    expect(stretches.map((one) => one.verifies)).toEqual([6, 5]);
    expect(stretches.map((one) => one.length)).toEqual([1 + (5 * 1 + 3) / 6, 4]);
    expect([stretches[0]?.fromMs, stretches[1]?.toMs]).toEqual([10, 118]);
  });
  it("has sixty stretches at most, of equally many", () => {
    const stretches = overLife(Array.from({ length: 6000 }, (_, n) => cycle(n, 2)));
    expect(stretches.length).toBe(60);
    expect(new Set(stretches.map((one) => one.verifies))).toEqual(new Set([100]));
  });
  it("of few verifies is one stretch, and of none nothing", () => {
    expect(overLife([cycle(1, 2), cycle(2, 0)])).toMatchObject([{ verifies: 2, length: 2 }]);
    expect(overLife([cycle(1, null)])).toEqual([]);
  });
  it("reaches as high as all drafts and one token more", () => {
    expect(mostLength([cycle(1, 2)])).toBe(6);
    expect(mostLength([])).toBe(2);
  });
});

it("an id is found by a part of it", () => {
  const all = [REQUEST, { ...REQUEST, id: "Bcd" }];
  expect(found(all, " CD ").map(({ id }) => id)).toEqual(["Bcd"]);
  expect(found(all, "")).toBe(all);
});

it("pages join in the order of their last cycles, and what is newer counts", () => {
  const old = [
    { ...REQUEST, id: "b", lastN: 9 },
    { ...REQUEST, id: "a", lastN: 5 },
  ];
  const joined = withPage(old, [
    { ...REQUEST, id: "a", lastN: 12 },
    { ...REQUEST, id: "c", lastN: 9 },
  ]);
  expect(joined.map(({ id, lastN }) => [id, lastN])).toEqual([
    ["a", 12],
    ["c", 9],
    ["b", 9],
  ]);
});
