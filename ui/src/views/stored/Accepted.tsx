// What verify accepted in the picked cycles: by position, and how many tokens it gave.
import { estimateText } from "../../lib/estimate.ts";
import { shareCell, whole } from "../../lib/format.ts";
import type { Accepted as Found } from "../../lib/spread.ts";
import { Term } from "../Card.tsx";
import { PositionChart, PositionTable } from "../verdict/PositionChart.tsx";
import { PositionsHead, useSetting } from "../verdict/PositionsHead.tsx";

/** One setting at a time; nothing where nothing was verified. */
export function Accepted({ found }: { readonly found: readonly Found[] }) {
  const chosen = useSetting(found);
  const { one } = chosen;
  if (!one) {
    return null;
  }
  return (
    <>
      <section class="part" aria-label="Accepted at each position">
        <PositionsHead
          about="Of the verifies in which all drafts before a position were correct, the share in which that one was too. Whiskers are Wilson's interval at 95 %."
          chosen={chosen}
        />
        <PositionChart positions={one.positions} />
        <PositionTable positions={one.positions} />
      </section>
      <Lengths one={one} />
    </>
  );
}

function Lengths({ one }: { readonly one: Found }) {
  const most = Math.max(1, ...one.histogram);
  return (
    <section class="part" aria-label="Accept length">
      <div class="between">
        <h3>
          <Term about="(correct drafts + verifies) / verifies: a verify gives one token more than it found drafts correct.">
            Accept length
          </Term>
        </h3>
        <span class="caption">mean {estimateText(one.acceptLength)} tokens</span>
      </div>
      <table class="lengths">
        <thead class="unseen">
          <tr>
            <th scope="col">tokens</th>
            <th scope="col">picture</th>
            <th scope="col">verifies</th>
            <th scope="col">share</th>
          </tr>
        </thead>
        <tbody>
          {one.histogram.map((count, correct) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the place is what it is about
            <tr key={correct}>
              <th scope="row">{correct + 1}</th>
              <td>
                <i style={{ width: `${(count / most) * 100}%` }} />
              </td>
              <td>{whole(count)}</td>
              <td>{shareCell(one.verifies > 0 ? count / one.verifies : 0)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
