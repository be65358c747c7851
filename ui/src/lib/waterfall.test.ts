import { describe, expect, test as it } from "vitest";
import { cycleOf, onDevice, rankOf } from "./testing.ts";
import {
  anchor,
  barAt,
  bars,
  endOf,
  pan,
  rowShape,
  showing,
  shownRequests,
  toX,
  visibleRows,
  zoom,
} from "./waterfall.ts";
import type { Cycle } from "./wire.ts";

const PARTS = [
  ["draft", 2],
  ["verify.prepare", 1],
  ["verify.forward", 6],
  ["schedule", 1],
] as const;

const alone = (cycle: Cycle) => ({ cycle, before: null });
const BOTH = { parts: true, device: true, kernels: false };
const HOST = { parts: true, device: false, kernels: false };

describe("a row", () => {
  it("has an opened rank with parts, and collapsed ones below without", () => {
    const { ranks, headerHeight, height } = rowShape(3, 0, BOTH);
    expect(ranks.map(({ host }) => host.partsHeight > 0)).toEqual([true, false, false]);
    expect(ranks.map(({ device }) => (device?.partsHeight ?? 0) > 0)).toEqual([true, false, false]);
    expect(ranks[0]?.host.y).toBe(headerHeight);
    for (const [place, { host, device }] of ranks.entries()) {
      const next = ranks[place + 1]?.host.y ?? height;
      expect(endOf(host)).toBeLessThan(device?.y ?? 0);
      expect(device && endOf(device)).toBeLessThan(next);
    }
  });

  it("needs no line for parts where no phase has any, and none for a device that is not timed", () => {
    const [rank] = rowShape(1, 0, { parts: false, device: false, kernels: false }).ranks;
    expect([rank?.host.partsHeight, rank?.device]).toEqual([0, null]);
    const heights = [{ parts: false, device: false, kernels: false }, HOST, BOTH].map(
      (has) => rowShape(1, 0, has).height,
    );
    expect(heights).toEqual(heights.toSorted((one, other) => one - other));
  });

  it("is seen if any px of it is", () => {
    expect(visibleRows(0, 100, 50, 10)).toEqual({ start: 0, end: 2 });
    expect(visibleRows(75, 100, 50, 10)).toEqual({ start: 1, end: 4 });
    expect(visibleRows(480, 100, 50, 10)).toEqual({ start: 9, end: 10 });
  });
});

