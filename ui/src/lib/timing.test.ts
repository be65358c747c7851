import { describe, expect, test as it } from "vitest";
import { cycleOf, rankOf, runOf } from "./testing.ts";
import { modesOf, oddTiming, timingInWords, timingOf } from "./timing.ts";
import type { RankCycle } from "./wire.ts";

const timed = (n: number, ...ranks: Partial<RankCycle>[]) =>
  cycleOf(n, { ranks: ranks.map((over) => rankOf(n, [["draft", 1]], over)) });

describe("the timing of a run", () => {
  it("is that of its newest cycles, on all ranks", () => {
    const old = Array.from({ length: 20 }, (_, n) => timed(n, { mode: "sync" }));
    const now = Array.from({ length: 20 }, (_, n) =>
      timed(20 + n, { mode: "device" }, { mode: "host", askedMode: "device" }),
    );
    expect(timingOf(runOf(), [...old, ...now])).toEqual({
      modes: ["device", "host"],
      asked: ["device"],
      slows: false,
    });
    expect(timingOf(runOf(), old).slows).toBe(true);
  });

  it("is what the server says until a cycle has come", () => {
    expect(timingOf(runOf({ modes: ["off"] }), []).modes).toEqual(["off"]);
  });

  it("is told with what was asked for and the reason", () => {
    const timing = { modes: ["host"], asked: ["device"], slows: false };
    const words = timingInWords(timing, "The server runs on the CPU.");
    expect(words).toMatch(/host's clock.* Asked for was device\. The server runs on the CPU\.$/);
    expect(timingInWords({ ...timing, modes: ["device"], asked: [] }, "No reason.")).not.toContain(
      "No reason.",
    );
  });
});

it("a cycle says how it was timed, and what was odd about it", () => {
  expect(modesOf(timed(1, { mode: "host" }, { mode: "device" }))).toBe("device, host");
  expect(oddTiming(timed(1, {}))).toBeNull();
  expect(oddTiming(timed(1, { askedMode: "device" }, { lateSwitch: true }))).toBe(
    "device was asked for, switched late",
  );
});
