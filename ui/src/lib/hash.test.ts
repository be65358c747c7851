import { expect, test as it } from "vitest";
import { formatHash, type Place, parseHash } from "./hash.ts";
import { EVERYTHING } from "./look.ts";

const NOWHERE: Place = {
  tab: "live",
  run: null,
  group: "",
  cycle: null,
  theme: null,
  baselineMs: null,
  batch: null,
  setting: null,
  look: EVERYTHING,
  bar: null,
  request: null,
  one: null,
  other: null,
  layout: "time",
  stretch: null,
  measured: null,
  marks: [],
  find: "",
  rank: null,
  seen: null,
};

it("a place survives its address", () => {
  const place: Place = { ...NOWHERE, run: "a1", group: "DP0 TP0", cycle: 4711, theme: "dark" };
  expect(formatHash(place)).toBe("#run=a1&group=DP0+TP0&cycle=4711&theme=dark");
  expect(parseHash(formatHash(place))).toEqual(place);
});

it("a what-if survives its address", () => {
  const place: Place = {
    ...NOWHERE,
    tab: "verdict",
    baselineMs: 11.1,
    batch: 4,
    setting: "2-1-3",
  };
  expect(formatHash(place)).toBe("#view=verdict&baseline_ms=11.1&batch=4&setting=2-1-3");
  expect(parseHash(formatHash(place))).toEqual(place);
});

it("a bar of what is picked survives its address", () => {
  const place: Place = {
    ...NOWHERE,
    tab: "distribution",
    look: { ...EVERYTHING, steps: 5, batch: 1, mode: "sync" },
    bar: { phase: "verify.forward", lane: "device", fromNs: 100, toNs: null },
  };
  expect(formatHash(place)).toBe(
    "#view=distribution&timing=sync&size=1&steps=5&bar=verify.forward%2Cdevice%2C100%2C",
  );
  expect(parseHash(formatHash(place))).toEqual(place);
});

it("a request survives its address, whatever its id", () => {
  const place: Place = { ...NOWHERE, tab: "requests", request: "a&b=#<i>é" };
  expect(parseHash(formatHash(place))).toEqual(place);
});

it("two runs survive their address", () => {
  const place: Place = { ...NOWHERE, tab: "runs", one: "a1", other: "b2" };
  expect(formatHash(place)).toBe("#view=runs&one=a1&other=b2");
  expect(parseHash(formatHash(place))).toEqual(place);
});

it("a look at kernels survives its address", () => {
  const place: Place = { ...NOWHERE, tab: "kernels", rank: "TP1", seen: 1_796_000_000_123 };
  expect(formatHash(place)).toBe("#view=kernels&rank=TP1&seen=1796000000123");
  expect(parseHash(formatHash(place))).toEqual(place);
  expect(parseHash("#seen=soon")).toEqual(NOWHERE);
});

it("nothing chosen is an empty hash", () => {
  expect(formatHash(NOWHERE)).toBe("");
  expect(parseHash("")).toEqual(NOWHERE);
});

it("what makes no sense is left out", () => {
  expect(parseHash("#cycle=-1&theme=blue&run=&else=1")).toEqual(NOWHERE);
  expect(parseHash("#view=else&baseline_ms=-1&batch=x&setting=2")).toEqual(NOWHERE);
});

it("what is in view of the waterfall survives its address", () => {
  const at = { group: "", n: 4711, offsetMs: 1.5 };
  const place: Place = {
    ...NOWHERE,
    layout: "rows",
    rank: "DP0 TP1",
    stretch: { ...at, lengthMs: 35 },
    measured: { ...at, group: "DP0", lengthMs: 0.25 },
    marks: [
      { ...at, letter: "A" },
      { ...at, letter: "C", group: "DP1" },
    ],
    find: "slower than 35 ms, accepted < 2",
  };
  expect(parseHash(formatHash(place))).toEqual(place);
  expect(parseHash("#at=4711&measured=x&marks=1&layout=else")).toEqual(NOWHERE);
});
