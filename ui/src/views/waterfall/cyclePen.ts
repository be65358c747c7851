// Draws the parts of a cycle that all pictures of cycles share: bars, brackets, whiskers, dots.
import { cycleTokens, gainInWords, servedRows } from "../../lib/cycle.ts";
import { ms, ns, whole } from "../../lib/format.ts";
import { type KernelBar, kernelAt, shortKernel } from "../../lib/kernels.ts";
import { phasesOf } from "../../lib/lanes.ts";
import { EARLIER, GAP, phaseLabel } from "../../lib/phases.ts";
import { hostFill, phaseColour } from "../../lib/tokens.ts";
import { type Bar, type Lane, type Line, shownRequests } from "../../lib/waterfall.ts";
import type { Cycle, RankCycle, RequestRow } from "../../lib/wire.ts";
import { hatch } from "./hatch.ts";
import type { KernelRow, LitKernel } from "./kernelRow.ts";
import { Pen, SMALL } from "./pen.ts";

/** Lanes of this height and more are opened, and have names in them. */
export const NAMED = 18;
/** Room for a short text, such as the tokens that a cycle gave. */
export const SLOT = 64;

const LABEL_ROOM = 10;
/** Below so many px to either side the clock's error cannot be seen; the gutter has it. */
const WHISKER = 3;
const DOT = 8;
const MOST_DOTS = 8;
const REQUEST_GAP = 8;
/** A kernel that is less wide has no room for a word. */
const WORDS_FROM = 36;
/** What runs beside the busiest stream is this high, at the bottom. */
const ASIDE = 4;

/** A place on the canvas, in px. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

/** Bars that stand out. */
export interface Lit {
  readonly hovered: Bar | null;
  readonly focused: Bar | null;
}

/** Kernels that stand out. */
export interface LitKernels {
  readonly hoveredKernel: LitKernel | null;
  readonly focusedKernel: LitKernel | null;
}

/** A pen that knows cycles. */
export class CyclePen extends Pen {
  /** A stretch of a cycle; `corner` is where the canvas has the bar's 0 and 0. */
  bar(bar: Bar, cycle: Cycle, corner: Point, lit: Lit): void {
    const ctx = this.ctx;
    const x = corner.x + bar.x;
    const y = corner.y + bar.y;
    ctx.globalAlpha = bar === lit.hovered ? 0.85 : 1;
    this.#body(bar, x, y);
    this.#label(bar, x, y, cycle);
    ctx.globalAlpha = 1;
    if (bar === lit.focused) {
      ctx.strokeStyle = this.colour("accent");
      ctx.lineWidth = 2;
      ctx.strokeRect(x - 2, y - 2, bar.width + 4, bar.height + 4);
    }
  }

  /** Filled is the device, outlined is the host, hatched is nobody. */
  #body(bar: Bar, x: number, y: number): void {
    const { theme } = this;
    const ctx = this.ctx;
    const { name, lane, hostLate } = bar.stretch;
    const { fill } = phaseColour(name, theme);
    const box = [x, y, bar.width, bar.height] as const;
    if (name === GAP) {
      hatch(ctx, box, this.colour("gap"), hostLate === null ? "x" : "/");
      this.#edge(bar, x, y, this.colour("gap"));
    } else if (name === EARLIER) {
      this.fill("bg3", box);
      this.#edge(bar, x, y, this.colour("edge"));
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
    const ctx = this.ctx;
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
    const text = forms.find((form) => this.measure(form, SMALL) + LABEL_ROOM < bar.width);
    if (!text) {
      return;
    }
    if (name === GAP) {
      // Text over a hatch needs a plate.
      this.fill("bg", [x + 3, y + 2, this.measure(text, SMALL) + 4, bar.height - 4]);
    }
    const filled = lane === "device" && name !== GAP && name !== EARLIER;
    const ink = filled ? phaseColour(name, this.theme).label : this.colour("ink");
    this.text(text, x + 5, y + bar.height / 2 + 4, { ink });
  }

