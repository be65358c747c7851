import { expect, test as it } from "vitest";
import {
  formatMarks,
  formatStretch,
  type Mark,
  parseMarks,
  parseStretch,
  withMark,
  withoutMark,
} from "./marks.ts";

const AT = { group: "", n: 4711, offsetMs: 1.25 };

it("a mark gets the first letter that is free", () => {
  const three = withMark(withMark(withMark([], AT), AT), AT);
  expect(three.map(({ letter }) => letter).join("")).toBe("ABC");
  const again = withMark(withoutMark(three, "B"), AT);
  expect(again.map(({ letter }) => letter).join("")).toBe("ACB");
  const all = Array.from({ length: 30 }).reduce<readonly Mark[]>((some) => withMark(some, AT), []);
  expect(all.length).toBe(26);
});

it("marks survive their address", () => {
  const marks: Mark[] = [
    { ...AT, letter: "A" },
    { letter: "C", group: "DP0 ~1", n: 2, offsetMs: -3.5 },
  ];
  expect(parseMarks(formatMarks(marks))).toEqual(marks);
  expect(formatMarks([])).toBe("");
});

it("what is no mark is left out", () => {
  expect(parseMarks("A1~x a1~2 A~3 A1 B1~0~%E0%A4%A <b>~1 A9~1 A8~1")).toEqual([
    { letter: "A", group: "", n: 9, offsetMs: 1 },
  ]);
});

it("a stretch survives its address; what is none is none", () => {
  const stretch = { n: 4711, offsetMs: -1.25, lengthMs: 35.5, group: "DP0 TP0" };
  expect(formatStretch(stretch)).toBe("4711~-1.250~35.500~DP0%20TP0");
  expect(parseStretch(formatStretch(stretch))).toEqual(stretch);
  expect(parseStretch(formatStretch({ ...stretch, group: "" }))?.group).toBe("");
  expect(formatStretch(null)).toBe("");
  for (const text of ["", "4711", "4711~1", "4711~1~0", "4711~1~x", "-1~1~1", "1~1~1~%E0%A4%A"]) {
    expect(parseStretch(text)).toBeNull();
  }
});
