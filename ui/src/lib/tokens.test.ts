import { describe, expect, test as it } from "vitest";
import { PHASES } from "./phases.ts";
import {
  COLOURS,
  type ColourName,
  colour,
  contrast,
  customProperties,
  hostFill,
  lightness,
  phaseColour,
  type Theme,
} from "./tokens.ts";

/** Phases that touch in some cycle, at the top level and among the parts of verify. */
const NEIGHBOURS = [
  ["schedule", "resolve"],
  ["resolve", "draft"],
  ["resolve", "forward"],
  ["draft", "verify"],
  ["verify", "draft_extend"],
  ["forward", "draft_extend"],
  ["forward", "schedule"],
  ["draft_extend", "schedule"],
  ["draft_extend", "wait"],
  ["schedule", "wait"],
  ["wait", "result"],
  ["result", "schedule"],
  ["verify.prepare", "verify.forward"],
  ["verify.sample", "verify.commit"],
] as const;

describe.each<Theme>(["light", "dark"])("in %s", (theme) => {
  it("contrast of white on black is 21, of a colour with itself 1", () => {
    expect(contrast("#FFFFFF", "#000000")).toBeCloseTo(21);
    expect(contrast("#5E89D6", "#5E89D6")).toBe(1);
    expect([lightness("#FFFFFF"), lightness("#000000")]).toEqual([100, 0]);
  });

  it.each(PHASES)("%s stands out of the background, and its label out of it", (name) => {
    const { fill, label } = phaseColour(name, theme);
    expect(contrast(fill, colour("bg", theme))).toBeGreaterThanOrEqual(3);
    expect(contrast(label, fill)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(colour("ink", theme), hostFill(name, theme))).toBeGreaterThanOrEqual(8.3);
  });

  it.each(NEIGHBOURS)("%s and %s differ in grey", (one, other) => {
    const grey = (name: string) => lightness(phaseColour(name, theme).fill);
    expect(Math.abs(grey(one) - grey(other))).toBeGreaterThanOrEqual(10);
  });

  it.each<ColourName>(["ink", "ink2", "ink3", "accent", "bad", "good"])(
    "text in %s can be read on every ground",
    (name) => {
      for (const ground of ["bg", "bg2", "bg3"] as const) {
        expect(contrast(colour(name, theme), colour(ground, theme))).toBeGreaterThanOrEqual(4.5);
      }
    },
  );

  it("every colour has a custom property", () => {
    const names = customProperties(theme).map(([name]) => name);
    expect(names).toHaveLength(Object.keys(COLOURS).length + 2 * PHASES.length);
    expect(new Set(names).size).toBe(names.length);
    expect(names).toContain("--phase-verify-sample-pale");
  });
});
