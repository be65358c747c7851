import { expect, test as it } from "vitest";
import { maybeTexts, numbers, objects, texts, WireError } from "./json.ts";

it("lists are read by what they hold", () => {
  const from = { ranks: [{ rank: "TP0" }], names: ["a", "b"], steps: [5, 2] };
  expect(objects(from, "ranks")).toEqual([{ rank: "TP0" }]);
  expect(texts(from, "names")).toEqual(["a", "b"]);
  expect(numbers(from, "steps")).toEqual([5, 2]);
});

it("what is no list, or holds something else than objects, is not in the contract", () => {
  expect(() => objects({ ranks: ["TP0"] }, "ranks")).toThrow(WireError);
  expect(() => objects({}, "ranks")).toThrow("ranks is no list");
  expect(() => texts({ names: "a" }, "names")).toThrow("names is no list");
});

it("a list that may be absent is then empty, and checked where it is there", () => {
  expect(maybeTexts({}, "notes")).toEqual([]);
  expect(maybeTexts({ notes: null }, "notes")).toEqual([]);
  expect(() => maybeTexts({ notes: 3 }, "notes")).toThrow("notes is no list");
});
