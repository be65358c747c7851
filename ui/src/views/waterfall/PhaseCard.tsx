// What a stretch of the waterfall is: in a card for the eye, in a sentence for the ear.
import { foreignInWords, gainInWords, phaseTable } from "../../lib/cycle.ts";
import { ms, ns, share, whole } from "../../lib/format.ts";
import type { LaneName } from "../../lib/lanes.ts";
import { definition, EARLIER, GAP, phaseLabel } from "../../lib/phases.ts";
import type { Found } from "../../lib/spot.ts";
import type { PhaseSummary } from "../../lib/wire.ts";
import { figures } from "../../state.ts";
import { Card } from "../Card.tsx";
import { Swatch } from "../Swatch.tsx";
import type { Explained } from "./model.ts";

const NS_PER_MS = 1e6;

const OTHER: Readonly<Record<LaneName, LaneName>> = { host: "device", device: "host" };
const BY: Readonly<Record<LaneName, string>> = {
  host: "took, by host clock",
  device: "took, on the device",
};

/** Phase, rank, lane, time, share of the cycle, what is usual, and the definition. */
export function PhaseCard({ found, x, y }: Explained) {
  const { cycle, rank, stretch } = found;
  const usual = usualTimes(found);
  const foreign = ofEarlier(found);
  const elsewhere = onOtherLane(found);
  return (
    <Card x={x} y={y}>
      <div class="between">
        <b class="nowrap">
          {stretch.name !== EARLIER && <Swatch phase={stretch.name} lane={stretch.lane} />}
          {phaseLabel(stretch.name)}
        </b>
        <span class="caption cut">
          {rank.rank}, {stretch.lane}
        </span>
      </div>
      <table>
        <tbody>
          <Line name={BY[stretch.lane]} value={ms(took(found))} strong={true} />
          <Line name={`of cycle ${whole(cycle.n)}`} value={share(shareOfCycle(found))} />
          <Line name="begins at" value={`${ms(stretch.start)}${clockError(found)}`} />
          {elsewhere !== null && (
            <Line name={`on the ${OTHER[stretch.lane]}, in all`} value={ms(elsewhere)} />
          )}
          {usual && (
            <Line name="median, p95" value={`${ms(usual.time.p50_ms)}, ${ms(usual.time.p95_ms)}`} />
          )}
          {stretch.graph !== null && <Line name="ran" value={graphInWords(stretch.graph)} />}
          {foreign && <Line name="works for" value={`◂ ${foreign}`} />}
        </tbody>
      </table>
      <p>
        {definition(stretch.name)} {cause(found)}
      </p>
    </Card>
  );
}

/** The same in a sentence. */
export function spokenPhase(found: Found): string {
  const { cycle, rank, stretch } = found;
  const foreign = ofEarlier(found);
  return [
    `${phaseLabel(stretch.name)} on the ${stretch.lane}`,
    ...(foreign ? [foreign] : []),
    ms(took(found)),
    `${share(shareOfCycle(found))} of cycle ${whole(cycle.n)}`,
    `from ${ms(stretch.start)}${clockError(found)}`,
    ...(stretch.graph === null ? [] : [graphInWords(stretch.graph)]),
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

/** " ± 5 µs": how well the place of a device's stretch is known. */
function clockError({ rank, stretch }: Found): string {
  const known = stretch.lane === "device" && rank.clockErrorNs !== null;
  return known ? ` ± ${ns(rank.clockErrorNs ?? 0)}` : "";
}

function graphInWords(graph: boolean): string {
  return graph ? "as a graph" : "eagerly";
}

/** How long the same phase took on the other lane, in ms; null where it is not there. */
function onOtherLane({ cycle, rank, stretch }: Found): number | null {
  const rows = phaseTable(cycle, rank, OTHER[stretch.lane]);
  return rows.find((row) => row.name === stretch.name)?.ms ?? null;
}

/** Why a gap was there, as far as that is known. */
function cause({ stretch }: Found): string {
  if (stretch.name !== GAP) {
    return "";
  }
  return stretch.hostLate === null
    ? "Why is not known from the times of this rank."
    : `The host began what came next ${ms(stretch.hostLate)} after the device had run dry: host-bound.`;
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
  const phases = stretch.lane === "device" ? times?.device : times?.phases;
  return phases?.find((phase) => phase.name === stretch.name) ?? null;
}
