import { expect, test as it } from "vitest";
import { definition, PHASES, phaseLabel, phaseOrder, topLevel } from "./phases.ts";

it("every phase has a definition of one sentence", () => {
  for (const name of PHASES) {
    expect(definition(name)).toMatch(/^[A-Z][^.]*\.$/);
  }
});

it("a part follows its parent", () => {
  expect(topLevel("verify.sample")).toBe("verify");
  expect(topLevel("draft_extend")).toBe("draft_extend");
  expect(phaseOrder("verify.prepare")).toBe(phaseOrder("verify") + 1);
});

it("a phase of a later version is shown by its name, at the end", () => {
  expect(phaseLabel("new_phase")).toBe("new phase");
  expect(phaseOrder("new_phase")).toBe(PHASES.length);
});
