// Draws the waterfall on its canvas; what lies where is decided in lib/waterfall.ts.
import { niceStep, type Range, ticks, tickText } from "../../lib/axis.ts";
import { type CycleId, cycleKey, cycleMs, foreignInWords, lateness } from "../../lib/cycle.ts";
import { lateMs, ms, msShort, ns, whole } from "../../lib/format.ts";
import { deviceInWords, deviceKnown, phasesOf } from "../../lib/lanes.ts";
import { paddedInWords } from "../../lib/load.ts";
import { modesOf } from "../../lib/timing.ts";
import type { Theme } from "../../lib/tokens.ts";
import { type Bar, type Lane, type RankShape, type RowShape, toX } from "../../lib/waterfall.ts";
import type { Cycle, RankCycle } from "../../lib/wire.ts";
import { CyclePen, middle, NAMED, SLOT } from "./cyclePen.ts";
import type { KernelRow, LitKernel } from "./kernelRow.ts";
import { NORMAL, SMALL } from "./pen.ts";

/** Height of the ruler above the rows. */
export const RULER = 18;
/** From here on the gutter carries number, time, and the names of the ranks. */
export const WIDE_GUTTER = 132;

/** One row to draw. */
export interface Row {
  readonly cycle: Cycle;
  readonly y: number;
  readonly bars: readonly Bar[];
  /** Of the opened rank; null where none were seen. */
  readonly kernels: KernelRow | null;
}

