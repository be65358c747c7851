// The frame of a small chart: its size as the page leaves it, the axis at its left, and whiskers.
import type { ComponentChildren } from "preact";
import { decimalsOf, type Range } from "../../lib/axis.ts";
import { type Estimate, reachOf } from "../../lib/estimate.ts";
import { fixed } from "../../lib/format.ts";
import { type Frame, yOf } from "../../lib/plot.ts";
import { useWidth } from "../width.ts";

const EDGES = { left: 40, right: 12, top: 16, bottom: 24 } as const;

/** Draws what `children` give for the frame, over the lines of the axis. `label` says it in words. */
export function Plot(props: {
  readonly label: string;
  readonly height: number;
  readonly range: Range;
  readonly at: readonly number[];
  readonly unit?: string;
  readonly children: (frame: Frame) => ComponentChildren;
}) {
  const { label, height, range, at, unit = "", children } = props;
  const [box, width] = useWidth();
  const frame = { ...EDGES, width, height };
  const decimals = at.length > 1 ? decimalsOf((at[1] ?? 0) - (at[0] ?? 0)) : 0;
  return (
    <div class="chart" ref={box} style={{ height: `${height}px` }}>
      {width > 0 && (
        <svg width={width} height={height} role="img" aria-label={label}>
          {at.map((tick) => (
            <g key={tick}>
              <line
                class="grid"
                x1={frame.left}
                x2={width - frame.right}
                y1={yOf(frame, range, tick)}
                y2={yOf(frame, range, tick)}
              />
              <text
                class="tick"
                x={frame.left - 8}
                y={yOf(frame, range, tick) + 4}
                text-anchor="end"
              >
                {fixed(tick, decimals)}
                {unit}
              </text>
            </g>
          ))}
          {children(frame)}
        </svg>
      )}
    </div>
  );
}

/** The interval of a value that stands at `x`; nothing where there is none. */
export function Whisker(props: {
  readonly frame: Frame;
  readonly range: Range;
  readonly x: number;
  readonly estimate: Estimate;
  readonly class?: string;
}) {
  const { frame, range, x, estimate } = props;
  const reach = reachOf(estimate);
  if (!reach) {
    return null;
  }
  const [low, high] = reach.map((limit) => yOf(frame, range, limit)) as [number, number];
  return (
    <path
      class={props.class ?? "whisker"}
      d={`M${x} ${low}V${high}M${x - 4} ${low}h8M${x - 4} ${high}h8`}
    />
  );
}