  /** A bracket over what was done for an earlier cycle, with its arrow back to it. */
  foreign(bars: readonly Bar[], cycle: Cycle, corner: Point): void {
    const ctx = this.ctx;
    const marked = bars
      .filter(
        ({ stretch, height }) =>
          stretch.lane === "host" &&
          stretch.level === 0 &&
          height >= NAMED &&
          stretch.ofCycle !== cycle.n,
      )
      .toSorted((one, other) => one.x - other.x);
    let end = Number.NEGATIVE_INFINITY;
    ctx.fillStyle = this.colour("ink3");
    for (const bar of marked) {
      const x = corner.x + bar.x;
      const y = corner.y + bar.y - 3;
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

  /**
   * Kernels in the colour of their phase. Where several share a px they are as high as the part of
   * it that they cover; what runs at once with the busiest stream lies over its lower edge.
   */
  kernels(row: KernelRow, corner: Point, lit: LitKernels): void {
    const ctx = this.ctx;
    const y = corner.y + row.line.y;
    const { height } = row.line;
    for (const aside of [false, true]) {
      const own = row.bars.filter((bar) => bar.aside === aside);
      this.#kernelBoxes(own, { x: corner.x, y: y + height }, aside ? ASIDE : height, lit);
    }
    for (const bar of row.bars) {
      if (!bar.aside && bar.width >= WORDS_FROM) {
        this.#kernelLabel(row, bar, corner.x + bar.x, y + height / 2 + 4);
      }
    }
    const focused = lit.focusedKernel;
    if (focused?.row === row) {
      const { bar } = focused;
      ctx.strokeStyle = this.colour("accent");
      ctx.lineWidth = 2;
      ctx.strokeRect(corner.x + bar.x - 2, y - 2, bar.width + 4, height + 4);
    }
  }

  /** Bars that stand on a line, at most so high. */
  #kernelBoxes(bars: readonly KernelBar[], base: Point, most: number, lit: LitKernels): void {
    const ctx = this.ctx;
    let phase: string | null = null;
    for (const bar of bars) {
      const x = base.x + bar.x;
      const tall = Math.max(1, Math.round(bar.filled * most));
      if (bar.aside) {
        this.fill("bg", [x, base.y - tall - 1, bar.width, 1]);
      }
      // There are thousands, and a change of colour costs more than a bar.
      if (bar.phase !== phase || bar.aside) {
        phase = bar.phase;
        ctx.fillStyle = phaseColour(phase, this.theme).fill;
      }
      const pointed = bar === lit.hoveredKernel?.bar;
      if (pointed) {
        ctx.globalAlpha = 0.85;
      }
      ctx.fillRect(x, base.y - tall, bar.width, tall);
      if (pointed) {
        ctx.globalAlpha = 1;
      }
    }
  }

  #kernelLabel({ kernels }: KernelRow, bar: KernelBar, x: number, base: number): void {
    const { name, kernelClass, ns: time } = kernelAt(kernels, bar.places[0] ?? 0);
    const forms = [
      `${kernelClass} ${ns(time)}, ${shortKernel(name)}`,
      `${kernelClass} ${ns(time)}`,
      kernelClass,
    ];
    const text = forms.find((form) => this.measure(form, SMALL) + LABEL_ROOM < bar.width);
    if (text) {
      this.text(text, x + 5, base, { ink: phaseColour(bar.phase, this.theme).label });
    }
  }

  /** By how much the whole lane may be shifted, below its first boundary, once that can be seen. */
  whisker(rank: RankCycle, lane: Lane, y: number, xOf: (ns: number) => number): void {
    const first = phasesOf(rank, "device")[0];
    const error = rank.clockErrorNs ?? 0;
    if (!first || lane.height < NAMED) {
      return;
    }
    const [from, to] = [xOf(first.start - error), xOf(first.start + error)];
    if (to - from > 2 * WHISKER) {
      const base = y + lane.y - 3;
      this.fill("ink2", [from, base, to - from, 1]);
      this.fill("ink2", [from, base - 2, 1, 5]);
      this.fill("ink2", [to - 1, base - 2, 1, 5]);
    }
  }

  /** Accepted drafts as dots, and the tokens in words, as much as fits from `from` to `end`. */
  gain(cycle: Cycle, from: number, y: number, end: number): void {
    let x = from;
    const rows = servedRows(cycle).filter((row) => row.correct !== null);
    const words = gainInWords(cycle);
    const room = end - x - this.measure(words, SMALL) - 8;
    const each = cycle.steps * DOT + 9 + REQUEST_GAP;
    const long = cycle.steps > MOST_DOTS;
    const shown = long ? 0 : shownRequests(rows.length, room, each, SLOT);
    for (const row of rows.slice(0, shown)) {
      this.#dots(row, cycle.steps, x, y + 13);
      x += each;
    }
    if (shown > 0 && shown < rows.length) {
      x += this.text(`${whole(rows.length - shown)} more`, x, y + 17, { tone: "ink3" }) + 8;
    }
    if (long && rows.length > 0) {
      const correct = rows.reduce((sum, row) => sum + (row.correct ?? 0), 0);
      const drafts = `${whole(correct)} of ${whole(rows.length * cycle.steps)} drafts`;
      x += this.text(drafts, x, y + 17, { tone: "ink2" }) + 8;
    }
    if (x + this.measure(words, SMALL) <= end) {
      const known = cycleTokens(cycle) !== null;
      this.text(words, x, y + 17, { tone: known ? "ink" : "ink3" });
    }
  }

  #dots(row: RequestRow, steps: number, x: number, y: number): void {
    const ctx = this.ctx;
    const correct = row.correct ?? 0;
    for (let place = 0; place < steps; place += 1) {
      const accepted = place < correct;
      ctx.beginPath();
      ctx.arc(x + 4 + place * DOT, y, accepted ? 3 : 2.5, 0, 2 * Math.PI);
      if (accepted) {
        ctx.fillStyle = this.colour("ink");
        ctx.fill();
      } else {
        ctx.strokeStyle = this.colour("ink3");
        ctx.lineWidth = 1;
        ctx.stroke();
      }
    }
    if (row.overshoot) {
      return;
    }
    const left = x + steps * DOT + 1;
    ctx.fillStyle = this.colour("accent");
    ctx.beginPath();
    ctx.moveTo(left, y);
    ctx.lineTo(left + 3.5, y - 3.5);
    ctx.lineTo(left + 7, y);
    ctx.lineTo(left + 3.5, y + 3.5);
    ctx.fill();
  }
}

/** The baseline of a text in the middle of a lane, or of another line. */
export function middle({ y, height }: Line): number {
  return y + height / 2 + 4;
}
