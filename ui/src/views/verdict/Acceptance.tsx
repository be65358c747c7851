// How often the draft at each position is accepted, if all before it were.
import { useSignal } from "@preact/signals";
import { estimateText, percentText } from "../../lib/estimate.ts";
import { length, share, whole } from "../../lib/format.ts";
import { xOf, yOf } from "../../lib/plot.ts";
import type { Acceptance as Accepted, Position } from "../../lib/report.ts";
import { settingKey } from "../../lib/report.ts";
import { settingInWords } from "../../lib/verdict.ts";
import { Term } from "../Card.tsx";
import { Plot, Whisker } from "./Plot.tsx";
import { Sideways } from "./Sideways.tsx";
import { Slices } from "./Slices.tsx";

const RANGE = { start: 0, end: 100 } as const;
const WIDEST = 56;

/** A bar for each position with Wilson's interval, its counts, and the lengths by definition. */
export function Acceptance({ found }: { readonly found: readonly Accepted[] }) {
  const chosen = useSignal("");
  const one = found.find(({ setting }) => settingKey(setting) === chosen.value) ?? found[0];
  return (
    <section class="part">
      <div class="between">
        <h3>
          <Term about="Of the verifies in which all drafts before a position were correct, the share in which that one was too. A verify that was cut counts up to the cut. Whiskers are Wilson's interval at 95 %.">
            Accepted at each position
          </Term>{" "}
          <span class="caption">if reached</span>
        </h3>
        {found.length > 1 && (
          <select
            aria-label="Setting"
            value={one && settingKey(one.setting)}
            onChange={(event) => {
              chosen.value = event.currentTarget.value;
            }}
          >
            {found.map(({ setting }) => (
              <option key={settingKey(setting)} value={settingKey(setting)}>
                {settingInWords(setting)}
              </option>
            ))}
          </select>
        )}
      </div>
      {one ? <Positions one={one} /> : <p class="soft">Nothing was verified.</p>}
    </section>
  );
}

function Positions({ one }: { readonly one: Accepted }) {
  const { positions } = one;
  const words = positions.map(
    ({ place, conditional }) => `position ${place} ${share(conditional.value)}`,
  );
  return (
    <>
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
      <Lengths one={one} />
      <Slices one={one} />
    </>
  );
}

function Lengths({ one }: { readonly one: Accepted }) {
  return (
    <dl class="facts">
      <div>
        <dt>
          <Term about="(correct drafts + verifies) / verifies. vLLM's mean acceptance length is the same.">
            accept length
          </Term>
        </dt>
        <dd>
          <b>{estimateText(one.acceptLength)}</b>
        </dd>
      </div>
      <div>
        <dt>
          <Term about="spec_accept_length: completion tokens / verifies. It counts the token of the prefill and the cut at the token limit.">
            SGLang's
          </Term>
        </dt>
        <dd>
          <b>{length(one.serverAcceptLength)}</b>
        </dd>
      </div>
      <div>
        <dt>
          <Term about="Correct drafts / drafts, vLLM's draft acceptance rate.">
            drafts accepted
          </Term>
        </dt>
        <dd>
          <b>{share(one.draftsAccepted)}</b>
        </dd>
      </div>
      <div>
        <dt>
          <Term about="Requests verified, cycle by cycle, without overshoot and health checks; and of how many a request got less than was correct.">
            verifies
          </Term>
        </dt>
        <dd>
          <b>
            {whole(one.verifies)}, {whole(one.cut)} cut
          </b>
        </dd>
      </div>
    </dl>
  );
}

function inPercent({ value, low, high }: Position["conditional"]) {
  return {
    value: value * 100,
    low: low === null ? null : low * 100,
    high: high === null ? null : high * 100,
  };
}
