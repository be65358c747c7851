import { describe, expect, test as it } from "vitest";
import {
  barOfKernel,
  decodeKernels,
  type KernelBar,
  kernelAt,
  kernelBarAt,
  kernelBars,
  kernelStep,
  type RankKernels,
  shortKernel,
} from "./kernels.ts";

const MS = 1e6;
const US = 1e3;

/** `[start, length, phase, stream]` in ns, all of one name. */
type Row = readonly [start: number, length: number, phase?: string, stream?: number];

function answer(rows: readonly Row[], over: object = {}): object {
  const phases = [...new Set(rows.map(([, , phase = "draft"]) => phase))];
  return {
    t0: "1796000000000000000",
    ranks: [
      {
        rank: "TP0",
        phases,
        names: ["gemm"],
        classes: ["matmul"],
        start: rows.map(([start]) => start),
        end: rows.map(([start, length]) => start + length),
        stream: rows.map(([, , , stream = 7]) => stream),
        phase: rows.map(([, , phase = "draft"]) => phases.indexOf(phase)),
        name: rows.map(() => 0),
        graph: rows.map((_, place) => place % 2),
        ...over,
      },
    ],
  };
}

function rankOf(rows: readonly Row[]): RankKernels {
  const [rank] = decodeKernels(answer(rows)).ranks;
  if (!rank) {
    throw new Error("one rank went in");
  }
  return rank;
}

/** For how long kernels run within a stretch, in ns. */
function within(rows: readonly Row[], from: number, to: number): number {
  return rows.reduce(
    (sum, [start, length]) =>
      sum + Math.max(0, Math.min(to, start + length) - Math.max(from, start)),
    0,
  );
}

function drawn(bars: readonly KernelBar[]): number {
  return bars.reduce((total, bar) => total + bar.ns, 0);
}

/** Repeatable numbers from 0 to 1. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 16_807) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

/** One stream, kernel after kernel, with gaps in between. */
function chain(count: number, seed: number): Row[] {
  const random = numbers(seed);
  let at = 0;
  return Array.from({ length: count }, (): Row => {
    at += Math.round(random() * 4 * US);
    const length = Math.round(random() ** 4 * 90 * US) + 500;
    const row: Row = [at, length, random() < 0.5 ? "draft" : "verify.forward"];
    at += length;
    return row;
  });
}

describe("the kernels of a cycle", () => {
  it("are read as columns, each with its name, class, phase and stream", () => {
    const rank = rankOf([
      [0, 2 * US],
      [3 * US, 10 * US, "verify.forward", 9],
    ]);
    expect(rank).toMatchObject({ rank: "TP0", busiest: 9, longestNs: 10 * US });
    expect(kernelAt(rank, 1)).toEqual({
      name: "gemm",
      kernelClass: "matmul",
      phase: "verify.forward",
      stream: 9,
      graph: true,
      startNs: 3 * US,
      ns: 10 * US,
    });
  });

  it("may be none", () => {
    expect(decodeKernels({ t0: "1", ranks: [] }).ranks).toEqual([]);
    expect(rankOf([])).toMatchObject({ start: [], longestNs: 0 });
  });

  const two: Row[] = [
    [0, 5],
    [9, 5],
  ];
  it.each([
    ["t0", { ...answer(two), t0: "soon" }],
    ["ranks is no list", { t0: "1" }],
    ["end is no column", answer(two, { end: [5] })],
    ["start is no column", answer(two, { start: [0, null] })],
    ["start is no column", answer(two, { start: [0, "9"] })],
    ["phase points at nothing", answer(two, { phase: [0, 1] })],
    ["name points at nothing", answer(two, { name: [0, -1] })],
    ["name points at nothing", answer(two, { name: [0, 0.5] })],
    ["classes are not one of each name", answer(two, { classes: [] })],
    ["ends before it begins", answer(two, { end: [5, 8] })],
    ["order of their begins", answer(two, { start: [9, 0], end: [14, 5] })],
  ])("that break the contract are refused: %s", (message, broken) => {
    expect(() => decodeKernels(broken)).toThrow(message);
  });
});

