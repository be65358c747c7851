// Draws the waterfall on its canvas; what lies where is decided in lib/waterfall.ts.
import { niceStep, type Range, ticks, tickText } from "../../lib/axis.ts";
import {
  type CycleId,
  cycleKey,
  cycleMs,
  cycleTokens,
  foreignInWords,
  gainInWords,
  lateness,
  servedRows,
} from "../../lib/cycle.ts";
import { fitText, lateMs, ms, msShort, ns, whole } from "../../lib/format.ts";
import { deviceInWords, deviceKnown, phasesOf } from "../../lib/lanes.ts";
import { paddedInWords } from "../../lib/load.ts";
import { EARLIER, GAP, phaseLabel } from "../../lib/phases.ts";
import { modesOf } from "../../lib/timing.ts";
import { type ColourName, colour, hostFill, phaseColour, type Theme } from "../../lib/tokens.ts";
import {
  type Bar,
  type Lane,
  type RankShape,
  type RowShape,
  shownRequests,
  toX,
} from "../../lib/waterfall.ts";
import type { Cycle, RankCycle, RequestRow } from "../../lib/wire.ts";
import { hatch } from "./hatch.ts";

/** Height of the ruler above the rows. */
export const RULER = 18;
/** From here on the gutter carries number, time, and the names of the ranks. */
export const WIDE_GUTTER = 132;

const SMALL = "11px";
const NORMAL = "13px";
const LABEL_ROOM = 10;
/** Lanes of this height and more are opened, and have names in them. */
const NAMED = 18;
/** Below so many px to either side the clock's error cannot be seen; the gutter has it. */
const WHISKER = 3;
const DOT = 8;
const MOST_DOTS = 8;
const REQUEST_GAP = 8;
/** Room for a short text, such as the tokens that a cycle gave. */
const SLOT = 64;

type Rect = readonly [x: number, y: number, width: number, height: number];

/** One row to draw. */
export interface Row {
  readonly cycle: Cycle;
  readonly y: number;
  readonly bars: readonly Bar[];
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
}

/** Draws a scene onto a canvas whose units are CSS px. */
export function paint(ctx: CanvasRenderingContext2D, scene: Scene, font: string): void {
  new Painter(ctx, scene, font).all();
}

class Painter {
  readonly #ctx: CanvasRenderingContext2D;
  readonly #scene: Scene;
  readonly #family: string;

  constructor(ctx: CanvasRenderingContext2D, scene: Scene, family: string) {
    this.#ctx = ctx;
    this.#scene = scene;
    this.#family = family;
  }

