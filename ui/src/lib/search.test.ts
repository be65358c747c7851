import { describe, expect, test as it } from "vitest";
import { acceptedDrafts, nextFound, parseQuery } from "./search.ts";
import { cycleOf, rankOf, rowOf } from "./testing.ts";

const cycles = [
  cycleOf(4710, {
    ranks: [rankOf(4710, [["verify", 34.9]])],
    requests: [rowOf(3, { id: "req-a1" })],
  }),
  cycleOf(4711, {
    ranks: [rankOf(4711, [["verify", 35.1]])],
    requests: [rowOf(1), rowOf(2)],
    batch: 2,
  }),
  cycleOf(4712, { ranks: [rankOf(4712, [["verify", 50]])], requests: [rowOf(0)], kind: "extend" }),
  cycleOf(4713, { ranks: [rankOf(4713, [["verify", 9]])], requests: null }),
];
const found = (text: string) =>
  cycles.filter((cycle) => parseQuery(text)?.fits(cycle)).map(({ n }) => n - 4700);

describe("a search", () => {
  it.each([
    ["4711", [11]],
    ["4,711", [11]],
    ["cycle #4711", [11]],
    ["slower than 35 ms", [11, 12]],
    ["> 0.035 s", [11, 12]],
    ["over 35", [11, 12]],
    ["faster than 10ms", [13]],
    ["accepted fewer than 2", [11, 12]],
    ["accepted < 1.5", [12]],
    ["accepted > 2", [10]],
    ["batch 2", [11]],
    ["prefill", [12]],
    ["q-a", [10]],
    ["r-1", [11, 12]],
    ["slower than 35 ms, accepted < 1", [12]],
    ["slower than 35 ms and batch 2", [11]],
    ["nothing like it", []],
  ])("for %j finds them", (text, expected) => {
    expect(found(text)).toEqual(expected);
  });

  it("knows when one cycle alone is meant, here or not", () => {
    expect(parseQuery("184,302")?.n).toBe(184_302);
    expect(parseQuery("184302, slower than 3 ms")?.n).toBeNull();
    expect(parseQuery("slower than 35 ms")?.n).toBeNull();
  });

  it("is nothing without words", () => {
    expect([parseQuery(""), parseQuery("  , ")]).toEqual([null, null]);
  });
});

it("accepted drafts are those of each verify; overshoot and health checks do not count", () => {
  const rows = [rowOf(4), rowOf(1), rowOf(5, { overshoot: true }), rowOf(5, { health: true })];
  expect(acceptedDrafts(cycleOf(1, { requests: rows }))).toBe(2.5);
  expect(acceptedDrafts(cycleOf(1))).toBeNull();
});

it("steps go from one to the next and on at the other end", () => {
  const at = (place: number) => cycles[place]?.t0Ms ?? Number.NaN;
  expect(nextFound(cycles, null, -1)?.n).toBe(4713);
  expect(nextFound(cycles, at(3), -1)?.n).toBe(4712);
  expect(nextFound(cycles, at(0), -1)?.n).toBe(4713);
  expect(nextFound(cycles, at(3), 1)?.n).toBe(4710);
  expect(nextFound([], null, 1)).toBeNull();
});
