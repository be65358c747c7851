// Stacked bars below each other on one axis of ms that begins at 0.
import { ticks, tickText } from "../../lib/axis.ts";
import { xOf } from "../../lib/plot.ts";
import { endOf, type Piece } from "../../lib/stack.ts";
import { phaseProperty } from "../../lib/tokens.ts";
import { useWidth } from "../width.ts";

const AXIS = 20;
/** Between a bar and the words behind it. */
const APART = 6;
const TICK_ROOM = 90;

/** One bar. */
export interface StackedBar {
  readonly name: string;
  readonly pieces: readonly Piece[];
  /** Of the device; else of the host, and outlined. */
  readonly filled: boolean;
  /** Behind it. */
  readonly words: string;
}

/** `label` says them in words. With `named` each has its name at the left too. Sizes are px. */
export function StackedBars(props: {
  readonly label: string;
  readonly bars: readonly StackedBar[];
  readonly named: boolean;
  readonly left: number;
  readonly right: number;
  /** Of a bar with what is free above and below it, and that. */
  readonly row: number;
  readonly free: number;
}) {
  const { label, bars, named, left, right, row, free } = props;
  const [box, width] = useWidth();
  const range = { start: 0, end: Math.max(1e-6, ...bars.map(({ pieces }) => endOf(pieces))) };
  const height = bars.length * row + AXIS;
  const frame = { width, height, left, right, top: 0, bottom: AXIS };
  const marks = ticks(range, Math.max(2, Math.floor(width / TICK_ROOM)));
  const step = (marks[1] ?? 1) - (marks[0] ?? 0);
  return (
    <div class="chart stacked" ref={box} style={{ height: `${height}px` }}>
      {width > 0 && (
        <svg width={width} height={height} role="img" aria-label={label}>
          {bars.map(({ name: bar, pieces, filled, words }, place) => (
            <g key={bar} transform={`translate(0 ${place * row})`}>
              {named && (
                <text class="name" x={0} y={row / 2 + 4}>
                  {bar}
                </text>
              )}
              {pieces.map(({ name, from, to }) => {
                const x = xOf(frame, range, from);
                return (
                  <rect
                    key={name ?? ""}
                    x={x}
                    y={free}
                    width={Math.max(0, xOf(frame, range, to) - x - 1)}
                    height={row - 2 * free}
                    style={fillOf(name, filled)}
                  />
                );
              })}
              <text x={xOf(frame, range, endOf(pieces)) + APART} y={row / 2 + 4}>
                {words}
              </text>
            </g>
          ))}
          {marks.map((at) => (
            <text
              key={at}
              class="tick"
              x={xOf(frame, range, at)}
              y={height - 4}
              text-anchor={at === 0 ? "start" : "middle"}
            >
              {tickText(at, step, range.end)}
            </text>
          ))}
        </svg>
      )}
    </div>
  );
}

function fillOf(name: string | null, filled: boolean) {
  const property = name ? phaseProperty(name) : null;
  return {
    fill: property ? `var(${property}${filled ? "" : "-pale"})` : "var(--bg3)",
    stroke: property ? `var(${property})` : "var(--gap)",
  };
}