describe("kernels in px", () => {
  it("lie where they ran, with a px between wide neighbours", () => {
    const rank = rankOf([
      [MS, 2 * MS],
      [3 * MS, MS],
    ]);
    const bars = kernelBars(rank, 0, { range: { start: 0, end: 10 }, width: 100 });
    expect(bars.map(({ x, width, filled, places }) => [x, width, filled, places])).toEqual([
      [10, 19, 1, [0]],
      [30, 9, 1, [1]],
    ]);
  });

  it("that are narrower than a px are one bar for each px, as high as they cover it", () => {
    // A px is 100 µs: ten kernels of 6 µs fill 60 % of the first one, the second stays empty.
    const ten = Array.from({ length: 10 }, (_, place): Row => [place * 10 * US, 6 * US]);
    const bars = kernelBars(rankOf([...ten, [250 * US, 20 * US]]), 0, {
      range: { start: 0, end: 10 },
      width: 100,
    });
    expect(bars.map(({ x, width, places }) => [x, width, places.length])).toEqual([
      [0, 1, 10],
      [2, 1, 1],
    ]);
    expect(bars[0]?.filled).toBeCloseTo(0.6);
    expect(bars[1]?.filled).toBeCloseTo(0.2);
  });

  it("of two px share out what crosses the border, and count where they begin", () => {
    const bars = kernelBars(rankOf([[80 * US, 60 * US]]), 0, {
      range: { start: 0, end: 10 },
      width: 100,
    });
    expect(bars.map(({ x, places }) => [x, places])).toEqual([
      [0, [0]],
      [1, []],
    ]);
    expect(bars.map((bar) => Math.round(bar.ns))).toEqual([20 * US, 40 * US]);
  });

  it.each([1, 2, 3, 4, 5])("draw neither more nor less time than was spent (case %i)", (seed) => {
    const rows = chain(3000, seed);
    const rank = rankOf(rows);
    const endMs = (rank.end.at(-1) ?? 0) / MS;
    for (const width of [37, 360, 1300, 20_000]) {
      for (const range of [
        { start: 0, end: endMs },
        { start: endMs / 3, end: endMs / 2 },
        { start: -endMs, end: 3 * endMs },
        { start: endMs / 2, end: endMs / 2 + 0.2 },
      ]) {
        const bars = kernelBars(rank, 0, { range, width });
        const from = range.start * MS;
        const to = range.end * MS;
        expect(drawn(bars) / US).toBeCloseTo(within(rows, from, to) / US, 3);
        const begun = rows.filter(([start]) => start >= from && start < to).length;
        const crossing = rows.filter(([start, length]) => start < from && start + length > from);
        const counted = bars.reduce((count, { places }) => count + places.length, 0);
        expect(counted).toBeGreaterThanOrEqual(begun);
        expect(counted).toBeLessThanOrEqual(begun + crossing.length);
        for (const bar of bars) {
          expect(bar.x).toBeGreaterThanOrEqual(0);
          expect(bar.x).toBeLessThanOrEqual(width);
          expect(bar.width).toBeGreaterThanOrEqual(1);
        }
      }
    }
  });

  it("are at most one bar for each px of each stream and one for each that is a px wide", () => {
    const rank = rankOf(chain(5000, 9));
    const range = { start: 0, end: (rank.end.at(-1) ?? 0) / MS };
    const wide = (range.end * MS) / 300;
    const large = rank.start.filter((start, place) => (rank.end[place] ?? 0) - start >= wide);
    const bars = kernelBars(rank, 0, { range, width: 300 });
    expect(bars.length).toBeLessThanOrEqual(301 + large.length);
  });

  it("keep their place where their times count from another moment", () => {
    const rank = rankOf([[MS, MS]]);
    const window = { range: { start: 0, end: 10 }, width: 100 };
    expect(kernelBars(rank, 2, window)[0]?.x).toBe(30);
  });

  it("beside the busiest stream are told apart, and found where both are", () => {
    const rank = rankOf([
      [0, 8 * MS],
      [MS, 3 * MS, "draft", 21],
    ]);
    const bars = kernelBars(rank, 0, { range: { start: 0, end: 10 }, width: 100 });
    expect(bars.map(({ aside }) => aside)).toEqual([false, true]);
    expect(kernelBarAt(bars, 20, false)?.places).toEqual([0]);
    expect(kernelBarAt(bars, 20, true)?.places).toEqual([1]);
    expect(kernelBarAt(bars, 70, true)?.places).toEqual([0]);
    expect(kernelBarAt(bars, 95, false)).toBeNull();
    expect(barOfKernel(bars, 1)?.aside).toBe(true);
    expect(barOfKernel(bars, 2)).toBeNull();
  });
});

describe("keys", () => {
  const rank = rankOf([
    [0, 1],
    [2, 1, "verify.prepare"],
    [4, 1, "verify.forward"],
    [6, 1, "verify.forward"],
  ]);

  it("go from kernel to kernel, and stay at the ends", () => {
    expect([kernelStep(rank, 1, 1, null), kernelStep(rank, 1, -1, null)]).toEqual([2, 0]);
    expect([kernelStep(rank, 3, 1, null), kernelStep(rank, 0, -1, null)]).toEqual([3, 0]);
  });

  it("begin with the first kernel of the phase, or of one of its parts", () => {
    expect(kernelStep(rank, null, 1, "verify.forward")).toBe(2);
    expect(kernelStep(rank, null, 1, "verify")).toBe(1);
    expect(kernelStep(rank, null, 1, "schedule")).toBe(0);
    expect(kernelStep(rankOf([]), null, 1, "verify")).toBeNull();
  });
});

it("a kernel's short name has neither types nor arguments nor namespaces", () => {
  expect(
    [
      "void flash::FlashAttnFwdSm90<cutlass::bfloat16_t, 128>(Params)",
      "void (anonymous namespace)::act_and_mul_kernel<c10::BFloat16>(int)",
      "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
      "Memcpy DtoD (Device -> Device)",
      "<lambda>",
      `_ZN7cutlass${"9".repeat(60)}`,
    ].map(shortKernel),
  ).toEqual([
    "FlashAttnFwdSm90",
    "act_and_mul_kernel",
    "ncclDevKernel_AllRedu…16_RING_LL",
    "Memcpy DtoD",
    "<lambda>",
    expect.stringMatching(/^_ZN7cutlass9+…9+$/),
  ]);
});
