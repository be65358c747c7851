import { describe, expect, test as it } from "vitest";
import { cycleOf, rowOf } from "./testing.ts";
import { turnover } from "./turnover.ts";
import type { Cycle } from "./wire.ts";

function batch(n: number, ids: readonly string[], over: Partial<Cycle> = {}): Cycle {
  return cycleOf(n, { batch: ids.length, requests: ids.map((id) => rowOf(1, { id })), ...over });
}

describe("the turnover of a batch", () => {
  const first = batch(7, ["a", "b"]);
  const second = batch(8, ["b", "c"]);

  it("names who came and who was gone", () => {
    expect(turnover([first, second], 1)).toEqual({ before: 7, came: ["c"], left: ["a"] });
    expect(turnover([first, batch(8, ["a", "b"])], 1)).toEqual({ before: 7, came: [], left: [] });
  });

  it("passes over prefills, whose batch is another one, and idle passes", () => {
    const prefill = batch(8, ["c"], { kind: "extend" });
    const idle = batch(9, [], { kind: "idle" });
    const decoded = batch(10, ["a", "b", "c"]);
    expect(turnover([first, prefill, idle, decoded], 3)).toEqual({
      before: 7,
      came: ["c"],
      left: [],
    });
    expect(turnover([first, prefill], 1)).toBeNull();
  });

  it("is of the cycle's own group", () => {
    const other = batch(7, ["x"], { group: "DP1" });
    expect(turnover([first, other, second], 2)?.left).toEqual(["a"]);
  });

  it("leaves the server's own health checks out", () => {
    const probed = {
      ...second,
      requests: [...(second.requests ?? []), rowOf(0, { id: "h", health: true })],
    };
    expect(turnover([first, probed], 1)?.came).toEqual(["c"]);
  });

  it("is not known across a hole, before the results, and of the first cycle", () => {
    expect(turnover([first, batch(9, ["c"])], 1)).toBeNull();
    expect(turnover([first, cycleOf(8)], 1)).toBeNull();
    expect(turnover([cycleOf(7), second], 1)).toBeNull();
    expect(turnover([first], 0)).toBeNull();
  });
});
