import { describe, expect, test as it } from "vitest";
import { keptShare, median, newest, percentile, summarize } from "./summary.ts";
import { cycleOf, onDevice, rankOf, rowOf } from "./testing.ts";

it("percentiles are interpolated linearly", () => {
  expect(percentile([1, 2, 3, 4], 50)).toBe(2.5);
  expect(percentile([10, 20], 95)).toBeCloseTo(19.5);
  expect(percentile([7], 99)).toBe(7);
  expect(median([3, 1, 2])).toBe(2);
  expect(median([])).toBeNull();
});

it("the newest seconds end with the newest cycle", () => {
  const cycles = [1, 2, 3, 4, 5].map((n) => cycleOf(n));
  // Cycles are 10 ms apart and 10 ms long: the last 25 ms hold the two that began in them.
  expect(newest(cycles, 0.025).map((cycle) => cycle.n)).toEqual([4, 5]);
  expect(newest([], 1)).toEqual([]);
});

describe("a summary", () => {
  const cycles = [
    cycleOf(1, { requests: [rowOf(3), rowOf(1)] }),
    cycleOf(2, { requests: [rowOf(5, { overshoot: true, tokens: 0 }), rowOf(0)], batch: 3 }),
    cycleOf(3, { requests: [rowOf(null)], kind: "extend" }),
    cycleOf(4, { requests: [rowOf(2, { health: true })] }),
  ];
  const summary = summarize(cycles, 2);

  it("counts correct drafts without overshoot and health checks", () => {
    // (3 + 1 + 0 correct + 3 verifies) / 3
    expect(summary?.accept_length).toBeCloseTo(7 / 3);
    expect(summary?.verifies).toBe(3);
  });

  it("counts tokens as the server does, the prefill's among them", () => {
    // 4 + 2, 0 + 1, 1 tokens
    expect(summary?.tokens_per_s).toBe(4);
    expect(summary?.server_accept_length).toBeCloseTo(8 / 3);
  });

  it("has rates over its window", () => {
    expect(summary?.cycles_per_s).toBe(2);
    expect(summary?.batch_size_median).toBe(1);
    expect(summary?.steps_seen).toEqual([5]);
  });

  it("says what the probe cost: 50 µs of 10 ms", () => {
    expect(summary?.probe_median_us).toBe(50);
    expect(summary?.probe_share).toBeCloseTo(0.005);
  });

  it("shares the time among phases", () => {
    const phases = summary?.speculative?.phases ?? [];
    expect(phases.map((phase) => [phase.name, phase.share, phase.time.p50_ms])).toEqual([
      ["draft", 0.2, 2],
      ["verify", 0.7, 7],
      ["verify.forward", 0.7, 7],
      ["schedule", 0.1, 1],
    ]);
  });

  it("has the device's phases as shares of the cycle's time", () => {
    const lanes = onDevice(rankOf(1, [["verify.forward", 10]]), 1, [
      ["draft", 1, 2],
      ["verify.forward", 3, 5],
      ["verify.sample", 8, 1],
    ]);
    const holes = { ...lanes, deviceIncomplete: true };
    const timed = [lanes, holes].map((rank, n) => cycleOf(n, { ranks: [rank] }));
    const times = summarize(timed, 1)?.speculative;
    expect(times?.device_cycles).toBe(1);
    expect(times?.device.map(({ name, share, time }) => [name, share, time.p50_ms])).toEqual([
      ["draft", 0.2, 2],
      ["verify", 0.6, 6],
      ["verify.forward", 0.5, 5],
      ["verify.sample", 0.1, 1],
    ]);
    expect(times?.phases.map(({ name, share }) => [name, share])).toEqual([
      ["verify", 1],
      ["verify.forward", 1],
    ]);
  });

  it("leaves incomplete cycles out of times", () => {
    const broken = cycleOf(9, {
      ranks: [rankOf(9, [["draft", 500]], { incomplete: true })],
    });
    const times = summarize([...cycles, broken], 2)?.speculative;
    expect(times).toMatchObject({ cycles: 4, incomplete: 1, time: { p99_ms: 10 } });
  });

  it("says by how many cycles a batch was older", () => {
    const lagging = cycleOf(9, { ranks: [rankOf(9, [["wait", 1, 8]])] });
    expect(summarize([lagging], 1)?.speculative?.phases[0]?.max_lag).toBe(1);
  });

  it("of nothing is none", () => {
    expect(summarize([], 2)).toBeNull();
    const undivided = cycleOf(1, { ranks: [rankOf(1, [], { end: 5e6 })] });
    expect(summarize([undivided], 1)?.speculative).toMatchObject({
      phases: [],
      time: { p50_ms: 5 },
    });
  });
});

describe("the share of the cycles that is here", () => {
  const numbered = (numbers: readonly number[], group = "") =>
    numbers.map((n) => cycleOf(n, { group }));

  it("is told by their numbers, of each group by its own", () => {
    expect(keptShare(numbered([5, 6, 7]))).toBe(1);
    expect(keptShare(numbered([10, 20, 30]))).toBe(0.1);
    // 2 of 20 and 20 of 20 follow the first of their group.
    const both = [
      ...numbered([10, 20, 30]),
      ...numbered(
        Array.from({ length: 21 }).map((_, n) => n),
        "DP1",
      ),
    ];
    expect(keptShare(both)).toBe(22 / 40);
  });

  it("is not known of a single one", () => {
    expect(keptShare(numbered([5]))).toBeNull();
    expect(keptShare([])).toBeNull();
  });
});
