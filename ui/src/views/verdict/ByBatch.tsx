// The verdict for each setting at each batch size.
import { estimateText } from "../../lib/estimate.ts";
import { msCell, shareCell, whole } from "../../lib/format.ts";
import { type Report, settingKey } from "../../lib/report.ts";
import { settingInWords } from "../../lib/verdict.ts";
import { Sideways } from "./Sideways.tsx";

const SHOWN = 12;

/** Nothing where there is one row, which the answer has said already. */
export function ByBatch({ report }: { readonly report: Report }) {
  const rows = report.verdict.byBatch.slice(0, SHOWN);
  if (rows.length < 2) {
    return null;
  }
  const { crossoverBatch, crossoverClear } = report;
  const sizes = new Set(report.verdict.byBatch.map(({ batch }) => batch)).size;
  return (
    <section class="part">
      <h3>
        By batch size <span class="caption">what took most of the time first</span>
      </h3>
      {crossoverBatch !== null && sizes > 1 && (
        <p class="soft">
          From batch size {whole(crossoverBatch)} on speculation, as it is, is slower than plain
          decode{crossoverClear ? "" : ", as far as the intervals tell"}.
        </p>
      )}
      <Sideways label="Verdicts by batch size">
        <table>
          <thead>
            <tr>
              <th scope="col">batch, setting</th>
              <th scope="col">of the time</th>
              <th scope="col">tokens per cycle</th>
              <th scope="col">break-even</th>
              <th scope="col">cycle, ms</th>
              <th scope="col">plain, ms</th>
              <th scope="col">{report.groups > 1 ? "tok/s per group" : "tok/s"}</th>
              <th scope="col">speed-up</th>
              <th scope="col">answer</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={`${row.batch} ${settingKey(row.setting)}`}>
                <th scope="row">
                  {whole(row.batch)}, {settingInWords(row.setting)}
                </th>
                <td>{shareCell(row.share)}</td>
                <td>{estimateText(row.tokensPerCycle)}</td>
                <td>{estimateText(row.breakEven)}</td>
                <td>{msCell(row.cycleMs.value)}</td>
                <td>{msCell(row.plainMs?.value ?? null)}</td>
                <td>{estimateText(row.tokensPerS, 1)}</td>
                <td>{estimateText(row.speedUp)}</td>
                <td>{row.answer}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Sideways>
    </section>
  );
}
