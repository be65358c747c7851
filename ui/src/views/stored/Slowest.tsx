// The slowest of the picked cycles, and what made each of them slow.
import { msCell } from "../../lib/format.ts";
import { causeInWords, type SlowCycle } from "../../lib/spread.ts";
import { Term } from "../Card.tsx";
import { CycleLink } from "./CycleLink.tsx";

/** At most ten, the slowest first. */
export function Slowest({ cycles }: { readonly cycles: readonly SlowCycle[] }) {
  return (
    <section class="part" aria-label="Slowest cycles">
      <h3>
        <Term about="The phase that is named took at least half of what the cycle took longer than the median; the device is asked before the host.">
          Slowest cycles
        </Term>
      </h3>
      <table class="slowest">
        <thead>
          <tr>
            <th scope="col">cycle</th>
            <th scope="col">because of</th>
            <th scope="col">ms</th>
          </tr>
        </thead>
        <tbody>
          {cycles.map((cycle) => (
            <tr key={cycle.n}>
              <th scope="row">
                <CycleLink n={cycle.n} />
              </th>
              <td class="cut" title={causeInWords(cycle)}>
                {causeInWords(cycle)}
              </td>
              <td>{msCell(cycle.ns / 1e6)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
