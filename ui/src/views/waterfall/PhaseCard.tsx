// What a stretch of the waterfall is: in a card for the eye, in a sentence for the ear.
import { foreignInWords, gainInWords } from "../../lib/cycle.ts";
import { ms, share, whole } from "../../lib/format.ts";
import { definition, phaseLabel } from "../../lib/phases.ts";
import type { Found } from "../../lib/spot.ts";
import type { PhaseSummary } from "../../lib/wire.ts";
import { figures } from "../../state.ts";
import { Card } from "../Card.tsx";
import { Swatch } from "../Swatch.tsx";
import type { Explained } from "./model.ts";

const NS_PER_MS = 1e6;

/** Phase, rank, lane, time, share of the cycle, what is usual, and the definition. */
export function PhaseCard({ found, x, y }: Explained) {
  const { cycle, rank, stretch } = found;
  const usual = usualTimes(found);
  const foreign = ofEarlier(found);
  return (
    <Card x={x} y={y}>
      <div class="between">
        <b class="nowrap">
          <Swatch phase={stretch.name} />
          {phaseLabel(stretch.name)}
        </b>
        <span class="caption cut">{rank.rank}, host</span>
      </div>
      <table>
        <tbody>
          <Line name="took, by host clock" value={ms(took(found))} strong={true} />
          <Line name={`of cycle ${whole(cycle.n)}`} value={share(shareOfCycle(found))} />
          <Line name="begins at" value={ms(stretch.start)} />
          {usual && (
            <Line name="median, p95" value={`${ms(usual.time.p50_ms)}, ${ms(usual.time.p95_ms)}`} />
          )}
          {foreign && <Line name="works for" value={`◂ ${foreign}`} />}
        </tbody>
      </table>
      <p>{definition(stretch.name)}</p>
    </Card>
  );
}

/** The same in a sentence. */
export function spokenPhase(found: Found): string {
  const { cycle, rank, stretch } = found;
  const foreign = ofEarlier(found);
  return [
    phaseLabel(stretch.name),
    ...(foreign ? [foreign] : []),
    ms(took(found)),
    `${share(shareOfCycle(found))} of cycle ${whole(cycle.n)}`,
    rank.rank,
    `${cycle.kind}, batch ${whole(cycle.batch)}`,
    gainInWords(cycle),
    ...(foreign ? [] : [foreignInWords(cycle) ?? ""].filter(Boolean)),
  ].join(", ");
}

function Line(props: { readonly name: string; readonly value: string; readonly strong?: boolean }) {
  return (
    <tr>
      <th scope="row" class="soft">
        {props.name}
      </th>
      <td>{props.strong ? <b>{props.value}</b> : props.value}</td>
    </tr>
  );
}

function took({ stretch }: Found): number {
  return stretch.end - stretch.start;
}

function shareOfCycle(found: Found): number {
  const { rank } = found;
  return (took(found) * NS_PER_MS) / Math.max(1, rank.end - rank.start);
}

function ofEarlier({ cycle, stretch }: Found): string | null {
  return stretch.ofCycle === cycle.n ? null : `cycle ${whole(stretch.ofCycle)}`;
}

/** Over cycles of the same kind; null for kinds that are not summed up. */
function usualTimes({ cycle, stretch }: Found): PhaseSummary | null {
  if (cycle.kind !== "speculative" && cycle.kind !== "decode") {
    return null;
  }
  const times = figures.value.summary?.[cycle.kind];
  return times?.phases.find((phase) => phase.name === stretch.name) ?? null;
}
