// How often the draft at each position is accepted, if all before it were: bars, and their counts.
import { percentText } from "../../lib/estimate.ts";
import { share, whole } from "../../lib/format.ts";
import { xOf, yOf } from "../../lib/plot.ts";
import type { Position } from "../../lib/report.ts";
import { Plot, Whisker } from "./Plot.tsx";
import { Sideways } from "./Sideways.tsx";

const RANGE = { start: 0, end: 100 } as const;
const WIDEST = 56;

/** A bar for each position with the interval of its share. */
export function PositionChart({ positions }: { readonly positions: readonly Position[] }) {
  const words = positions.map(
    ({ place, conditional }) => `position ${place} ${share(conditional.value)}`,
  );
  return (
    <Plot
      label={`Accepted if reached: ${words.join(", ")}`}
      height={168}
      range={RANGE}
      at={[0, 25, 50, 75, 100]}
      unit=" %"
    >
      {(frame) => {
        const along = { start: 0.5, end: positions.length + 0.5 };
        const room = xOf(frame, along, 2) - xOf(frame, along, 1);
        const wide = Math.min(WIDEST, room * 0.7);
        return positions.map(({ place, conditional }) => {
          const x = xOf(frame, along, place);
          const y = yOf(frame, RANGE, conditional.value * 100);
          return (
            <g key={place}>
              <rect
                class="count"
                x={x - wide / 2}
                y={y}
                width={wide}
                height={yOf(frame, RANGE, 0) - y}
              />
              <Whisker frame={frame} range={RANGE} x={x} estimate={inPercent(conditional)} />
              <text class="tick" x={x} y={frame.height - 8} text-anchor="middle">
                {place}
              </text>
            </g>
          );
        });
      }}
    </Plot>
  );
}

/** The same in numbers. */
export function PositionTable({ positions }: { readonly positions: readonly Position[] }) {
  return (
    <Sideways label="Acceptance by position">
      <table>
        <thead>
          <tr>
            <th scope="col">position</th>
            <th scope="col">reached</th>
            <th scope="col">accepted</th>
            <th scope="col">if reached</th>
          </tr>
        </thead>
        <tbody>
          {positions.map(({ place, reached, accepted, conditional }) => (
            <tr key={place}>
              <th scope="row">{place}</th>
              <td>{whole(reached)}</td>
              <td>{whole(accepted)}</td>
              <td>{percentText(conditional)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Sideways>
  );
}

function inPercent({ value, low, high }: Position["conditional"]) {
  return {
    value: value * 100,
    low: low === null ? null : low * 100,
    high: high === null ? null : high * 100,
  };
}
