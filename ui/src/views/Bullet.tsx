// A bar of tokens on a scale from 1 on, with its interval and the mark that it has to reach.

import type { Estimate } from "../lib/estimate.ts";
import { reachOf } from "../lib/estimate.ts";
import { length } from "../lib/format.ts";

const MOST_MARKS = 7;

/** `most` ends the scale; what lies beyond stands at its end. `even` is the break-even. */
export function Bullet(props: {
  readonly value: number;
  readonly most: number;
  readonly estimate?: Estimate | null;
  readonly even?: Estimate | null;
}) {
  const { value, most, estimate = null, even = null } = props;
  const share = (tokens: number) =>
    `${Math.max(0, Math.min(100, ((tokens - 1) / (most - 1)) * 100))}%`;
  const step = Math.ceil((most - 1) / MOST_MARKS);
  const marks = Array.from({ length: most }, (_, place) => place + 1).filter(
    (mark) => mark === most || ((mark - 1) % step === 0 && most - mark >= step),
  );
  const reach = estimate && reachOf(estimate);
  const against = even ? `, break-even at ${length(even.value)}` : "";
  return (
    <div
      class="bullet"
      role="img"
      aria-label={`accept length ${length(value)} on a scale of 1 to ${most}${against}`}
    >
      <div class="bullet-track">
        <div class="bullet-bar" style={{ width: share(value) }} />
        {reach && (
          <div
            class="bullet-reach"
            style={{
              left: share(reach[0]),
              right: `calc(100% - ${share(reach[1])})`,
            }}
          />
        )}
        {even && <div class="bullet-even" style={{ left: share(even.value) }} />}
      </div>
      <div class="bullet-scale caption">
        {marks.map((mark) => (
          <span key={mark} style={{ left: share(mark) }}>
            {mark}
          </span>
        ))}
      </div>
    </div>
  );
}