/** Everything the picture is made of. */
export interface Scene {
  readonly width: number;
  readonly height: number;
  readonly gutter: number;
  readonly shape: RowShape;
  readonly ranks: readonly string[];
  readonly view: Range;
  readonly rows: readonly Row[];
  readonly theme: Theme;
  /** Usual kinds need no chip; the others are told by a word in a frame. */
  readonly usualKind: string;
  /** The same for the timing mode. */
  readonly usualMode: string;
  readonly selected: CycleId | null;
  readonly hovered: Bar | null;
  readonly focused: Bar | null;
  readonly hoveredKernel: LitKernel | null;
  readonly focusedKernel: LitKernel | null;
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
    const { width, height, gutter, rows } = this.#scene;
    this.#pen.fill("bg", [0, 0, width, height]);
    if (gutter > 0) {
      this.#pen.fill("bg2", [0, 0, gutter, height]);
    }
    for (const row of rows) {
      if (this.#isSelected(row.cycle)) {
        this.#pen.fill("tint", [0, row.y, width, this.#scene.shape.height]);
      }
    }
    this.#grid();
    for (const row of rows) {
      this.#row(row);
    }
    this.#ruler();
    if (gutter > 0) {
      this.#pen.fill("line", [gutter - 1, 0, 1, height]);
    }
  }

  #isSelected(cycle: Cycle): boolean {
    const { selected } = this.#scene;
    return selected !== null && cycleKey(cycle) === cycleKey(selected);
  }

  get #plot(): number {
    return this.#scene.width - this.#scene.gutter;
  }

  #grid(): void {
    const { gutter, view, height, rows, shape } = this.#scene;
    if (rows.length === 0) {
      return;
    }
    const bottom = Math.min(height, (rows.at(-1)?.y ?? 0) + shape.height);
    for (const time of this.#ticks()) {
      if (time > view.start) {
        const x = gutter + Math.round(toX(time, view, this.#plot));
        this.#pen.fill("line", [x, RULER, 1, bottom - RULER]);
      }
    }
  }

  #ruler(): void {
    const { gutter, width, view } = this.#scene;
    this.#pen.fill("bg", [gutter, 0, width - gutter, RULER]);
    if (gutter > 0) {
      this.#pen.fill("bg2", [0, 0, gutter, RULER]);
    }
    if (gutter >= WIDE_GUTTER) {
      this.#pen.text("cycle", 16, 13, { tone: "ink3" });
      this.#pen.text("time", gutter - 12, 13, { tone: "ink3", align: "right" });
    }
    const marks = this.#ticks();
    const step = this.#tickStep();
    for (const time of marks) {
      const x = gutter + Math.round(toX(time, view, this.#plot));
      const text = tickText(time, step, view.end);
      const half = this.#pen.measure(text, SMALL) / 2;
      if (time === 0) {
        this.#pen.text(text, x + 4, 13, { tone: "ink3" });
      } else if (x - half > gutter + 12 && x + half < width - 4) {
        this.#pen.text(text, x, 13, { tone: "ink3", align: "center" });
      }
      this.#pen.fill("line2", [x, RULER - 3, 1, 3]);
    }
    this.#pen.fill("line", [0, RULER - 1, width, 1]);
  }

  #ticks(): number[] {
    return ticks(this.#scene.view, this.#plot / 110);
  }

  #tickStep(): number {
    const { view } = this.#scene;
    return niceStep((view.end - view.start) / Math.max(1, this.#plot / 110));
  }

  #row(row: Row): void {
    const { gutter, shape, width, ranks } = this.#scene;
    const { ctx } = this.#pen;
    if (gutter >= WIDE_GUTTER) {
      this.#names(row);
    } else if (gutter > 0) {
      for (const [place, name] of ranks.entries()) {
        const lane = shape.ranks[place]?.host;
        if (lane) {
          const shown = this.#pen.fit(name, gutter - 12);
          this.#pen.text(shown, 8, row.y + middle(lane), { tone: "ink3" });
        }
      }
    }
    this.#header(row);
    ctx.save();
    ctx.beginPath();
    ctx.rect(gutter, row.y, this.#plot, shape.height);
    ctx.clip();
    for (const [place, name] of ranks.entries()) {
      const lanes = shape.ranks[place];
      if (lanes) {
        this.#lanes(row, name, lanes);
      }
    }
    const corner = { x: gutter, y: row.y };
    for (const bar of row.bars) {
      this.#pen.bar(bar, row.cycle, corner, this.#scene);
    }
    this.#pen.foreign(row.bars, row.cycle, corner);
    if (row.kernels) {
      this.#pen.kernels(row.kernels, corner, this.#scene);
    }
    ctx.restore();
    this.#pen.fill("line", [0, row.y + shape.height - 1, width, 1]);
    if (this.#isSelected(row.cycle)) {
      this.#pen.fill("accent", [0, row.y, 2, shape.height - 1]);
    }
  }

  #names({ cycle, y }: Row): void {
    const { gutter, shape, ranks } = this.#scene;
    const right = gutter - 12;
    const n = this.#pen.text(whole(cycle.n), 16, y + 17, { size: NORMAL, weight: 600 });
    const time = cycleMs(cycle);
    const fits = this.#pen.measure(ms(time), NORMAL) <= right - 16 - n - 8;
    this.#pen.text(fits ? ms(time) : msShort(time), right, y + 17, {
      size: NORMAL,
      align: "right",
    });
    const late = lateness(cycle);
    const worst = Math.max(...late.values());
    for (const [place, name] of ranks.entries()) {
      const lanes = shape.ranks[place];
      if (!lanes) {
        continue;
      }
      const base = y + middle(lanes.host);
      const by = place > 0 ? late.get(name) : undefined;
      const taken =
        ranks.length === 1
          ? this.#pen.text("host", right, base, { tone: "ink3", align: "right" }) + 8
          : this.#late(by, worst, right, base);
      this.#pen.text(this.#pen.fit(name, right - 16 - taken), 16, base, { tone: "ink3" });
      const rank = cycle.ranks.find((each) => each.rank === name);
      if (lanes.device && lanes.device.height >= NAMED) {
        this.#deviceNames(rank, lanes.device, y, right);
      }
      if (lanes.kernels) {
        const below = y + middle(lanes.kernels);
        this.#pen.text("kernels", right, below, { tone: "ink3", align: "right" });
      }
    }
  }

  /** Below the opened rank's name: its device lane, and how well its place is known. */
  #deviceNames(rank: RankCycle | undefined, lane: Lane, y: number, right: number): void {
    this.#pen.text("device", right, y + middle(lane), { tone: "ink3", align: "right" });
    const error = rank?.clockErrorNs ?? null;
    if (error !== null && lane.partsHeight > 0) {
      const base = y + lane.partsY + lane.partsHeight / 2 + 4;
      this.#pen.text(`clock ± ${ns(error)}`, right, base, { tone: "ink3", align: "right" });
    }
  }

  /** Writes by how much a rank is late, the worst one bold; returns the room that it took. */
  #late(by: number | undefined, worst: number, right: number, base: number): number {
    if (by === undefined) {
      return 0;
    }
    const last = by === worst && by > 0;
    const how = { tone: last ? "ink" : "ink3", weight: last ? 600 : 400, align: "right" } as const;
    return this.#pen.text(lateMs(by), right, base, how) + 8;
  }

  #header({ cycle, y }: Row): void {
    const { gutter, width } = this.#scene;
    const base = y + 17;
    let x = gutter + 8;
    let end = width - 12;
    const narrow = gutter < WIDE_GUTTER;
    if (narrow) {
      x = 12;
      x += this.#pen.text(whole(cycle.n), x, base, { size: NORMAL, weight: 600 }) + 8;
      end -= this.#pen.text(ms(cycleMs(cycle)), end, base, { size: NORMAL, align: "right" }) + 12;
    }
    if (!narrow || cycle.kind !== this.#scene.usualKind) {
      x += this.#kind(cycle.kind, x, y) + 8;
    }
    x += this.#timing(cycle, x, y);
    const padded = narrow ? null : paddedInWords(cycle);
    const batch = `batch ${whole(cycle.batch)}${padded === null ? "" : ` ${padded}`}`;
    x += this.#pen.text(batch, x, base, { tone: "ink2" }) + 12;
    const mark = this.#foreignWords(cycle, end - x - SLOT);
    if (mark) {
      end -= this.#pen.text(mark, end, base, { tone: "ink3", align: "right" }) + 12;
    }
    this.#pen.gain(cycle, x, y, end);
  }

  /** Whose batch some phases worked for, in the longest words that fit; null without any. */
  #foreignWords(cycle: Cycle, room: number): string | null {
    const words = foreignInWords(cycle);
    const numbers = new Set(cycle.ranks.flatMap((rank) => rank.phases.map((p) => p.ofCycle)));
    numbers.delete(cycle.n);
    const short = `of cycle ${[...numbers].map(whole).join(", ")}`;
    // Where there is little room the dots say more than the names of the phases.
    const long = this.#scene.gutter < WIDE_GUTTER ? [] : [words ?? ""];
    const forms = words === null ? [] : [...long, short];
    const fits = forms.find((form) => this.#pen.measure(`◂ ${form}`, SMALL) < room);
    return fits ? `◂ ${fits}` : null;
  }

  #kind(kind: string, x: number, y: number): number {
    if (kind === this.#scene.usualKind) {
      return this.#pen.text(kind, x, y + 17, { tone: "ink2" });
    }
    return this.#pen.chip(kind, x, y);
  }

  /** How the cycle was timed where that slows the server, is unlike the others, or not as asked. */
  #timing(cycle: Cycle, x: number, y: number): number {
    const modes = modesOf(cycle);
    const slows = modes.includes("sync");
    const late = cycle.ranks.some((rank) => rank.lateSwitch);
    const unlike = slows || modes !== this.#scene.usualMode;
    if (!(unlike || late)) {
      return 0;
    }
    const words = [...(unlike ? [modes] : []), ...(late ? ["switched late"] : [])].join(", ");
    return this.#pen.chip(slows ? `▲ ${words}` : words, x, y, slows) + 8;
  }

  /** What the lanes of a rank say where they have no bars. */
  #lanes({ cycle, y }: Row, name: string, { host, device }: RankShape): void {
    const { gutter } = this.#scene;
    const rank = cycle.ranks.find((each) => each.rank === name);
    if (!rank) {
      this.#pen.text("no record of this cycle", gutter + 8, y + middle(host), { tone: "bad" });
      return;
    }
    this.#hostSays(rank, host, y);
    if (device) {
      this.#deviceSays(rank, device, y);
    }
  }

  #hostSays(rank: RankCycle, lane: Lane, y: number): void {
    const [start, end] = [this.#xOf(rank.start), this.#xOf(rank.end)];
    const base = y + middle(lane);
    if (phasesOf(rank, "host").length === 0) {
      this.#pen.fill("bg3", [start, y + lane.y, end - start, lane.height]);
      this.#pen.outline("line2", [start, y + lane.y, end - start, lane.height]);
      this.#pen.text("not divided into phases", start + 5, base, { tone: "ink2" });
    }
    const after: string[] = [];
    if (rank.incomplete) {
      after.push("incomplete");
    }
    if (rank.endedIdle && lane.height >= NAMED) {
      after.push("then idle");
    }
    if (after.length > 0) {
      this.#pen.text(after.join(", "), end + 6, base, { tone: rank.incomplete ? "bad" : "ink3" });
    }
  }

  /** A lane that is not whole is never just empty. */
  #deviceSays(rank: RankCycle, lane: Lane, y: number): void {
    const words = deviceInWords(rank);
    if (words === null) {
      this.#pen.whisker(rank, lane, y, (time) => this.#xOf(time));
      return;
    }
    const end = phasesOf(rank, "device").at(-1)?.end ?? rank.start;
    const known = deviceKnown(rank);
    const tone = known === "missing" || known === "incomplete" ? "bad" : "ink3";
    this.#pen.text(words, this.#xOf(end) + 6, y + middle(lane), { tone });
  }

  /** A time in ns from the cycle's start as px of the canvas. */
  #xOf(time: number): number {
    return this.#scene.gutter + Math.round(toX(time / 1e6, this.#scene.view, this.#plot));
  }
}
