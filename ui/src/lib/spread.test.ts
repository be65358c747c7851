import { describe, expect, it } from "vitest";
import {
  along,
  barInWords,
  barOf,
  barsOf,
  barsPath,
  causeInWords,
  countOf,
  cutInWords,
  decodeBarPage,
  decodeSpread,
  groundOf,
  heightOf,
  type LaneSpread,
  laneAt,
  type PhaseSpread,
  placeAt,
  rangeText,
  shownPhases,
  subjectOf,
  tallest,
} from "./spread.ts";

const LANE: LaneSpread = {
  lane: "device",
  cycles: 130,
  p50: 125,
  p95: 180,
  p99: 195,
  least: 90,
  most: 250,
  below: 3,
  bars: [4, 100, 16, 0],
  beyond: 7,
};
/** From 100 to 140 µs in four bars; on the host all in the last one. */
const PHASE: PhaseSpread = {
  name: "verify",
  lowNs: 100_000,
  stepNs: 10_000,
  lanes: [
    { ...LANE, p50: 115_000 },
    { ...LANE, lane: "host", below: 0, bars: [0, 25, 0, 105], beyond: 0, p50: 135_000 },
  ],
};

const ANSWER = {
  groups: [""],
  choice: {
    run_id: "a",
    group: "",
    rank: "TP0",
    kind: "speculative",
    mode: "device",
    batch: null,
    steps: 5,
    last_s: null,
  },
  seen: {
    kinds: { speculative: 12, decode: 3 },
    modes: { device: 12 },
    batches: { "1": 8, "16": 4 },
    steps: { "5": 12 },
    ranks: ["TP0", "TP1"],
  },
  stored: 30,
  looked_at: 20,
  whole: true,
  warm_up: 10,
  untimed: 2,
  cycles: 12,
  alike: [{ batch: 1, steps: 5, cycles: 8, p50_ns: 6, p95_ns: 7, p99_ns: 8 }],
  phases: [
    {
      name: "cycle",
      low_ns: 5,
      step_ns: 2,
      lanes: [
        {
          lane: "host",
          cycles: 12,
          p50_ns: 6.5,
          p95_ns: 7,
          p99_ns: 8,
          least_ns: 5,
          most_ns: 8,
          below: 0,
          bars: [5, 7],
          beyond: 0,
        },
      ],
    },
  ],
  slowest: [
    {
      n: 7,
      t0: "1700000000123456789",
      took_ns: 41_200_000,
      batch: 1,
      steps: 5,
      cause: { name: "gap", lane: "device", took_ns: 9_800_000, usual_ns: 400_000 },
    },
    { n: 8, t0: "1700000000223456789", took_ns: 31_000_000, batch: 1, steps: 5, cause: null },
  ],
  acceptance: [
    {
      setting: { steps: 5, topk: 1, draft_tokens: 6 },
      verifies: 10,
      accept_length: { value: 2.1, low: 2, high: 2.2 },
      histogram: [4, 2, 3, 1, 0, 0],
      positions: [
        { place: 1, reached: 10, accepted: 6, conditional: { value: 0.6, low: null, high: null } },
      ],
    },
  ],
};

describe("an answer", () => {
  const spread = decodeSpread(ANSWER);
  it("is read with what there is to choose from", () => {
    expect(spread.batches).toEqual([
      { value: 1, cycles: 8 },
      { value: 16, cycles: 4 },
    ]);
    expect(spread.look.steps).toBe(5);
    expect(spread.alike).toEqual([{ batch: 1, steps: 5, cycles: 8, p50: 6, p95: 7, p99: 8 }]);
    expect(spread.phases[0]?.lanes[0]?.bars).toEqual([5, 7]);
    expect(spread.acceptance[0]?.positions[0]?.accepted).toBe(6);
  });
  it("says of how many cycles it is", () => {
    expect(groundOf(spread)).toBe(
      "12 cycles, 10 of warm-up left out, 2 without a whole time left out",
    );
    expect(cutInWords(spread)).toBeNull();
    expect(cutInWords({ ...spread, whole: false, lookedAt: 500_000, stored: 1_000_000 })).toMatch(
      "Among the newest 500,000 of 1,000,000 cycles",
    );
  });
  it("says why a cycle was slow", () => {
    expect(spread.slowest.map(causeInWords)).toEqual([
      "gap 9.80 ms; usually 0.40 ms",
      "no single phase",
    ]);
  });
  it.each([null, [], {}, { ...ANSWER, phases: 1 }, { ...ANSWER, seen: { kinds: { a: "b" } } }])(
    "of another form is refused: %#",
    (other) => {
      expect(() => decodeSpread(other)).toThrow();
    },
  );
});

