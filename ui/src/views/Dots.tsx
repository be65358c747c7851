// Accepted drafts of one request: a filled circle each, rings for rejected ones, a diamond for
// the bonus token.
import type { RequestRow } from "../lib/wire.ts";

const MOST = 8;
const STEP = 8;

/** Dots of a row; nothing where the cycle verified nothing for it. */
export function Dots({ row, steps }: { readonly row: RequestRow; readonly steps: number }) {
  const { correct } = row;
  if (correct === null || steps === 0) {
    return <span class="dim">–</span>;
  }
  const words = `${correct} of ${steps}`;
  if (steps > MOST) {
    return <span>{words}</span>;
  }
  const width = steps * STEP + 10;
  const diamond = steps * STEP + 1;
  return (
    <svg class="dots" width={width} height="10" role="img" aria-label={`${words} drafts accepted`}>
      <path d={circles(0, correct, 3)} fill="var(--ink)" />
      <path d={circles(correct, steps, 2.5)} fill="none" stroke="var(--ink3)" />
      {!row.overshoot && (
        <path d={`M${diamond} 5l3.5 -3.5 3.5 3.5 -3.5 3.5z`} fill="var(--accent)" />
      )}
    </svg>
  );
}

/** The circles at places `from` to `to` (not among them) as a path. */
function circles(from: number, to: number, radius: number): string {
  const wide = 2 * radius;
  return Array.from({ length: Math.max(0, to - from) }, (_, place) => {
    const left = 4 + (from + place) * STEP - radius;
    return `M${left} 5a${radius} ${radius} 0 1 0 ${wide} 0a${radius} ${radius} 0 1 0 ${-wide} 0z`;
  }).join("");
}