  all(): void {
    const { width, height, gutter, rows } = this.#scene;
    this.#fill("bg", [0, 0, width, height]);
    if (gutter > 0) {
      this.#fill("bg2", [0, 0, gutter, height]);
    }
    for (const row of rows) {
      if (this.#isSelected(row.cycle)) {
        this.#fill("tint", [0, row.y, width, this.#scene.shape.height]);
      }
    }
    this.#grid();
    for (const row of rows) {
      this.#row(row);
    }
    this.#ruler();
    if (gutter > 0) {
      this.#fill("line", [gutter - 1, 0, 1, height]);
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
        this.#fill("line", [x, RULER, 1, bottom - RULER]);
      }
    }
  }

  #ruler(): void {
    const { gutter, width, view } = this.#scene;
    this.#fill("bg", [gutter, 0, width - gutter, RULER]);
    if (gutter > 0) {
      this.#fill("bg2", [0, 0, gutter, RULER]);
    }
    if (gutter >= WIDE_GUTTER) {
      this.#text("cycle", 16, 13, { tone: "ink3" });
      this.#text("time", gutter - 12, 13, { tone: "ink3", align: "right" });
    }
    const marks = this.#ticks();
    const step = this.#tickStep();
    for (const time of marks) {
      const x = gutter + Math.round(toX(time, view, this.#plot));
      const text = tickText(time, step, view.end);
      const half = this.#measure(text, SMALL) / 2;
      if (time === 0) {
        this.#text(text, x + 4, 13, { tone: "ink3" });
      } else if (x - half > gutter + 12 && x + half < width - 4) {
        this.#text(text, x, 13, { tone: "ink3", align: "center" });
      }
      this.#fill("line2", [x, RULER - 3, 1, 3]);
    }
    this.#fill("line", [0, RULER - 1, width, 1]);
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
    const ctx = this.#ctx;
    if (gutter >= WIDE_GUTTER) {
      this.#names(row);
    } else if (gutter > 0) {
      for (const [place, name] of ranks.entries()) {
        const lane = shape.ranks[place]?.host;
        if (lane) {
          const shown = this.#fit(name, gutter - 12);
          this.#text(shown, 8, row.y + middle(lane), { tone: "ink3" });
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
    for (const bar of row.bars) {
      this.#bar(bar, row);
    }
    this.#foreign(row);
    ctx.restore();
    this.#fill("line", [0, row.y + shape.height - 1, width, 1]);
    if (this.#isSelected(row.cycle)) {
      this.#fill("accent", [0, row.y, 2, shape.height - 1]);
    }
  }

  #names({ cycle, y }: Row): void {
    const { gutter, shape, ranks } = this.#scene;
    const right = gutter - 12;
    const n = this.#text(whole(cycle.n), 16, y + 17, { size: NORMAL, weight: 600 });
    const time = cycleMs(cycle);
    const fits = this.#measure(ms(time), NORMAL) <= right - 16 - n - 8;
    this.#text(fits ? ms(time) : msShort(time), right, y + 17, { size: NORMAL, align: "right" });
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
          ? this.#text("host", right, base, { tone: "ink3", align: "right" }) + 8
          : this.#late(by, worst, right, base);
      this.#text(this.#fit(name, right - 16 - taken), 16, base, { tone: "ink3" });
      const rank = cycle.ranks.find((each) => each.rank === name);
      if (lanes.device && lanes.device.height >= NAMED) {
        this.#deviceNames(rank, lanes.device, y, right);
      }
    }
  }

  /** Below the opened rank's name: its device lane, and how well its place is known. */
  #deviceNames(rank: RankCycle | undefined, lane: Lane, y: number, right: number): void {
    this.#text("device", right, y + middle(lane), { tone: "ink3", align: "right" });
    const error = rank?.clockErrorNs ?? null;
    if (error !== null && lane.partsHeight > 0) {
      const base = y + lane.partsY + lane.partsHeight / 2 + 4;
      this.#text(`clock ± ${ns(error)}`, right, base, { tone: "ink3", align: "right" });
    }
  }

  /** Writes by how much a rank is late, the worst one bold; returns the room that it took. */
  #late(by: number | undefined, worst: number, right: number, base: number): number {
    if (by === undefined) {
      return 0;
    }
    const last = by === worst && by > 0;
    const how = { tone: last ? "ink" : "ink3", weight: last ? 600 : 400, align: "right" } as const;
    return this.#text(lateMs(by), right, base, how) + 8;
  }

  #header({ cycle, y }: Row): void {
    const { gutter, width } = this.#scene;
    const base = y + 17;
    let x = gutter + 8;
    let end = width - 12;
    const narrow = gutter < WIDE_GUTTER;
    if (narrow) {
      x = 12;
      x += this.#text(whole(cycle.n), x, base, { size: NORMAL, weight: 600 }) + 8;
      end -= this.#text(ms(cycleMs(cycle)), end, base, { size: NORMAL, align: "right" }) + 12;
    }
    if (!narrow || cycle.kind !== this.#scene.usualKind) {
      x += this.#kind(cycle.kind, x, y) + 8;
    }
    x += this.#timing(cycle, x, y);
    const padded = narrow ? null : paddedInWords(cycle);
    const batch = `batch ${whole(cycle.batch)}${padded === null ? "" : ` ${padded}`}`;
    x += this.#text(batch, x, base, { tone: "ink2" }) + 12;
    const mark = this.#foreignWords(cycle, end - x - SLOT);
    if (mark) {
      end -= this.#text(mark, end, base, { tone: "ink3", align: "right" }) + 12;
    }
    this.#gain(cycle, x, y, end);
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
    const fits = forms.find((form) => this.#measure(`◂ ${form}`, SMALL) < room);
    return fits ? `◂ ${fits}` : null;
  }

  #kind(kind: string, x: number, y: number): number {
    if (kind === this.#scene.usualKind) {
      return this.#text(kind, x, y + 17, { tone: "ink2" });
    }
    return this.#chip(kind, x, y);
  }

  #chip(words: string, x: number, y: number, warns = false): number {
    const width = this.#measure(words, SMALL, 600) + 10;
    this.#fill(warns ? "warn" : "bg3", [x, y + 4, width, 17]);
    this.#outline(warns ? "warn" : "line2", [x, y + 4, width, 17]);
    this.#text(words, x + 5, y + 17, { weight: 600, tone: warns ? "warn-ink" : "ink" });
    return width;
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
    return this.#chip(slows ? `▲ ${words}` : words, x, y, slows) + 8;
  }

  #gain(cycle: Cycle, from: number, y: number, end: number): void {
    let x = from;
    const rows = servedRows(cycle).filter((row) => row.correct !== null);
    const words = gainInWords(cycle);
    const room = end - x - this.#measure(words, SMALL) - 8;
    const each = cycle.steps * DOT + 9 + REQUEST_GAP;
    const long = cycle.steps > MOST_DOTS;
    const shown = long ? 0 : shownRequests(rows.length, room, each, SLOT);
    for (const row of rows.slice(0, shown)) {
      this.#dots(row, cycle.steps, x, y + 13);
      x += each;
    }
    if (shown > 0 && shown < rows.length) {
      x += this.#text(`${whole(rows.length - shown)} more`, x, y + 17, { tone: "ink3" }) + 8;
    }
    if (long && rows.length > 0) {
      const correct = rows.reduce((sum, row) => sum + (row.correct ?? 0), 0);
      const drafts = `${whole(correct)} of ${whole(rows.length * cycle.steps)} drafts`;
      x += this.#text(drafts, x, y + 17, { tone: "ink2" }) + 8;
    }
    if (x + this.#measure(words, SMALL) <= end) {
      const known = cycleTokens(cycle) !== null;
      this.#text(words, x, y + 17, { tone: known ? "ink" : "ink3" });
    }
  }

  #dots(row: RequestRow, steps: number, x: number, y: number): void {
    const ctx = this.#ctx;
    const correct = row.correct ?? 0;
    for (let place = 0; place < steps; place += 1) {
      const accepted = place < correct;
      ctx.beginPath();
      ctx.arc(x + 4 + place * DOT, y, accepted ? 3 : 2.5, 0, 2 * Math.PI);
      if (accepted) {
        ctx.fillStyle = this.#colour("ink");
        ctx.fill();
      } else {
        ctx.strokeStyle = this.#colour("ink3");
        ctx.lineWidth = 1;
        ctx.stroke();
      }
    }
    if (row.overshoot) {
      return;
    }
    const left = x + steps * DOT + 1;
    ctx.fillStyle = this.#colour("accent");
    ctx.beginPath();
    ctx.moveTo(left, y);
    ctx.lineTo(left + 3.5, y - 3.5);
    ctx.lineTo(left + 7, y);
    ctx.lineTo(left + 3.5, y + 3.5);
    ctx.fill();
  }

  /** What the lanes of a rank say where they have no bars. */
  #lanes({ cycle, y }: Row, name: string, { host, device }: RankShape): void {
    const { gutter } = this.#scene;
    const rank = cycle.ranks.find((each) => each.rank === name);
    if (!rank) {
      this.#text("no record of this cycle", gutter + 8, y + middle(host), { tone: "bad" });
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
      this.#fill("bg3", [start, y + lane.y, end - start, lane.height]);
      this.#outline("line2", [start, y + lane.y, end - start, lane.height]);
      this.#text("not divided into phases", start + 5, base, { tone: "ink2" });
    }
    const after: string[] = [];
    if (rank.incomplete) {
      after.push("incomplete");
    }
    if (rank.endedIdle && lane.height >= NAMED) {
      after.push("then idle");
    }
    if (after.length > 0) {
      this.#text(after.join(", "), end + 6, base, { tone: rank.incomplete ? "bad" : "ink3" });
    }
  }

  /** A lane that is not whole is never just empty. */
  #deviceSays(rank: RankCycle, lane: Lane, y: number): void {
    const words = deviceInWords(rank);
    if (words === null) {
      this.#whisker(rank, lane, y);
      return;
    }
    const end = phasesOf(rank, "device").at(-1)?.end ?? rank.start;
    const known = deviceKnown(rank);
    const tone = known === "missing" || known === "incomplete" ? "bad" : "ink3";
    this.#text(words, this.#xOf(end) + 6, y + middle(lane), { tone });
  }

  /** By how much the whole lane may be shifted, below its first boundary, once that can be seen. */
  #whisker(rank: RankCycle, lane: Lane, y: number): void {
    const first = phasesOf(rank, "device")[0];
    const error = rank.clockErrorNs ?? 0;
    if (!first || lane.height < NAMED) {
      return;
    }
    const [from, to] = [this.#xOf(first.start - error), this.#xOf(first.start + error)];
    if (to - from > 2 * WHISKER) {
      const base = y + lane.y - 3;
      this.#fill("ink2", [from, base, to - from, 1]);
      this.#fill("ink2", [from, base - 2, 1, 5]);
      this.#fill("ink2", [to - 1, base - 2, 1, 5]);
    }
  }

  /** A time in ns from the cycle's start as px of the canvas. */
  #xOf(time: number): number {
    return this.#scene.gutter + Math.round(toX(time / 1e6, this.#scene.view, this.#plot));
  }

  #bar(bar: Bar, row: Row): void {
    const { gutter, hovered, focused } = this.#scene;
    const ctx = this.#ctx;
    const x = gutter + bar.x;
    const y = row.y + bar.y;
    ctx.globalAlpha = bar === hovered ? 0.85 : 1;
    this.#body(bar, x, y);
    this.#label(bar, x, y, row.cycle);
    ctx.globalAlpha = 1;
    if (bar === focused) {
      ctx.strokeStyle = this.#colour("accent");
      ctx.lineWidth = 2;
      ctx.strokeRect(x - 2, y - 2, bar.width + 4, bar.height + 4);
    }
  }

  /** Filled is the device, outlined is the host, hatched is nobody. */
  #body(bar: Bar, x: number, y: number): void {
    const { theme } = this.#scene;
    const ctx = this.#ctx;
    const { name, lane, hostLate } = bar.stretch;
    const { fill } = phaseColour(name, theme);
    const box = [x, y, bar.width, bar.height] as const;
    if (name === GAP) {
      hatch(ctx, box, this.#colour("gap"), hostLate === null ? "x" : "/");
      this.#edge(bar, x, y, this.#colour("gap"));
    } else if (name === EARLIER) {
      this.#fill("bg3", box);
      this.#edge(bar, x, y, this.#colour("edge"));
    } else if (bar.solid || lane === "device") {
      ctx.fillStyle = fill;
      ctx.fillRect(...box);
    } else {
      ctx.fillStyle = hostFill(name, theme);
      ctx.fillRect(...box);
      this.#edge(bar, x, y, fill);
    }
  }

  /** An edge outside the plot is not drawn: the bar goes on there. */
  #edge(bar: Bar, x: number, y: number, stroke: string): void {
    const ctx = this.#ctx;
    const left = bar.cutLeft ? x - 2 : x;
    const right = x + bar.width + (bar.cutRight ? 3 : 0);
    if (right - left >= 3) {
      ctx.strokeStyle = stroke;
      ctx.lineWidth = 1;
      ctx.strokeRect(left + 0.5, y + 0.5, right - left - 1, bar.height - 1);
    }
  }

  #label(bar: Bar, x: number, y: number, cycle: Cycle): void {
    const { name, lane, start, end, ofCycle } = bar.stretch;
    if (bar.stretch.level === 0 && bar.height < NAMED) {
      return;
    }
    const short = phaseLabel(name).replace(/^.*\./, "");
    const long = `${short} ${ms(end - start)}`;
    const forms =
      ofCycle === cycle.n ? [long, short] : [`${long}, of cycle ${whole(ofCycle)}`, long, short];
    if (name === EARLIER) {
      forms.splice(0, forms.length, `still on cycle ${whole(ofCycle)}`, `cycle ${whole(ofCycle)}`);
    }
    const text = forms.find((form) => this.#measure(form, SMALL) + LABEL_ROOM < bar.width);
    if (!text) {
      return;
    }
    if (name === GAP) {
      // Text over a hatch needs a plate.
      this.#fill("bg", [x + 3, y + 2, this.#measure(text, SMALL) + 4, bar.height - 4]);
    }
    const filled = lane === "device" && name !== GAP && name !== EARLIER;
    const ink = filled ? phaseColour(name, this.#scene.theme).label : this.#colour("ink");
    this.#text(text, x + 5, y + bar.height / 2 + 4, { ink });
  }

  /** A bracket over what was done for an earlier cycle, with its arrow back to it. */
  #foreign(row: Row): void {
    const { gutter } = this.#scene;
    const ctx = this.#ctx;
    const marked = row.bars
      .filter(
        ({ stretch, height }) =>
          stretch.lane === "host" &&
          stretch.level === 0 &&
          height >= NAMED &&
          stretch.ofCycle !== row.cycle.n,
      )
      .toSorted((one, other) => one.x - other.x);
    let end = Number.NEGATIVE_INFINITY;
    ctx.fillStyle = this.#colour("ink3");
    for (const bar of marked) {
      const x = gutter + bar.x;
      const y = row.y + bar.y - 3;
      const goesOn = x <= end + 8;
      const from = goesOn ? end : x;
      ctx.fillRect(from, y, x + bar.width - from, 1);
      if (!goesOn) {
        ctx.beginPath();
        ctx.moveTo(x - 1, y + 0.5);
        ctx.lineTo(x + 4, y - 2.5);
        ctx.lineTo(x + 4, y + 3.5);
        ctx.fill();
      }
      end = x + bar.width;
    }
  }

  #colour(name: ColourName): string {
    return colour(name, this.#scene.theme);
  }

  #fill(name: ColourName, rect: Rect): void {
    this.#ctx.fillStyle = this.#colour(name);
    this.#ctx.fillRect(...rect);
  }

  #outline(name: ColourName, [x, y, width, height]: Rect): void {
    this.#ctx.strokeStyle = this.#colour(name);
    this.#ctx.lineWidth = 1;
    this.#ctx.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  }

  #measure(text: string, size: string, weight = 400): number {
    this.#ctx.font = `${weight} ${size} ${this.#family}`;
    return this.#ctx.measureText(text).width;
  }

  /** What of a text fits. */
  #fit(text: string, room: number): string {
    return fitText(text, room, (part) => this.#measure(part, SMALL));
  }

  /** Writes a line and returns its width. */
  #text(
    text: string,
    x: number,
    y: number,
    how: {
      readonly tone?: ColourName;
      /** A colour that is no token, in the tone's place. */
      readonly ink?: string;
      readonly size?: string;
      readonly weight?: number;
      readonly align?: CanvasTextAlign;
    },
  ): number {
    const ctx = this.#ctx;
    const width = this.#measure(text, how.size ?? SMALL, how.weight);
    ctx.fillStyle = how.ink ?? this.#colour(how.tone ?? "ink");
    ctx.textAlign = how.align ?? "left";
    ctx.fillText(text, x, y);
    return width;
  }
}

/** The baseline of a text in the middle of a lane. */
function middle(lane: Lane): number {
  return lane.y + lane.height / 2 + 4;
}
