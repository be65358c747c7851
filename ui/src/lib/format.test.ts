import { describe, expect, test as it } from "vitest";
import {
  bytes,
  clock,
  enumerate,
  fitText,
  lateMs,
  length,
  ms,
  msCell,
  msShort,
  plural,
  rate,
  share,
  shareCell,
  shortId,
  span,
  whole,
} from "./format.ts";

describe("a time in ms", () => {
  it.each([
    [0.004, "4 µs"],
    [0.0994, "99 µs"],
    [0.0995, "0.10 ms"],
    [2.178, "2.18 ms"],
    [9.994, "9.99 ms"],
    [9.995, "10.0 ms"],
    [29.94, "29.9 ms"],
    [999.94, "999.9 ms"],
    [999.96, "1.00 s"],
    [12_345, "12.35 s"],
    [16e9, "16,000,000.00 s"],
    [-2.09, "−2.09 ms"],
  ])("%f is written %s", (value, text) => {
    expect(ms(value)).toBe(text);
  });

  it.each([
    [null, "–"],
    [0, "0.00"],
    [0.004, "< 0.01"],
    [0.0262, "0.03"],
    [29.94, "29.9"],
    [-26.44, "−26.4"],
    [1234.5, "1,235"],
  ])("%s stands in a column as %s", (value, text) => {
    expect(msCell(value)).toBe(text);
  });

  it("a lateness always has a sign and two decimals", () => {
    expect([0.34, -0.011, 0].map(lateMs)).toEqual(["+0.34 ms", "−0.01 ms", "+0.00 ms"]);
    expect([999.99, 999.996, -16e9].map(lateMs)).toEqual([
      "+999.99 ms",
      "+1.00 s",
      "−16,000,000.00 s",
    ]);
  });
});

it("a long time has a short form", () => {
  expect([9500, 1.6e10, -1.6e10].map(msShort)).toEqual(["10 s", "1.6e7 s", "−1.6e7 s"]);
});

it("a text is cut where its room ends", () => {
  const inRoom = (text: string, room: number) => fitText(text, room, (part) => [...part].length);
  expect(inRoom("TP0", 3)).toBe("TP0");
  expect(inRoom("decode-rank-0", 8)).toBe("decode-…");
  expect(inRoom("decode rank", 8)).toBe("decode…");
  expect(inRoom("😀😀😀", 2)).toBe("😀…");
  expect([inRoom("TP0", 1), inRoom("", 0)]).toEqual(["", ""]);
});

it("a share that is not 0 is never written as 0 %", () => {
  expect([0, 0.001, 0.004, 0.006, 0.896, null].map(share)).toEqual([
    "0 %",
    "< 1 %",
    "< 1 %",
    "1 %",
    "90 %",
    "–",
  ]);
});

it("a share in a table has one decimal below 10 %", () => {
  expect([0, 0.0004, 0.0123, 0.0994, 0.0996, 0.5].map(shareCell)).toEqual([
    "0 %",
    "< 0.1 %",
    "1.2 %",
    "9.9 %",
    "10 %",
    "50 %",
  ]);
});

it("whole numbers have commas, a missing one is a dash", () => {
  expect([184_302, 7, -1200, null].map(whole)).toEqual(["184,302", "7", "−1,200", "–"]);
});

it("rates are whole from 10 on", () => {
  expect([0, 3.14, 9.94, 70.4, 6363, null].map(rate)).toEqual([
    "0",
    "3.1",
    "9.9",
    "70",
    "6,363",
    "–",
  ]);
});

it("lengths in tokens have two decimals", () => {
  expect([2.1, null].map(length)).toEqual(["2.10", "–"]);
});

it("a clock time has ms on demand", () => {
  const noon = new Date(2026, 0, 2, 14, 2, 3, 7).getTime();
  expect(clock(noon)).toBe("14:02:03");
  expect(clock(noon, true)).toBe("14:02:03.007");
});

it("an id keeps its beginning and its end", () => {
  expect(shortId("7c1e93d2b8f04e61a04", 10)).toBe("7c1e93…a04");
  expect(shortId("r-0001", 10)).toBe("r-0001");
});

it("sizes and spans take the unit that suits them", () => {
  expect([0, 999, 1_200_000, 41_300_000, 2.5e9].map(bytes)).toEqual([
    "0 B",
    "999 B",
    "1.2 MB",
    "41 MB",
    "2.5 GB",
  ]);
  expect([10, 600, 86_400].map(span)).toEqual(["10 s", "10 min", "24 h"]);
});

it("nouns and lists read as language", () => {
  expect([plural(1, "token"), plural(2, "token"), plural(2, "verify", "verifies")]).toEqual([
    "1 token",
    "2 tokens",
    "2 verifies",
  ]);
  expect([enumerate([]), enumerate(["a"]), enumerate(["a", "b", "c"])]).toEqual([
    "",
    "a",
    "a, b and c",
  ]);
});
