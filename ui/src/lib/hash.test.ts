import { expect, test as it } from "vitest";
import { formatHash, type Place, parseHash } from "./hash.ts";

const NOWHERE: Place = { run: null, group: "", cycle: null, theme: null };

it("a place survives its address", () => {
  const place: Place = { run: "a1", group: "DP0 TP0", cycle: 4711, theme: "dark" };
  expect(formatHash(place)).toBe("#run=a1&group=DP0+TP0&cycle=4711&theme=dark");
  expect(parseHash(formatHash(place))).toEqual(place);
});

it("nothing chosen is an empty hash", () => {
  expect(formatHash(NOWHERE)).toBe("");
  expect(parseHash("")).toEqual(NOWHERE);
});

it("what makes no sense is left out", () => {
  expect(parseHash("#cycle=-1&theme=blue&run=&else=1")).toEqual(NOWHERE);
});