describe("the bars of a cycle", () => {
  const shape = rowShape(2, 0, HOST);
  const ranks = ["TP0", "TP1"];
  const cycle = cycleOf(1, {
    ranks: [rankOf(1, PARTS), rankOf(1, PARTS, { rank: "TP1", start: 1e6 })],
  });
  const window = { range: { start: 0, end: 20 }, width: 2000 };
  const drawn = bars(alone(cycle), ranks, shape, window);
  const of = (rank: string, name: string) =>
    drawn.find((bar) => bar.rank === rank && bar.stretch.name === name);

  it("lie where their times are, with one px between neighbours", () => {
    expect(of("TP0", "draft")).toMatchObject({ x: 0, width: 199 });
    expect(of("TP0", "verify")).toMatchObject({ x: 200, width: 699 });
    expect(of("TP1", "draft")).toMatchObject({ x: 100 });
  });

  it("show parts in the opened lane only", () => {
    expect(of("TP0", "verify.forward")?.y).toBe(shape.ranks[0]?.host?.partsY);
    expect(of("TP1", "verify.forward")).toBeUndefined();
  });

  it("are seen however short they are, and then solid", () => {
    const tiny = cycleOf(1, {
      ranks: [
        rankOf(1, [
          ["draft", 0.001],
          ["verify.forward", 9],
        ]),
      ],
    });
    const [draft] = bars(alone(tiny), ranks, shape, window).filter(
      (bar) => bar.stretch.name === "draft",
    );
    expect(draft).toMatchObject({ width: 1, solid: true });
  });

  it("of rare phases are drawn over those of common ones", () => {
    const tiny = cycleOf(1, {
      ranks: [
        rankOf(1, [
          ["draft", 0.001],
          ["schedule", 0.001],
          ["draft_extend", 0.001],
        ]),
      ],
    });
    const order = bars(alone(tiny), ranks, shape, window).map((bar) => bar.stretch.name);
    expect(order).toEqual(["schedule", "draft_extend", "draft"]);
  });

  it("are cut at the edges of the plot and say so", () => {
    const cut = bars(alone(cycle), ranks, shape, { range: { start: 1, end: 5 }, width: 400 });
    const verify = cut.find((bar) => bar.rank === "TP0" && bar.stretch.name === "verify");
    expect(verify).toMatchObject({ x: 100, cutLeft: false, cutRight: true });
    expect((verify?.x ?? 0) + (verify?.width ?? 0)).toBeLessThanOrEqual(400);
    expect(cut.find((bar) => bar.stretch.name === "schedule")).toBeUndefined();
  });

  it("are found under a point, the narrowest first", () => {
    const lane = shape.ranks[0]?.host;
    const y = (lane?.y ?? 0) + 1;
    expect(barAt(drawn, 150, y)?.stretch.name).toBe("draft");
    expect(barAt(drawn, 1500, y)).toBeNull();
    expect(barAt(drawn, 250, (lane?.partsY ?? 0) + 1)?.stretch.name).toBe("verify.prepare");
  });

  it("of the device lie on its own lane, on the same axis, also where the host has gone on", () => {
    const both = rowShape(1, 0, BOTH);
    const late = cycleOf(1, { ranks: [onDevice(rankOf(1, PARTS), 1, [["draft", 12, 3]])] });
    const [bar] = bars(alone(late), ranks, both, window).filter(
      ({ stretch }) => stretch.lane === "device",
    );
    expect(bar).toMatchObject({ x: 1200, width: 299, y: both.ranks[0]?.device?.y });
    expect(bars(alone(late), ranks, rowShape(1, 0, HOST), window)).not.toContainEqual(bar);
  });

  it("of a rank without a lane are not drawn", () => {
    expect(
      bars(alone(cycle), ["TP1"], rowShape(1, 0, HOST), window).every((bar) => bar.rank === "TP1"),
    ).toBe(true);
  });
});

describe("the view", () => {
  it("zooms around a point that stays", () => {
    const before = { start: 10, end: 30 };
    const after = zoom(before, 0.5, 0.25);
    expect(after).toEqual({ start: 12.5, end: 22.5 });
    expect(toX(15, after, 100)).toBe(toX(15, before, 100));
  });

  it("never begins before the cycle", () => {
    expect(zoom({ start: 0, end: 10 }, 2, 0.5)).toEqual({ start: 0, end: 20 });
    expect(pan({ start: 1, end: 11 }, -0.5, 100)).toEqual({ start: 0, end: 10 });
    expect(pan({ start: 1, end: 11 }, 0.5, 100)).toEqual({ start: 6, end: 16 });
  });

  it("never leaves the cycles behind", () => {
    expect(pan({ start: 1, end: 11 }, 0.5, 8)).toEqual({ start: 3, end: 13 });
    expect(pan({ start: 0, end: 10 }, 0.5, 4)).toEqual({ start: 0, end: 10 });
  });

  it("keeps the focused phase in its place when it zooms, else its own middle", () => {
    const view = { start: 10, end: 30 };
    expect([anchor(view, 15), anchor(view, 30)]).toEqual([0.25, 1]);
    expect([anchor(view, null), anchor(view, 4), anchor(view, 31)]).toEqual([0.5, 0.5, 0.5]);
    const nearer = zoom(view, 0.5, anchor(view, 27));
    expect(toX(27, nearer, 100)).toBeCloseTo(toX(27, view, 100));
  });

  it("goes to a stretch that it does not show", () => {
    const view = { start: 10, end: 14 };
    expect(showing(view, { start: 13, end: 20 })).toBe(view);
    expect(showing(view, { start: 20, end: 22 })).toEqual({ start: 19, end: 23 });
    expect(showing(view, { start: 0, end: 1 })).toEqual({ start: 0, end: 4 });
  });
});

it("dots are shown of all requests, or of as many as leave room for the rest in words", () => {
  expect(shownRequests(4, 240, 60, 64)).toBe(4);
  expect(shownRequests(5, 240, 60, 64)).toBe(2);
  expect(shownRequests(96, 5000, 60, 64)).toBe(8);
  expect(shownRequests(3, 50, 60, 64)).toBe(0);
});
