// The cycles of the bar that was chosen, and the way from there into the waterfall.
import { clock, msCell, plural, whole } from "../../lib/format.ts";
import { type Bar, formatBar } from "../../lib/look.ts";
import { phaseLabel } from "../../lib/phases.ts";
import { CYCLE, rangeText, subjectOf } from "../../lib/spread.ts";
import { barCycles, bar as chosen, moreOfBar } from "../../looked.ts";
import { pickedBar } from "../../looking.ts";
import { CycleLink } from "./CycleLink.tsx";
import { DetailHead, DetailState } from "./DetailHead.tsx";

const NS_PER_MS = 1e6;

/** A list, newest first; Escape closes it. */
export function BarCycles({ bar }: { readonly bar: Bar }) {
  const had = barCycles.of(pickedBar.value);
  const page = had?.value ?? null;
  const close = () => {
    chosen.value = null;
    const row = document.querySelector<HTMLElement>(
      `.spreadrow[aria-label="${CSS.escape(phaseLabel(bar.phase))}"] .bars`,
    );
    row?.focus();
  };
  return (
    <section class="part barcycles" aria-label="Cycles of the bar">
      <DetailHead of={formatBar(bar)} close={close}>
        {subjectOf(bar.phase, bar.lane)}, {rangeText(bar)}
      </DetailHead>
      <DetailState had={had} />
      {page && (
        <>
          <p class="soft">
            {plural(page.total, "cycle")}
            {page.cycles.length < page.total && `, the newest ${whole(page.cycles.length)} shown`}
          </p>
          <div class="scrolls">
            <table>
              <thead>
                <tr>
                  <th scope="col">cycle</th>
                  <th scope="col">began</th>
                  {bar.phase !== CYCLE && <th scope="col">{phaseLabel(bar.phase)}, ms</th>}
                  <th scope="col">cycle, ms</th>
                  <th scope="col">batch</th>
                </tr>
              </thead>
              <tbody>
                {page.cycles.map((cycle) => (
                  <tr key={cycle.n}>
                    <th scope="row">
                      <CycleLink n={cycle.n} />
                    </th>
                    <td>{clock(cycle.t0Ms, true)}</td>
                    {bar.phase !== CYCLE && <td>{msCell(cycle.valueNs / NS_PER_MS)}</td>}
                    <td>{msCell(cycle.ns / NS_PER_MS)}</td>
                    <td>{whole(cycle.batch)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {page.before !== null && (
            <button
              type="button"
              class="button"
              disabled={barCycles.asking.value}
              onClick={moreOfBar}
            >
              Show more
            </button>
          )}
        </>
      )}
    </section>
  );
}
