// Draws the axis of time on its canvas; what lies where is decided in lib/timeline.ts.
import { decimalsOf, type Range, ticks, timeStep } from "../../lib/axis.ts";
import { cycleKey, cycleMs, lateness } from "../../lib/cycle.ts";
import { clock, fixed, lateMs, ms, ns, shortId, whole } from "../../lib/format.ts";
import { deviceInWords, phasesOf } from "../../lib/lanes.ts";
import type { OverviewBox } from "../../lib/overview.ts";
import { type Column, servedOver, type TimeBar, type TimeShape } from "../../lib/timeline.ts";
import { modesOf } from "../../lib/timing.ts";
import { hostFill, phaseColour, type Theme } from "../../lib/tokens.ts";
import { type RankShape, toX } from "../../lib/waterfall.ts";
import type { Cycle } from "../../lib/wire.ts";
import { CyclePen, middle, NAMED } from "../waterfall/cyclePen.ts";
import type { KernelRow, LitKernel } from "../waterfall/kernelRow.ts";
import { WIDE_GUTTER } from "../waterfall/paint.ts";
import { NORMAL, type Rect, SMALL } from "../waterfall/pen.ts";

const CYCLE_ROW = 44;
const REQUEST_ROW = 24;
const RULER = 18;
/** What stands above the ranks and does not scroll. */
export const HEAD = CYCLE_ROW + REQUEST_ROW + RULER;

const NS_PER_MS = 1e6;
const MINUTE_MS = 60_000;
const S = 1000;
const TICK_ROOM = 110;
/** A part of a column that is less high, in px, cannot be seen. */
const UNSEEN = 0.4;
/** Below the header's row of numbers. */
const SECOND_LINE = 18;

/** A mark, at a UNIX time in ms. */
export interface Letter {
  readonly letter: string;
  readonly time: number;
}

/** Cycles of which the page knows the times alone. */
export interface Far {
  readonly boxes: readonly OverviewBox[];
  /** UNIX ms from which on cycles are here, with their phases. */
  readonly until: number;
  /** What stands in place of the phases before that. */
  readonly words: string;
}

/** Everything the picture is made of. */
export interface Scene {
  readonly width: number;
  readonly height: number;
  readonly gutter: number;
  readonly scrollTop: number;
  readonly shape: TimeShape;
  readonly ranks: readonly string[];
  readonly open: string;
  /** UNIX ms. */
  readonly view: Range;
  /** Of the opened rank, oldest first. */
  readonly cycles: readonly Cycle[];
  /** Null where columns are drawn. */
  readonly bars: readonly TimeBar[] | null;
  /** By rank: the host's, the device's. */
  readonly columns: ReadonlyMap<string, readonly (readonly Column[])[]>;
  /** What the server summed up; null where all cycles in view are here. */
  readonly far: Far | null;
  readonly theme: Theme;
  readonly usualKind: string;
  readonly usualMode: string;
  /** A longer cycle is a slow one, in ms; null where that is not known. */
  readonly slowMs: number | null;
  readonly selected: Cycle | null;
  readonly hovered: TimeBar | null;
  readonly focused: TimeBar | null;
  /** Of the opened rank, by cycle. */
  readonly kernels: readonly KernelRow[];
  readonly hoveredKernel: LitKernel | null;
  readonly focusedKernel: LitKernel | null;
  /** UNIX ms. */
  readonly measured: Range | null;
  readonly letters: readonly Letter[];
  /** The keys of the cycles that a search found. */
  readonly found: ReadonlySet<string>;
  /** The cycle that is not complete yet, and since when (UNIX ms). */
  readonly running: { readonly n: number; readonly from: number } | null;
}

/** Draws a scene onto a canvas whose units are CSS px. */
export function paint(ctx: CanvasRenderingContext2D, scene: Scene, font: string): void {
  new Painter(ctx, scene, font).all();
}

class Painter {
  readonly #pen: CyclePen;
  readonly #scene: Scene;

