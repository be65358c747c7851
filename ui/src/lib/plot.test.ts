import { expect, test as it } from "vitest";
import { type Frame, through, xOf, yOf } from "./plot.ts";

const FRAME: Frame = { width: 250, height: 140, left: 40, right: 10, top: 10, bottom: 30 };

it("the ends of a range stand at the edges of the plot, larger values above", () => {
  const range = { start: 50, end: 100 };
  expect([xOf(FRAME, range, 50), xOf(FRAME, range, 100)]).toEqual([40, 240]);
  expect([yOf(FRAME, range, 50), yOf(FRAME, range, 100)]).toEqual([110, 10]);
  expect(yOf(FRAME, range, 75)).toBe(60);
});

it("a line is written as SVG reads it", () => {
  expect(
    through([
      [1, 2],
      [3.25, 4],
    ]),
  ).toBe("1.0,2.0 3.3,4.0");
});
