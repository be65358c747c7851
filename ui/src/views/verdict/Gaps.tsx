// When the device ran nothing, and what the host did meanwhile.
import { estimateText, percentText } from "../../lib/estimate.ts";
import { fixed, shareCell } from "../../lib/format.ts";
import {
  CAUSES,
  deviceGapsInWords,
  type Gaps as Found,
  gapInWords,
  shownGaps,
} from "../../lib/gaps.ts";
import { Term } from "../Card.tsx";
import { Sideways } from "./Sideways.tsx";

/** The answer in words, and a row for each pair of phases. */
export function Gaps({ found }: { readonly found: Found }) {
  const shown = shownGaps(found);
  return (
    <section class="part">
      <h3>
        <Term about="From the end of a phase on the device to the start of the next one. Up to the moment at which the host began what came next a gap is the host's; behind it another stream or rank kept the device.">
          Gaps on the device
        </Term>
      </h3>
      <p class="soft">{deviceGapsInWords(found).join(" ")}</p>
      {shown.length > 0 && (
        <Sideways label="Gaps on the device">
          <table>
            <thead>
              <tr>
                <th scope="col">between</th>
                <th scope="col">a cycle</th>
                <th scope="col">median, ms</th>
                <th scope="col">of the time</th>
                {CAUSES.map(([cause, head]) => (
                  <th scope="col" key={cause}>
                    {head}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {shown.map((gap) => (
                <tr key={gapInWords(gap)}>
                  <th scope="row">{gapInWords(gap)}</th>
                  <td>{fixed(gap.perCycle, 2)}</td>
                  <td>{estimateText(gap.lengthMs)}</td>
                  <td>{percentText(gap.share)}</td>
                  {CAUSES.map(([cause]) => (
                    <td key={cause}>{shareCell(gap.causes[cause] ?? null)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </Sideways>
      )}
    </section>
  );
}
