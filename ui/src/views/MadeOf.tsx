// Of which kernels the phases of the selected cycle are made, on the opened rank.
import { kernelsOf } from "../kernels.ts";
import { msCell, plural, share, shortId, whole } from "../lib/format.ts";
import { type Made, madeOf } from "../lib/madeOf.ts";
import { definition, phaseLabel } from "../lib/phases.ts";
import type { Cycle } from "../lib/wire.ts";
import { openRank } from "../state.ts";
import { Term } from "./Card.tsx";
import { ClassBar } from "./ClassBar.tsx";
import { Swatch } from "./Swatch.tsx";

const BIGGEST = 3;
const MOST_OF_NAME = 24;

/** Nothing where no look saw the cycle. */
export function MadeOf({ cycle }: { readonly cycle: Cycle }) {
  const rank = openRank.value ?? cycle.ranks[0]?.rank ?? "";
  const found = kernelsOf(cycle, rank);
  return found ? (
    <section class="section madeof" aria-label="Made of">
      <h3>
        <Term about="The kernels that each phase of this cycle launched. Their times are those of a server that was watched.">
          Made of
        </Term>{" "}
        <span class="caption cut" title={rank}>
          {rank}, on the device, ms
        </span>
      </h3>
      {madeOf(found.kernels, BIGGEST).map((made) => (
        <Phase key={made.phase} made={made} />
      ))}
    </section>
  ) : null;
}

function Phase({ made }: { readonly made: Made }) {
  const { phase, deviceMs, gapMs, classes, biggest } = made;
  return (
    <div class="made">
      <div class="between">
        <Term about={definition(phase)}>
          <Swatch phase={phase} lane="device" />
          {phaseLabel(phase)}
        </Term>
        <b>{msCell(deviceMs)}</b>
      </div>
      <ClassBar phase={phase} classes={classes} />
      <p class="caption">
        {classes.map((one) => `${one.kernelClass} ${share(one.share)}`).join(", ")}
      </p>
      <p class="caption">
        {kernelsInWords(made)}; gaps {msCell(gapMs)}
      </p>
      <table>
        <tbody>
          {biggest.map(({ name, short, ms, kernels }) => (
            <tr key={name}>
              <th scope="row" title={name}>
                {shortId(short, MOST_OF_NAME)}
              </th>
              <td class="dim">{kernels > 1 && `${whole(kernels)} ×`}</td>
              <td>{msCell(ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function kernelsInWords({ kernels, ofGraphs }: Made): string {
  const graphs = ofGraphs === kernels ? "all of graphs" : `${whole(ofGraphs)} of graphs`;
  return ofGraphs > 0 ? `${plural(kernels, "kernel")}, ${graphs}` : plural(kernels, "kernel");
}
