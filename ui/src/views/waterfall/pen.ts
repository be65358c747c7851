// Draws words and boxes on a canvas in the colours of the page.
import { fitText } from "../../lib/format.ts";
import { type ColourName, colour, type Theme } from "../../lib/tokens.ts";

export const SMALL = "11px";
export const NORMAL = "13px";

/** A box in px. */
export type Rect = readonly [x: number, y: number, width: number, height: number];

/** The units of its canvas are CSS px. */
export class Pen {
  readonly ctx: CanvasRenderingContext2D;
  readonly theme: Theme;
  readonly #family: string;

  constructor(ctx: CanvasRenderingContext2D, theme: Theme, family: string) {
    this.ctx = ctx;
    this.theme = theme;
    this.#family = family;
  }

  /** A colour of the page in the theme that is drawn. */
  colour(name: ColourName): string {
    return colour(name, this.theme);
  }

  /** Fills a box. */
  fill(name: ColourName, rect: Rect): void {
    this.ctx.fillStyle = this.colour(name);
    this.ctx.fillRect(...rect);
  }

  /** Draws the edge of a box, inside of it. */
  outline(name: ColourName, [x, y, width, height]: Rect): void {
    this.ctx.strokeStyle = this.colour(name);
    this.ctx.lineWidth = 1;
    this.ctx.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  }

  /** How wide a line of text is, in px. */
  measure(text: string, size: string, weight = 400): number {
    this.ctx.font = `${weight} ${size} ${this.#family}`;
    return this.ctx.measureText(text).width;
  }

  /** What of a text fits. */
  fit(text: string, room: number): string {
    return fitText(text, room, (part) => this.measure(part, SMALL));
  }

  /** Writes a line and returns its width. */
  text(
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
    const ctx = this.ctx;
    const width = this.measure(text, how.size ?? SMALL, how.weight);
    ctx.fillStyle = how.ink ?? this.colour(how.tone ?? "ink");
    ctx.textAlign = how.align ?? "left";
    ctx.fillText(text, x, y);
    return width;
  }

  /** A word in a frame; returns its width. */
  chip(words: string, x: number, y: number, warns = false): number {
    const width = this.measure(words, SMALL, 600) + 10;
    this.fill(warns ? "warn" : "bg3", [x, y + 4, width, 17]);
    this.outline(warns ? "warn" : "line2", [x, y + 4, width, 17]);
    this.text(words, x + 5, y + 17, { weight: 600, tone: warns ? "warn-ink" : "ink" });
    return width;
  }
}
