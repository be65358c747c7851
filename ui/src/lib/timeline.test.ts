import { describe, expect, test as it } from "vitest";
import { EARLIER } from "./phases.ts";
import { cycleOf, onDevice, rankOf, rowOf } from "./testing.ts";
import {
  anchored,
  columnsOf,
  drawsBars,
  inView,
  nearestColumn,
  newestView,
  panTime,
  rangeOf,
  servedOver,
  timeBars,
  timeShape,
  usualPace,
  usualSpan,
  wholeView,
  zoomTime,
} from "./timeline.ts";
import { endOf } from "./waterfall.ts";

const BOTH = { parts: true, device: true, kernels: false };
const GUTTER = { room: 400, named: true };
const row = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, place) => cycleOf(from + place));
const T0 = 1_000_000;

describe("the ranks", () => {
  it("fill the height, the opened one in full, none over another", () => {
    const { ranks, rows, height } = timeShape(8, 2, BOTH, GUTTER);
    expect(height).toBeLessThanOrEqual(400);
    expect(height).toBeGreaterThan(300);
    for (const [place, { host, device }] of ranks.entries()) {
      expect(host.y).toBeGreaterThanOrEqual(rows[place]?.start ?? Number.NaN);
      expect(device && endOf(device)).toBeLessThan(rows[place]?.end ?? 0);
      expect(rows[place + 1]?.start ?? height).toBe(rows[place]?.end);
      expect(host.partsHeight > 0).toBe(place === 2);
    }
  });

  it("are taller where there is room: one alone twice as tall as it must be, never over the edge", () => {
    const host = (ranks: number, room: number) => {
      const { ranks: shapes, height } = timeShape(ranks, 0, BOTH, { room, named: true });
      expect(height).toBeLessThanOrEqual(room);
      return shapes[0]?.host;
    };
    expect(host(1, 600)).toMatchObject({ height: 36, partsHeight: 28 });
    expect(host(1, 82)).toMatchObject({ height: 18, partsHeight: 14 });
    expect(host(8, 400)?.height).toBe(18);
  });

  it("keep their least height where there is no room, so that they scroll", () => {
    expect(timeShape(64, 0, BOTH, GUTTER).height).toBeGreaterThan(64 * 27);
  });

  it("have a line for their names where there is no gutter", () => {
    const [first] = timeShape(2, 0, BOTH, { ...GUTTER, named: false }).ranks;
    const [named] = timeShape(2, 0, BOTH, GUTTER).ranks;
    expect((first?.host.y ?? 0) - (named?.host.y ?? 0)).toBe(16);
  });
});

describe("what is seen", () => {
  it("holds a few cycles, and stays while that suits", () => {
    const span = usualSpan(10, null, 1200);
    expect(span / 10).toBeGreaterThan(3);
    expect(span / 10).toBeLessThan(4);
    expect(usualSpan(11, span, 1200)).toBe(span);
    expect(usualSpan(30, span, 1200)).toBe(span * 3);
    expect(usualSpan(10, null, 390)).toBeLessThan(20);
  });

  it("is longer where the server idles between cycles, up to a point", () => {
    const every = (ms: number) => [1, 2, 3, 4, 5].map((n) => cycleOf(n, { t0Ms: T0 + n * ms }));
    expect(usualPace(every(10))).toBe(10);
    expect(usualPace(every(25))).toBe(25);
    expect(usualPace(every(5000))).toBe(40);
    expect(usualPace([])).toBeNull();
  });

  it("ends a little after the newest cycle", () => {
    const { start, end } = newestView(row(1, 9), 36, 0);
    expect(end - start).toBeCloseTo(36, 6);
    expect(end).toBeGreaterThan(T0 + 100);
    expect(end).toBeLessThan(T0 + 105);
  });

  it("can be all", () => {
    expect(wholeView(row(1, 9))).toEqual({ start: T0 + 10 - 1, end: T0 + 100 + 1 });
    expect(wholeView([])).toBeNull();
  });

  it("keeps the time under the pointer when zoomed, and a part of the cycles when moved", () => {
    expect(zoomTime({ start: 100, end: 200 }, 0.5, 0.2)).toEqual({ start: 110, end: 160 });
    const whole = { start: 0, end: 1000 };
    expect(panTime({ start: 100, end: 200 }, 0.5, whole)).toEqual({ start: 150, end: 250 });
    expect(panTime({ start: 100, end: 200 }, 50, whole)).toEqual({ start: 990, end: 1090 });
    expect(panTime({ start: 100, end: 200 }, -50, whole)).toEqual({ start: -90, end: 10 });
  });

  it("has the cycles of which anything lies in it", () => {
    const found = inView(row(1, 9), { start: T0 + 35, end: T0 + 50.5 });
    expect(found.map(([{ n }, place]) => [n, place])).toEqual([
      [3, 2],
      [4, 3],
      [5, 4],
    ]);
  });
});

