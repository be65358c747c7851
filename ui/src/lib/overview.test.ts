import { describe, expect, test as it } from "vitest";
import { boxesOf, coarse, decodeOverview, heldFrom, lacking } from "./overview.ts";
import { cycleOf } from "./testing.ts";

/** Ten columns of 100 ms from second 1000 on, ten cycles each: number 0 to 99, one each 10 ms. */
const OVERVIEW = decodeOverview({
  first: "1000000000000",
  last: "1001000000000",
  since: "1000000000000",
  begin: "1000000000000",
  step_ns: 100e6,
  count: 10,
  columns: Array.from({ length: 10 }, (_, place) => [
    place,
    10,
    (10 + place) * 1e6,
    (20 + place) * 1e6,
    place * 10 + 3,
    place * 10 + 9,
  ]),
});
const WHOLE = { start: 1_000_000, end: 1_001_000 };
const CYCLES = Array.from({ length: 100 }, (_, n) => cycleOf(n));

describe("an overview", () => {
  it("says when its columns are, and how long their cycles took", () => {
    expect(OVERVIEW.whole).toEqual(WHOLE);
    expect(OVERVIEW.columns[2]).toEqual({
      start: 1_000_200,
      end: 1_000_300,
      cycles: 10,
      leastMs: 12,
      mostMs: 22,
      slowest: 23,
      last: 29,
    });
    expect(() => decodeOverview({ ...{}, begin: "x" })).toThrow();
  });

  it("lies where its times are, cut at the edges", () => {
    const boxes = boxesOf(OVERVIEW.columns, { start: 1_000_150, end: 1_000_350 }, 200);
    expect(boxes.map(({ x, width, column }) => [x, width, column.slowest])).toEqual([
      [0, 50, 13],
      [50, 100, 23],
      [150, 50, 33],
    ]);
  });

  it("is put together for a table", () => {
    const [first, ...rest] = coarse(OVERVIEW.columns, WHOLE, 4);
    expect(first).toMatchObject({ start: 1_000_000, end: 1_000_300, cycles: 30, leastMs: 10 });
    expect(first).toMatchObject({ mostMs: 22, slowest: 23, last: 29 });
    expect(rest.map(({ cycles }) => cycles)).toEqual([30, 30, 10]);
    expect(coarse(OVERVIEW.columns, { start: 0, end: 1 }, 4)).toEqual([]);
  });
});

describe("what the page has without a hole", () => {
  it("reaches from the newest cycle down to the first hole", () => {
    const far = [cycleOf(3), cycleOf(4)];
    const near = [cycleOf(500), cycleOf(501), cycleOf(700), cycleOf(710)];
    expect(heldFrom([...far, ...near], 1)?.n).toBe(500);
    expect(heldFrom([cycleOf(500), cycleOf(700)], 1)?.n).toBe(700);
    expect(heldFrom([cycleOf(500), cycleOf(700)], 10)?.n).toBe(500);
    expect(heldFrom([], 1)).toBeNull();
  });

  it("goes by the distances around it where sampling was changed", () => {
    const [sparse, all] = [
      [3000, 4000, 5000],
      [5001, 5002],
    ].map((each) => each.map((n) => cycleOf(n)));
    expect(heldFrom([...(sparse ?? []), ...(all ?? [])], 1)?.n).toBe(3000);
    const behind = [cycleOf(6000), cycleOf(7000)];
    expect(heldFrom([...(all ?? []), ...behind], 1000)?.n).toBe(5001);
    const hole = [cycleOf(1), cycleOf(2)];
    expect(heldFrom([...hole, ...(all ?? []), ...behind], 1000)?.n).toBe(5001);
  });
});

describe("what is lacking in view", () => {
  it("is read from the newest column on that has too few", () => {
    const view = { start: 1_000_100, end: 1_000_300 };
    expect(lacking(OVERVIEW, [], view)).toBe(30);
    expect(lacking(OVERVIEW, CYCLES.slice(20), view)).toBe(20);
    expect(lacking(OVERVIEW, CYCLES.slice(10), view)).toBeNull();
  });

  it("is read on downwards where a column is wider than the view", () => {
    const view = { start: 1_000_210, end: 1_000_240 };
    expect(lacking(OVERVIEW, [], view)).toBe(30);
    expect(lacking(OVERVIEW, CYCLES.slice(27, 30), view)).toBe(27);
    expect(lacking(OVERVIEW, CYCLES.slice(22, 30), view)).toBeNull();
  });

  it("is nothing where a few cycles never came, or nothing is stored", () => {
    const holes = CYCLES.filter(({ n }) => n % 3 > 0);
    expect(lacking(OVERVIEW, holes, { start: 1_000_100, end: 1_000_300 })).toBeNull();
    expect(lacking(OVERVIEW, [], { start: 0, end: 5 })).toBeNull();
  });
});
