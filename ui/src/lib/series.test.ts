import { describe, expect, test as it } from "vitest";
import { everyTenth, lastValue, Series, secondAt } from "./series.ts";
import { cycleOf, rankOf, rowOf } from "./testing.ts";

const at = (second: number, over = {}) => cycleOf(second, { t0Ms: second * 1000 + 1, ...over });

/** Seconds 100 to 104, of which 100 is the one in which the first cycle came. */
function filled(): Series {
  const series = new Series(5);
  for (const second of [100, 101, 102, 104]) {
    series.put(at(second, { requests: [rowOf(2)] }), null);
  }
  return series;
}

describe("the last seconds", () => {
  it("end with the second before the last whole one", () => {
    expect(filled().columns(106_400).time).toEqual([100, 101, 102, 103, 104]);
  });

  it("know nothing of the second in which the first cycle came", () => {
    const { tokensPerS, cycleP50, acceptLength } = filled().columns(106_000);
    expect([tokensPerS[0], cycleP50[0], acceptLength[0]]).toEqual([null, null, null]);
  });

  it("have tokens in every second, none in one without cycles", () => {
    expect(filled().columns(106_000).tokensPerS).toEqual([null, 3, 3, 0, 3]);
  });

  it("have no cycle time in a second without cycles", () => {
    expect(filled().columns(106_000).cycleP50).toEqual([null, 10, 10, null, 10]);
  });

  it("have a blank where cycles may be missing", () => {
    const series = filled();
    series.missed(102_000, 103_999);
    expect(series.columns(106_000).tokensPerS).toEqual([null, 3, null, null, 3]);
  });

  it("count an amended cycle once", () => {
    const series = filled();
    const early = at(103);
    series.put(early, null);
    series.put(at(103, { requests: [rowOf(4)] }), early);
    const { tokensPerS, acceptLength, cycleP50 } = series.columns(106_000);
    expect([tokensPerS[3], acceptLength[3], cycleP50[3]]).toEqual([5, 5, 10]);
  });

  it("take cycle times of decoding cycles only", () => {
    const series = filled();
    const long = { ranks: [rankOf(101, [["forward", 800]])] };
    series.put(at(101, { n: 900, kind: "extend", ...long }), null);
    series.put(at(101, { n: 901, ranks: [rankOf(1, [["draft", 9]], { incomplete: true })] }), null);
    expect(series.columns(106_000).cycleP95[1]).toBe(10);
  });

  it("name the slowest of their cycles, as amended", () => {
    const series = filled();
    const slow = at(102, { n: 7, group: "DP1", ranks: [rankOf(7, [["verify", 30]])] });
    series.put(slow, null);
    expect(series.columns(106_000).slowest[2]).toEqual({ group: "DP1", n: 7 });
    series.put({ ...slow, ranks: [rankOf(7, [["verify", 3]])] }, slow);
    expect(series.columns(106_000).slowest).toEqual([
      null,
      { group: "", n: 101 },
      { group: "", n: 102 },
      null,
      { group: "", n: 104 },
    ]);
  });

  it("are all that is kept once newer ones have come", () => {
    const series = filled();
    series.put(at(200), null);
    series.columns(200_000);
    expect(series.columns(106_000).tokensPerS).toEqual([null, 0, 0, 0, 0]);
  });

  it("are kept where it is said only later that the run ended with them", () => {
    const series = filled();
    series.columns(200_000);
    expect(series.columns(106_000).tokensPerS).toEqual([null, 3, 3, 0, 3]);
  });
});

it("the last value is the last that is known, unless it is too old to speak of now", () => {
  expect(lastValue([1, 2, null])).toBe(2);
  expect(lastValue([null])).toBeNull();
  expect(lastValue([1, 875, ...Array.from({ length: 7 }, () => null)])).toBe(875);
  expect(lastValue([1, 875, ...Array.from({ length: 8 }, () => null)])).toBeNull();
});

it("a table has every tenth second of which anything is known, newest first", () => {
  const series = new Series(60);
  for (let second = 95; second < 125; second += 1) {
    series.put(at(second, { requests: [rowOf(2)] }), null);
  }
  const columns = series.columns(126_000);
  expect(everyTenth(columns)).toEqual(
    [120, 110, 100].map((time) => ({ time, cycleP50: 10, acceptLength: 3, tokensPerS: 3 })),
  );
  expect(secondAt(columns, 60)).toBeNull();
});
