// A hatch on a canvas: what stands where nobody worked.

const APART = 5;
const WIDTH = 1.6;

/** Which way the lines lean: `/` is known to be the host's, both ways is of unknown cause. */
export type Lean = "/" | "x";

/** Fills a box with lines of `ink`; they keep their place while the box moves past them. */
export function hatch(
  ctx: CanvasRenderingContext2D,
  [x, y, width, height]: readonly [number, number, number, number],
  ink: string,
  lean: Lean,
): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, width, height);
  ctx.clip();
  ctx.beginPath();
  ctx.strokeStyle = ink;
  ctx.lineWidth = WIDTH / Math.SQRT2;
  const apart = APART * Math.SQRT2;
  for (let at = x - height; at < x + width; at += apart) {
    ctx.moveTo(at, y + height);
    ctx.lineTo(at + height, y);
    if (lean === "x") {
      ctx.moveTo(at, y);
      ctx.lineTo(at + height, y + height);
    }
  }
  ctx.stroke();
  ctx.restore();
}