it("a stretch has a name that leads back to it, and to the cycle that must be here", () => {
  const cycles = row(1, 9);
  const view = { start: T0 + 35, end: T0 + 50 };
  const name = anchored(cycles, view);
  expect(name).toEqual({ group: "", n: 3, offsetMs: 5, lengthMs: 15 });
  expect(rangeOf(cycles, name)).toEqual(view);
  expect(rangeOf(row(5, 9), name)).toBeNull();
  expect(anchored([], view)).toBeNull();
});

describe("bars", () => {
  const shape = timeShape(1, 0, BOTH, GUTTER);
  const window = { range: { start: T0 + 10, end: T0 + 30 }, width: 1000 };

  it("stand where their cycles are on the axis", () => {
    const drafts = timeBars(row(1, 3), ["TP0"], shape, window).filter(
      ({ stretch }) => stretch.name === "draft",
    );
    // 20 ms on 1000 px; the third cycle begins right of the edge.
    expect(drafts.map(({ cycle, x, width }) => [cycle.n, x, width])).toEqual([
      [1, 0, 99],
      [2, 500, 99],
    ]);
  });

  it("do not draw the device's work for the cycle before twice", () => {
    const cycles = [1, 2].map((n) =>
      cycleOf(n, { ranks: [onDevice(rankOf(n, [["draft", 10]]), n, [["draft", 4, 8]])] }),
    );
    const found = timeBars(cycles, ["TP0"], shape, window);
    expect(found.some(({ stretch }) => stretch.name === EARLIER)).toBe(false);
    const device = found.filter(
      ({ stretch }) => stretch.lane === "device" && stretch.name === "draft",
    );
    expect(device.map(({ x, width }) => [x, width])).toEqual([
      [200, 399],
      [700, 299],
    ]);
  });

  it("become columns where cycles are narrow", () => {
    expect(drawsBars(10, { start: 0, end: 250 }, 1000)).toBe(true);
    expect(drawsBars(10, { start: 0, end: 251 }, 1000)).toBe(false);
  });
});

describe("columns", () => {
  const view = { start: T0, end: T0 + 1000 };

  it("show what share of a cycle each phase took", () => {
    const [column] = columnsOf(row(1, 9), "TP0", "host", { range: view, width: 1000 });
    expect(column).toMatchObject({ x: 10, width: 9, cycles: 1, time: { start: 10, end: 10 } });
    expect(column?.shares).toEqual([
      { name: "draft", share: 0.2 },
      { name: "verify", share: 0.7 },
      { name: "schedule", share: 0.1 },
    ]);
  });

  it("put cycles together that are nearer than 3 px, and keep the slowest one's number", () => {
    const slow = cycleOf(12, {
      ranks: [rankOf(12, [["draft", 2], ["verify", 18]])], // biome-ignore format: one cycle
    });
    const cycles = [...row(10, 11), slow, ...row(14, 19)];
    const found = columnsOf(cycles, "TP0", "host", { range: view, width: 100 });
    expect(found.map(({ cycles: many }) => many)).toEqual([3, 3, 3]);
    expect(found[0]?.cycle.n).toBe(12);
    expect(found[0]?.time).toEqual({ start: 10, end: 20 });
    // 2 of 10, 2 of 10 and 2 of 20 ms.
    expect(found[0]?.shares[0]).toEqual({ name: "draft", share: 6 / 40 });
  });

  it("are found by a point on them or next to them", () => {
    const found = columnsOf(row(1, 9), "TP0", "host", { range: view, width: 300 });
    expect(found.map(({ x, width }) => [x, width])[1]).toEqual([6, 3]);
    expect([6, 8.9, 4].map((x) => nearestColumn(found, x)?.cycle.n)).toEqual([2, 2, 1]);
    expect([1.5, 0.5, 33].map((x) => nearestColumn(found, x)?.cycle.n)).toEqual([
      1,
      undefined,
      undefined,
    ]);
  });

  it("are never taller than full where the device is behind its host", () => {
    const late = cycleOf(1, {
      ranks: [onDevice(rankOf(1, [["draft", 10]]), 1, [["draft", 0, 5], ["verify", 5, 15]])], // biome-ignore format: one lane
    });
    const [column] = columnsOf([late], "TP0", "device", { range: view, width: 1000 });
    expect(column?.shares.map(({ share }) => share)).toEqual([0.25, 0.75]);
  });
});

it("cycles in a row that work for the same requests are one stretch", () => {
  const of = (n: number, ids: string[]) =>
    cycleOf(n, { requests: ids.map((id) => rowOf(1, { id })) });
  const served = servedOver([of(1, ["a"]), of(2, ["a"]), of(3, ["b", "a"]), of(4, ["a", "b"])]);
  expect(served.map(({ ids, start, end }) => [ids.length, start - T0, end - T0])).toEqual([
    [1, 10, 30],
    [2, 30, 50],
  ]);
});
