import { describe, expect, test as it } from "vitest";
import { everyTenth, lastValue, Series, secondAt } from "./series.ts";
import { cycleOf, rankOf, rowOf } from "./testing.ts";

const at = (second: number, over = {}) => cycleOf(second, { t0Ms: second * 1000 + 1, ...over });

/** Seconds 100 to 104, of which 100 is the one in which the first cycle came; none in 103. */
function filled(): Series {
  const series = new Series(5);
  for (const [place, second] of [100, 101, 102, 104].entries()) {
    series.put(at(second, { n: 100 + place, requests: [rowOf(2)] }), null);
  }
  return series;
}

/** Cycles of 3 tokens with these numbers, at equal distances within a second. */
function putAll(series: Series, second: number, those: readonly number[]): void {
  for (const [place, n] of those.entries()) {
    const t0Ms = second * 1000 + (1000 * place) / those.length;
    series.put(cycleOf(n, { t0Ms, requests: [rowOf(2)] }), null);
  }
}

/** As a person reads them. */
function rounded(column: readonly (number | null)[]): (number | null)[] {
  return column.map((each) => each && Math.round(each));
}

/** The numbers from `first` on, so many, at that distance. */
function numbers(first: number, count: number, distance: number): number[] {
  return Array.from({ length: count }, (_, place) => first + place * distance);
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
      { group: "", n: 103 },
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

describe("the tokens of a server of which sampling leaves cycles out", () => {
  it("are those of all cycles, before and behind the switch", () => {
    const series = new Series(5);
    putAll(series, 100, numbers(1, 100, 1));
    putAll(series, 101, numbers(101, 100, 1));
    putAll(series, 102, [...numbers(201, 50, 1), ...numbers(260, 5, 10)]);
    putAll(series, 103, numbers(310, 10, 10));
    putAll(series, 104, numbers(410, 100, 1));
    // 100 cycles a second of 3 tokens; of the second with the switch 55 of 100 numbers are here.
    const { tokensPerS } = series.columns(106_000);
    expect(rounded(tokensPerS)).toEqual([null, 300, 303, 300, 300]);
  });

  it("are the mean of the seconds around one in which few are recorded", () => {
    const series = new Series(8);
    // One in ten of 30 cycles a second of 3 tokens: three of each second.
    for (let second = 0; second < 8; second += 1) {
      putAll(series, 100 + second, numbers(10 + second * 30, 3, 10));
    }
    const { tokensPerS } = series.columns(109_400);
    expect(rounded(tokensPerS)).toEqual([null, ...Array.from({ length: 7 }, () => 90)]);
  });

  it("are known in a second without any where those around it have enough", () => {
    const series = new Series(16);
    // One in 40 of 30 cycles a second: three in four seconds, the last one in second 114.
    for (let place = 0; place < 12; place += 1) {
      const t0Ms = 100_000 + (place * 4000) / 3;
      series.put(cycleOf(40 * (place + 1), { t0Ms, requests: [rowOf(2)] }), null);
    }
    const { time, tokensPerS } = series.columns(117_400);
    expect(time.at(-1)).toBe(115);
    expect(rounded(tokensPerS)).toEqual([null, ...Array.from({ length: 14 }, () => 90), null]);
  });

  it("are not known behind the last of few, nor where some of few were lost", () => {
    const series = new Series(8);
    for (const [second, first] of [
      [100, 10],
      [101, 40],
      [102, 70],
      [105, 5000],
      [106, 5030],
    ] as const) {
      putAll(series, second, numbers(first, 3, 10));
    }
    const { tokensPerS } = series.columns(109_400);
    expect(rounded(tokensPerS)).toEqual([null, 90, 90, null, null, 90, 90, null]);
  });

  it("are not known where too few are here, nor in seconds between such", () => {
    const series = new Series(5);
    putAll(series, 100, [1, 2]);
    putAll(series, 101, [1000]);
    putAll(series, 103, [2000]);
    expect(series.columns(106_000).tokensPerS).toEqual([null, null, null, null, null]);
  });

  it("are none where the server was idle, as a server with many cycles a second shows", () => {
    const series = new Series(5);
    putAll(series, 100, numbers(10, 10, 10));
    putAll(series, 101, numbers(110, 10, 10));
    putAll(series, 103, numbers(210, 10, 10));
    expect(series.columns(106_000).tokensPerS).toEqual([null, 300, 0, 300, 0]);
  });

  it("are not known where more was lost than sampling leaves out", () => {
    const series = new Series(5);
    putAll(series, 100, numbers(1, 100, 1));
    putAll(series, 101, numbers(101, 100, 1));
    putAll(series, 103, numbers(5000, 100, 1));
    expect(series.columns(106_000).tokensPerS).toEqual([null, 300, null, 300, 0]);
  });

  it("add up over groups, each by its own numbers", () => {
    const series = new Series(5);
    for (const second of [100, 101]) {
      putAll(series, second, numbers(second * 10, 10, 1));
      for (const n of numbers(second * 100, 10, 10)) {
        const t0Ms = second * 1000 + (n % 100);
        series.put(cycleOf(n, { t0Ms, group: "DP1", requests: [rowOf(2)] }), null);
      }
    }
    expect(series.columns(106_000).tokensPerS[1]).toBe(30 + 300);
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
