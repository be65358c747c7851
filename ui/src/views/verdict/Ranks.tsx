// How far the ranks lie apart, and which one the others wait for.
import { estimateText } from "../../lib/estimate.ts";
import { phaseLabel } from "../../lib/phases.ts";
import { type Skew, shownPhase, skewInWords } from "../../lib/skew.ts";
import { Term } from "../Card.tsx";
import { Sideways } from "./Sideways.tsx";

/** Nothing where there is one rank alone. */
export function Ranks({ skew }: { readonly skew: Skew }) {
  const shown = shownPhase(skew);
  if (shown === null && skew.leftOut.length === 0) {
    return null;
  }
  return (
    <section class="part">
      <h3>
        <Term about="Ranks are aligned by the number of the cycle and judged by when they come to a phase. Who comes early to a collective waits in it: its phase is long, and it is not to blame.">
          Ranks
        </Term>{" "}
        {shown && (
          <span class="caption">
            {phaseLabel(shown.phase)} on the {shown.lane}
          </span>
        )}
      </h3>
      <p class="soft">{skewInWords(skew).join(" ")}</p>
      {shown && (
        <Sideways label="Ranks">
          <table>
            <thead>
              <tr>
                <th scope="col">rank</th>
                <th scope="col">late by, ms</th>
                <th scope="col">falls behind, ms</th>
                <th scope="col">waits, ms</th>
                <th scope="col">takes, ms</th>
              </tr>
            </thead>
            <tbody>
              {shown.ranks.map(({ rank, lateMs, lostMs, waitedMs, tookMs }) => (
                <tr key={rank}>
                  <th scope="row">{rank}</th>
                  <td>{estimateText(lateMs)}</td>
                  <td>{estimateText(lostMs)}</td>
                  <td>{estimateText(waitedMs)}</td>
                  <td>{estimateText(tookMs)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Sideways>
      )}
    </section>
  );
}