  constructor(ctx: CanvasRenderingContext2D, scene: Scene, family: string) {
    this.#pen = new CyclePen(ctx, scene.theme, family);
    this.#scene = scene;
  }

  all(): void {
    const { width, height, gutter, selected, measured } = this.#scene;
    this.#pen.fill("bg", [0, 0, width, height]);
    this.#running();
    for (const range of [selected && rangeOf(selected), measured]) {
      this.#tint(range);
    }
    this.#clipped(gutter, 0, () => this.#grid());
    this.#clipped(gutter, HEAD, () => this.#lanes());
    this.#clipped(gutter, 0, () => this.#head());
    this.#gutter();
    this.#clipped(gutter, 0, () => this.#edges());
  }

  get #plot(): number {
    return this.#scene.width - this.#scene.gutter;
  }

  /** A UNIX time in ms as px of the canvas. */
  #xOf(time: number): number {
    return this.#scene.gutter + Math.round(toX(time, this.#scene.view, this.#plot));
  }

  #clipped(left: number, top: number, draw: () => void): void {
    const { ctx } = this.#pen;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, this.#scene.width - left, this.#scene.height - top);
    ctx.clip();
    draw();
    ctx.restore();
  }

  /** Where the next cycle will stand once it is complete. */
  #running(): void {
    const { running, width, height } = this.#scene;
    const x = running ? this.#xOf(running.from) : width;
    if (!running || x >= width) {
      return;
    }
    this.#pen.fill("bg2", [x, 0, width - x, height]);
    for (const [text, y] of [
      [whole(running.n), 17],
      ["running", 35],
    ] as const) {
      if (this.#pen.measure(text, SMALL) + 12 < width - x) {
        this.#pen.text(text, x + 8, y, { tone: "ink3" });
      }
    }
  }

  #tint(range: Range | null): void {
    if (range) {
      const [from, to] = [this.#xOf(range.start), this.#xOf(range.end)];
      this.#clipped(this.#scene.gutter, 0, () =>
        this.#pen.fill("tint", [from, 0, Math.max(1, to - from), this.#scene.height]),
      );
    }
  }

  #grid(): void {
    const { cycles, height, bars } = this.#scene;
    if (bars) {
      for (const cycle of cycles) {
        this.#pen.fill("line", [this.#xOf(cycle.t0Ms), 0, 1, height]);
      }
    }
  }

  #head(): void {
    const { width, bars } = this.#scene;
    if (bars) {
      for (const cycle of this.#scene.cycles) {
        this.#cell(cycle);
      }
    } else {
      this.#times();
    }
    this.#pen.fill("line", [0, CYCLE_ROW - 1, width, 1]);
    this.#served();
    this.#pen.fill("line", [0, CYCLE_ROW + REQUEST_ROW - 1, width, 1]);
    this.#ruler();
    this.#pen.fill("line", [0, HEAD - 1, width, 1]);
  }

  /** Number, time, and what the cycle gave, as much of it as fits. */
  #cell(cycle: Cycle): void {
    const { gutter, width, slowMs, found } = this.#scene;
    const [from, to] = [this.#xOf(cycle.t0Ms), this.#xOf(cycle.t0Ms + cycleMs(cycle))];
    const x = Math.max(gutter, from) + 8;
    const end = Math.min(width, to) - 8;
    if (found.has(cycleKey(cycle))) {
      this.#pen.fill("accent", [from + 1, CYCLE_ROW - 4, to - from - 1, 3]);
    }
    const number = whole(cycle.n);
    const taken = this.#pen.measure(number, NORMAL, 600);
    if (x + taken > end) {
      return;
    }
    this.#pen.text(number, x, 17, { size: NORMAL, weight: 600 });
    const time = ms(cycleMs(cycle));
    if (x + taken + 8 + this.#pen.measure(time, NORMAL) <= end) {
      const slow = slowMs !== null && cycleMs(cycle) > slowMs;
      const how = slow ? ({ tone: "bad", weight: 600 } as const) : ({ tone: "ink2" } as const);
      this.#pen.text(time, end, 17, { ...how, size: NORMAL, align: "right" });
    }
    this.#pen.gain(cycle, this.#chips(cycle, x, end), SECOND_LINE, end);
  }

  /** What sets a cycle apart: its kind, a timing that slows it, holes. Returns where they end. */
  #chips(cycle: Cycle, from: number, end: number): number {
    const modes = modesOf(cycle);
    const slows = modes.includes("sync");
    const chips = [
      ...(slows || modes !== this.#scene.usualMode ? [slows ? `▲ ${modes}` : modes] : []),
      ...(cycle.kind === this.#scene.usualKind ? [] : [cycle.kind]),
      ...(cycle.ranks.some((rank) => rank.lateSwitch) ? ["switched late"] : []),
    ];
    let x = from;
    for (const chip of chips) {
      if (x + this.#pen.measure(chip, SMALL, 600) + 10 <= end) {
        x += this.#pen.chip(chip, x, SECOND_LINE, chip.startsWith("▲")) + 6;
      }
    }
    return x;
  }

  /** Where cycles are too narrow for numbers: how long they took, from the shortest on. */
  #times(): void {
    const { gutter, found, far } = this.#scene;
    const columns = this.#scene.columns.get(this.#scene.open)?.[0] ?? [];
    const longest = Math.max(1e-6, this.#longest());
    const yOf = (time: number) => CYCLE_ROW - 5 - (time / longest) * (CYCLE_ROW - 11);
    const draw = (x: number, width: number, time: Range) => {
      const top = yOf(time.end);
      const height = Math.max(2, yOf(time.start) - top);
      this.#pen.fill("ink3", [gutter + x, top, width, height]);
    };
    for (const { x, width, column } of far?.boxes ?? []) {
      draw(x, width, { start: column.leastMs, end: column.mostMs });
    }
    for (const { x, width, time, cycle } of columns) {
      if (!far) {
        draw(x, width, time);
      }
      if (found.has(cycleKey(cycle))) {
        this.#pen.fill("accent", [gutter + x, CYCLE_ROW - 4, Math.max(2, width), 3]);
      }
    }
  }

  /** The longest time in view where cycles are summed up, in ms. */
  #longest(): number {
    const { far, columns, open } = this.#scene;
    return far
      ? Math.max(0, ...far.boxes.map(({ column }) => column.mostMs))
      : Math.max(0, ...(columns.get(open)?.[0] ?? []).map(({ time }) => time.end));
  }

  /** Why there are no phases before the cycles that are here. */
  #beyond({ until, words }: Far): void {
    const { gutter, height } = this.#scene;
    const [from, to] = [gutter, Math.min(this.#scene.width, this.#xOf(until))];
    this.#pen.fill("bg2", [from, HEAD, to - from, height - HEAD]);
    // Below the name of the rank where that has no gutter to stand in.
    const y = HEAD + (gutter < WIDE_GUTTER ? 40 : 24);
    this.#pen.text(this.#pen.fit(words, to - from - 24), from + 12, y, { tone: "ink2" });
  }

  #served(): void {
    const { gutter, width } = this.#scene;
    for (const { ids, start, end } of servedOver(this.#scene.cycles)) {
      const [from, to] = [Math.max(gutter, this.#xOf(start)), Math.min(width, this.#xOf(end))];
      this.#pen.fill("bg3", [from, CYCLE_ROW + 4, Math.max(1, to - from - 1), REQUEST_ROW - 9]);
      const [only = ""] = ids;
      const words = ids.length === 1 ? shortId(only, 24) : `${whole(ids.length)} requests`;
      if (this.#pen.measure(words, SMALL) + 10 < to - from) {
        this.#pen.text(words, from + 5, CYCLE_ROW + 15, { tone: "ink2" });
      }
    }
  }

  #ruler(): void {
    const { view, gutter, width } = this.#scene;
    const most = this.#plot / TICK_ROOM;
    const step = timeStep((view.end - view.start) / Math.max(1, most));
    const unit = Math.max(MINUTE_MS, step);
    const base = Math.floor(view.start / unit) * unit;
    for (const tick of ticks({ start: view.start - base, end: view.end - base }, most, step)) {
      const x = this.#xOf(base + tick);
      this.#pen.fill("line2", [x, HEAD - 4, 1, 3]);
      const text = tickWords(base + tick, step);
      const half = this.#pen.measure(text, SMALL) / 2;
      if (x - half > gutter + 2 && x + half < width - 2) {
        this.#pen.text(text, x, HEAD - 5, { tone: "ink3", align: "center" });
      }
    }
  }

  #lanes(): void {
    const { ranks, shape, bars, scrollTop, gutter, width, far } = this.#scene;
    const top = HEAD - scrollTop;
    if (far) {
      this.#beyond(far);
    }
    for (const [place, name] of ranks.entries()) {
      const row = shape.rows[place];
      const lanes = shape.ranks[place];
      if (!(row && lanes) || top + row.end < HEAD || top + row.start > this.#scene.height) {
        continue;
      }
      if (gutter === 0) {
        this.#nameLine(name, top + row.start);
      }
      if (bars) {
        this.#notes(name, lanes, top);
      } else {
        this.#columns(name, lanes, top);
      }
      this.#pen.fill("line", [0, top + row.end - 1, width, 1]);
    }
    const corner = { x: gutter, y: top };
    const seen = (bars ?? []).filter(
      (bar) => top + bar.y + bar.height > HEAD && top + bar.y < this.#scene.height,
    );
    for (const bar of seen) {
      this.#pen.bar(bar, bar.cycle, corner, this.#scene);
    }
    for (const cycle of new Set(seen.map((bar) => bar.cycle))) {
      const own = seen.filter((bar) => bar.cycle === cycle);
      this.#pen.foreign(own, cycle, corner);
    }
    for (const row of this.#scene.kernels) {
      this.#pen.kernels(row, corner, this.#scene);
    }
  }

  #nameLine(name: string, y: number): void {
    const { open } = this.#scene;
    const x = 8 + this.#pen.text(name, 8, y + 13, { weight: name === open ? 600 : 400 }) + 8;
    if (name === open) {
      this.#pen.text("host outlined, device filled", x, y + 13, { tone: "ink3" });
    }
  }

  /** What the lanes of a rank say where they have no bars, and how well the clock is known. */
  #notes(name: string, lanes: RankShape, top: number): void {
    for (const cycle of this.#scene.cycles) {
      const rank = cycle.ranks.find((each) => each.rank === name);
      const [from, to] = [this.#xOf(cycle.t0Ms), this.#xOf(cycle.t0Ms + cycleMs(cycle))];
      const say = (words: string, y: number, bad: boolean, after = from) => {
        const x = Math.max(this.#scene.gutter, after) + 6;
        if (x + this.#pen.measure(words, SMALL) + 6 < to) {
          this.#pen.text(words, x, y, { tone: bad ? "bad" : "ink3" });
        }
      };
      if (!rank) {
        say("no record of this cycle", top + middle(lanes.host), true);
        continue;
      }
      const { host, device } = lanes;
      if (!rank.phases.some(({ lane }) => lane === "host")) {
        this.#pen.outline("line2", [from, top + host.y, to - from - 1, host.height]);
        say("not divided into phases", top + middle(host), false);
      }
      const lacking = device ? deviceInWords(rank) : null;
      if (device && lacking !== null && device.height >= NAMED) {
        const last = phasesOf(rank, "device").at(-1)?.end ?? rank.start;
        const after = this.#xOf(cycle.t0Ms + last / NS_PER_MS);
        say(lacking, top + middle(device), rank.deviceIncomplete, after);
      } else if (device && device.height >= NAMED) {
        this.#pen.whisker(rank, device, top, (time) => this.#xOf(cycle.t0Ms + time / NS_PER_MS));
      }
    }
  }

  #columns(name: string, lanes: RankShape, top: number): void {
    const [host = [], device = []] = this.#scene.columns.get(name) ?? [];
    this.#stacks(host, top + lanes.host.y, lanes.host.height + lanes.host.partsHeight, true);
    if (lanes.device) {
      const { y, height, partsHeight } = lanes.device;
      this.#stacks(device, top + y, height + partsHeight, false);
    }
  }

  /**
   * A column a cycle: what share of it each phase took, the first one at the bottom. Drawn phase by
   * phase, for there are tens of thousands of parts and a change of colour costs more than a part.
   */
  #stacks(columns: readonly Column[], top: number, height: number, pale: boolean): void {
    const parts = new Map<string, Rect[]>();
    for (const { x, width, shares } of columns) {
      let bottom = top + height;
      for (const { name, share } of shares) {
        const tall = share * height;
        bottom -= tall;
        if (tall >= UNSEEN) {
          const rects = parts.get(name) ?? [];
          rects.push([this.#scene.gutter + x, bottom, width, tall]);
          parts.set(name, rects);
        }
      }
    }
    for (const [name, rects] of parts) {
      this.#parts(name, rects, pale);
    }
  }

  #parts(name: string, rects: readonly Rect[], pale: boolean): void {
    const { theme } = this.#scene;
    const { ctx } = this.#pen;
    const { fill } = phaseColour(name, theme);
    const paths = { filled: new Path2D(), outlined: new Path2D() };
    for (const [x, y, width, tall] of rects) {
      // Where a column has room for an outline it is the host's, as everywhere.
      if (pale && width >= 6 && tall >= 3) {
        paths.outlined.rect(x + 0.5, y + 0.5, width - 1, tall - 1);
      } else {
        paths.filled.rect(x, y, width, tall);
      }
    }
    ctx.fillStyle = fill;
    ctx.fill(paths.filled);
    ctx.fillStyle = hostFill(name, theme);
    ctx.fill(paths.outlined);
    ctx.strokeStyle = fill;
    ctx.lineWidth = 1;
    ctx.stroke(paths.outlined);
  }

  #gutter(): void {
    const { gutter, height, view, ranks, shape, scrollTop, bars, selected, cycles } = this.#scene;
    if (gutter < WIDE_GUTTER) {
      return;
    }
    const right = gutter - 12;
    this.#pen.fill("bg2", [0, 0, gutter, height]);
    const { ctx } = this.#pen;
    const reference = selected ?? cycles.at(-1) ?? null;
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, HEAD, gutter, height - HEAD);
    ctx.clip();
    for (const [place, name] of ranks.entries()) {
      const lanes = shape.ranks[place];
      const row = shape.rows[place];
      if (lanes && row) {
        this.#name({ name, place, lanes, right }, reference, HEAD - scrollTop);
        this.#pen.fill("line", [0, HEAD - scrollTop + row.end - 1, gutter, 1]);
      }
    }
    ctx.restore();
    this.#pen.text("cycle", 16, 17, { tone: "ink3" });
    this.#pen.text(bars ? "accepted, time" : "time, up to", 16, 35, { tone: "ink3" });
    if (!bars) {
      this.#pen.text(ms(this.#longest()), right, 35, { align: "right" });
    }
    this.#pen.text("requests", 16, CYCLE_ROW + 15, { tone: "ink3" });
    this.#pen.text(`${clock(view.start).slice(0, 5)}:`, 16, HEAD - 5, { tone: "ink3" });
    if (ranks.length > 1) {
      this.#pen.text("late by", right, HEAD - 5, { tone: "ink3", align: "right" });
    }
    for (const y of [CYCLE_ROW, CYCLE_ROW + REQUEST_ROW, HEAD]) {
      this.#pen.fill("line", [0, y - 1, gutter, 1]);
    }
    this.#pen.fill("line", [gutter - 1, 0, 1, height]);
  }

  #name({ name, place, lanes, right }: Named, reference: Cycle | null, top: number): void {
    const { ranks, open } = this.#scene;
    const opened = name === open;
    const base = top + middle(lanes.host);
    const late = reference ? lateness(reference) : new Map<string, number>();
    const by = place > 0 ? late.get(name) : undefined;
    const worst = by !== undefined && by > 0 && by === Math.max(...late.values());
    const [said, weight] =
      by === undefined || opened ? ["host", 400] : [lateMs(by), worst ? 600 : 400];
    const shown = opened || by !== undefined ? said : "";
    const tone = worst && !opened ? "ink" : "ink3";
    const taken = this.#pen.text(String(shown), right, base, {
      tone,
      weight: Number(weight),
      align: "right",
    });
    const sign = ranks.length > 1 ? (opened ? "▾ " : "▸ ") : "";
    const room = right - 16 - taken - 6;
    const fitted = this.#pen.fit(`${sign}${name}`, room);
    this.#pen.text(fitted, 16, base, { weight: opened ? 600 : 400, tone: opened ? "ink" : "ink2" });
    const { device } = lanes;
    if (opened && device) {
      this.#pen.text("device", right, top + middle(device), { tone: "ink3", align: "right" });
      const rank = reference?.ranks.find((each) => each.rank === name);
      const error = rank?.clockErrorNs ?? null;
      if (error !== null && device.partsHeight > 0) {
        const y = top + device.partsY + device.partsHeight / 2 + 4;
        this.#pen.text(`clock ± ${ns(error)}`, right, y, { tone: "ink3", align: "right" });
      }
    }
    if (lanes.kernels) {
      const y = top + middle(lanes.kernels);
      this.#pen.text("kernels", right, y, { tone: "ink3", align: "right" });
    }
  }

  /** What the reader chose lies over everything: a selected cycle, what is measured, marks. */
  #edges(): void {
    const { selected, measured, height, letters } = this.#scene;
    if (selected) {
      const { start, end } = rangeOf(selected);
      const [from, to] = [this.#xOf(start), this.#xOf(end)];
      this.#pen.fill("accent", [from, 0, Math.max(2, to - from), 2]);
      this.#pen.fill("accent", [from, 0, 1, height]);
      this.#pen.fill("accent", [to, 0, 1, height]);
    }
    if (measured) {
      const [from, to] = [this.#xOf(measured.start), this.#xOf(measured.end)];
      this.#pen.fill("accent", [from, HEAD - RULER, 1, height]);
      this.#pen.fill("accent", [to, HEAD - RULER, 1, height]);
      this.#plate(ms(measured.end - measured.start), (from + to) / 2);
    }
    for (const { letter, time } of letters) {
      this.#dashed(this.#xOf(time));
      this.#plate(letter, this.#xOf(time));
    }
  }

  #dashed(x: number): void {
    const { ctx } = this.#pen;
    ctx.strokeStyle = this.#pen.colour("accent");
    ctx.lineWidth = 1;
    ctx.setLineDash([2, 3]);
    ctx.beginPath();
    ctx.moveTo(x + 0.5, HEAD - RULER);
    ctx.lineTo(x + 0.5, this.#scene.height);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  /** Words in the ruler that something else must not shine through. */
  #plate(words: string, x: number): void {
    const width = this.#pen.measure(words, SMALL, 600) + 8;
    const left = Math.round(x - width / 2);
    this.#pen.fill("accent", [left, HEAD - RULER + 1, width, RULER - 3]);
    const how = { tone: "bg", weight: 600, align: "center" } as const;
    this.#pen.text(words, left + width / 2, HEAD - 6, how);
  }
}

interface Named {
  readonly name: string;
  readonly place: number;
  readonly lanes: RankShape;
  readonly right: number;
}

function rangeOf(cycle: Cycle): Range {
  return { start: cycle.t0Ms, end: cycle.t0Ms + cycleMs(cycle) };
}

/** A UNIX time in ms within its minute; the minutes themselves by the clock. */
function tickWords(time: number, step: number): string {
  const inMinute = time - Math.floor(time / MINUTE_MS) * MINUTE_MS;
  if (step >= MINUTE_MS || inMinute < step / 2 || MINUTE_MS - inMinute < step / 2) {
    return clock(Math.round(time / S) * S).slice(0, 5);
  }
  return `${fixed(inMinute / S, decimalsOf(step / S))} s`;
}