it("the cycles of a bar are read", () => {
  const cycle = { n: 7, t0: "1700000000123456789", took_ns: 9, value_ns: 5, batch: 1, steps: 2 };
  const page = decodeBarPage({ total: 3, cycles: [cycle], before: 7 });
  expect(page).toEqual({
    total: 3,
    cycles: [{ n: 7, t0Ms: 1_700_000_000_123.4568, ns: 9, valueNs: 5, batch: 1, steps: 2 }],
    before: 7,
  });
  expect(() => decodeBarPage({ total: 3, cycles: [{ n: 7 }] })).toThrow();
});

describe("bars", () => {
  it("are as many as the axis has, and know their limits", () => {
    expect(barsOf(PHASE)).toBe(4);
    expect(barOf(PHASE, "device", 1)).toEqual({
      phase: "verify",
      lane: "device",
      fromNs: 110_000,
      toNs: 120_000,
    });
    expect(barOf(PHASE, "device", -1)).toMatchObject({ fromNs: null, toNs: 100_000 });
    expect(barOf(PHASE, "device", 4)).toMatchObject({ fromNs: 140_000, toNs: null });
  });
  it("know their cycles, also at the edges", () => {
    expect([-1, 0, 1, 3, 4].map((place) => countOf(PHASE, "device", place))).toEqual([
      3, 4, 100, 0, 7,
    ]);
    expect(countOf({ ...PHASE, lanes: [] }, "host", 0)).toBe(0);
  });
  it("are as high as the square root of their count", () => {
    expect(tallest(PHASE)).toBe(105);
    expect(heightOf(25, 100)).toBe(0.5);
  });
  it("are found below a pointer, also outside of the axis", () => {
    expect([-0.1, 0, 0.26, 0.99, 1].map((x) => placeAt(PHASE, x))).toEqual([0, 0, 1, 3, 3]);
  });
  it("belong to the lower lane that a pointer is on, else to the taller", () => {
    expect(laneAt(PHASE, 1, 0.2)).toBe("host");
    expect(laneAt(PHASE, 1, 0.7)).toBe("device");
    expect(laneAt(PHASE, 1, 1)).toBe("device");
    expect(laneAt(PHASE, 3, 0.2)).toBe("host");
    expect(laneAt({ ...PHASE, lanes: [{ ...LANE, bars: [0] }] }, 0, 0.5)).toBeNull();
  });
  it("stand where their times are", () => {
    expect(along(PHASE, 120_000)).toBe(0.5);
    expect(along(PHASE, 99_999)).toBeNull();
    expect(along(PHASE, 140_001)).toBeNull();
  });
  it("are drawn filled for the device, as one outline for the host", () => {
    const [device, host] = PHASE.lanes as [LaneSpread, LaneSpread];
    const bars = { ...PHASE, lanes: [device] };
    // 100 of 100 cycles reach the top, 4 a fifth, 16 two fifths; an empty bar is not drawn.
    expect(barsPath(bars, device, 40, 10)).toBe(
      "M0.0,10V8.0h9.0V10zM10.0,10V0.0h9.0V10zM20.0,10V6.0h9.0V10z",
    );
    expect(
      barsPath(
        { ...PHASE, lanes: [{ ...host, bars: [0, 25] }] },
        { ...host, bars: [0, 25] },
        20,
        10,
      ),
    ).toBe("M0,10V10.0H10.0V0.0H20.0V10");
  });
});

describe("in words", () => {
  it("a stretch has as many decimals as tell it from the next", () => {
    expect(rangeText({ fromNs: 28_950_000, toNs: 29_000_000 })).toBe("28.95–29.00 ms");
    expect(rangeText({ fromNs: 28_950_000, toNs: 28_952_000 })).toBe("28.950–28.952 ms");
    expect(rangeText({ fromNs: 10_000, toNs: 12_000 })).toBe("10–12 µs");
    expect(rangeText({ fromNs: null, toNs: 28_950_000 })).toBe("below 28.95 ms");
    expect(rangeText({ fromNs: 28_950_000, toNs: null })).toBe("from 28.95 ms on");
    expect(rangeText({ fromNs: null, toNs: null })).toBe("any time");
  });
  it("a bar names its lane where there are two", () => {
    expect(barInWords(PHASE, "device", 1)).toBe("device, 0.11–0.12 ms: 100 cycles");
    expect(barInWords({ ...PHASE, lanes: [LANE] }, "device", 2)).toBe("0.12–0.13 ms: 16 cycles");
  });
  it("a phase says by which clock, the whole cycle does not", () => {
    expect(subjectOf("draft_extend", "host")).toBe("draft extend by host clock");
    expect(subjectOf("cycle", "host")).toBe("the whole cycle");
  });
});

it("a parent that is its only part is not shown", () => {
  const part = { ...PHASE, name: "verify.forward" };
  expect(shownPhases([PHASE, part])).toEqual([part]);
  const longer = { ...PHASE, lanes: PHASE.lanes.map((lane) => ({ ...lane, most: 999 })) };
  expect(shownPhases([longer, part])).toEqual([longer, part]);
  const other = { ...PHASE, name: "verify.sample" };
  expect(shownPhases([PHASE, part, other])).toEqual([PHASE, part, other]);
});
