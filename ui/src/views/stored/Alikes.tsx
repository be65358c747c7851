// The time of a cycle by batch size and steps; a line picks its cycles.
import { msCell, whole } from "../../lib/format.ts";
import type { Alike } from "../../lib/spread.ts";
import { bar, look } from "../../looked.ts";
import { Term } from "../Card.tsx";

const NS_PER_MS = 1e6;

/** Nothing where all cycles are alike. */
export function Alikes({ found }: { readonly found: readonly Alike[] }) {
  return found.length > 1 ? (
    <section class="part" aria-label="By steps and batch size">
      <h3>
        <Term about="The time of a whole cycle, of cycles of the same number of steps and batch size; a line picks them.">
          By steps and batch size
        </Term>{" "}
        <span class="caption">cycle, ms</span>
      </h3>
      <div class="scrolls">
        <table>
          <thead>
            <tr>
              <th scope="col">steps</th>
              <th scope="col">batch</th>
              <th scope="col">cycles</th>
              <th scope="col">p50</th>
              <th scope="col">p95</th>
              <th scope="col">p99</th>
            </tr>
          </thead>
          <tbody>
            {found.map((each) => (
              <Line key={`${each.steps}/${each.batch}`} of={each} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  ) : null;
}

function Line({ of }: { readonly of: Alike }) {
  const { steps, batch } = of;
  return (
    <tr>
      <th scope="row">{whole(steps)}</th>
      <td>
        <button
          type="button"
          class="small edge"
          aria-label={`Pick batch size ${whole(batch)} at ${whole(steps)} steps`}
          onClick={() => {
            look.value = { ...look.value, steps, batch };
            bar.value = null;
          }}
        >
          {whole(batch)}
        </button>
      </td>
      <td>{whole(of.cycles)}</td>
      <td>
        <b>{msCell(of.p50 / NS_PER_MS)}</b>
      </td>
      <td>{msCell(of.p95 / NS_PER_MS)}</td>
      <td>{msCell(of.p99 / NS_PER_MS)}</td>
    </tr>
  );
}
