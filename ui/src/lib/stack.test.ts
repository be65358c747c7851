import { expect, test as it } from "vitest";
import { endOf, piled } from "./stack.ts";

it("pieces follow each other from 0, and one below 0 takes no room", () => {
  const pieces = piled([
    { name: "draft", size: 2 },
    { name: "verify", size: -0.5 },
    { name: null, size: 3 },
  ]);
  expect(pieces).toEqual([
    { name: "draft", from: 0, to: 2 },
    { name: "verify", from: 2, to: 2 },
    { name: null, from: 2, to: 5 },
  ]);
  expect(endOf(pieces)).toBe(5);
});

it("a bar of nothing ends where it begins", () => {
  expect(piled([])).toEqual([]);
  expect(endOf([])).toBe(0);
});
