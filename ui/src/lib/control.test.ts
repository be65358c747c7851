import { expect, test as it } from "vitest";
import {
  CHOICES,
  decodeSwitches,
  everyInWords,
  everyOf,
  MOST_EVERY,
  switchInWords,
} from "./control.ts";

it("each way of timing can be chosen once, and sync alone is said to slow the server", () => {
  expect(CHOICES.map((one) => one.mode).toSorted()).toEqual(["device", "host", "off", "sync"]);
  expect(CHOICES.filter((one) => one.cost.includes("slower")).map((one) => one.mode)).toEqual([
    "sync",
  ]);
});

it("an answer names the cycle from which on a server is timed otherwise", () => {
  const answer = { switches: [{ ranks: ["TP0", "TP1"], from_cycle: 1234, newest_cycle: 1100 }] };
  expect(switchInWords("sync", decodeSwitches(answer))).toBe("sync from cycle 1,234 on.");
});

it("of a server that has decoded nothing yet it is the next cycle", () => {
  expect(switchInWords("host", [{ ranks: ["TP0"], fromCycle: 0 }])).toBe(
    "host from the next cycle on.",
  );
});

it("groups that step each for itself are told apart", () => {
  const both = [
    { ranks: ["DP0 TP0"], fromCycle: 70 },
    { ranks: ["DP1 TP0", "DP1 TP1"], fromCycle: 90 },
  ];
  expect(switchInWords("off", both)).toBe(
    "off from cycle 70 (DP0 TP0) and cycle 90 (DP1 TP0 and DP1 TP1) on.",
  );
});

it("of sampling only a whole number from 1 to the most can be asked for", () => {
  expect(["1", " 10 ", String(MOST_EVERY)].map(everyOf)).toEqual([1, 10, MOST_EVERY]);
  for (const typed of ["", "0", "-3", "2.5", "1e3", "ten", String(MOST_EVERY + 1)]) {
    expect(everyOf(typed)).toBeNull();
  }
});

it("sampling is said by how many cycles it keeps one of", () => {
  expect([1, 10, 1000].map(everyInWords)).toEqual([
    "every cycle",
    "1 cycle in 10",
    "1 cycle in 1,000",
  ]);
});

it("what is no answer is refused", () => {
  expect(() => decodeSwitches(null)).toThrow();
  expect(() => decodeSwitches({ switches: [7] })).toThrow();
});
