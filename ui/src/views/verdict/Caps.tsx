// The one thing to change first, and what each change can bring at most.
import { percentText } from "../../lib/estimate.ts";
import type { Report } from "../../lib/report.ts";
import { isSame } from "../../lib/report.ts";
import { changeInWords, doubtsInWords, firstInWords } from "../../lib/verdict.ts";
import { Term } from "../Card.tsx";
import { Flags } from "./Flags.tsx";

/** Advice, its flags, and the caps as a table. */
export function Caps({ report }: { readonly report: Report }) {
  const { first, caps } = report.verdict;
  const point = report.points.find(
    (one) => first?.setting && one.batch === first.batch && isSame(one.setting, first.setting),
  );
  return (
    <section class="part">
      <h3>Change first</h3>
      <p class="soft first">{firstInWords(report)}</p>
      {first?.change === "steps" && point && <Flags flags={point.flags} />}
      {doubtsInWords(first?.doubts ?? []).map((doubt) => (
        <p class="caption" key={doubt}>
          {doubt}
        </p>
      ))}
      {caps.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">
                <Term about="Throughput gained if this cost nothing: its time over the rest of the cycle.">
                  the most that each can bring
                </Term>
              </th>
              <th scope="col">more tok/s</th>
            </tr>
          </thead>
          <tbody>
            {caps.map((cap) => (
              <tr key={cap.change}>
                <th scope="row">{changeInWords(cap.change)}</th>
                <td>{percentText(cap.gain)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
