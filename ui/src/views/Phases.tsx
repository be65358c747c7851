// The phases of the selected cycle on one rank, what each lane took for them.

import type { PhaseRow } from "../lib/cycle.ts";
import { phaseTable } from "../lib/cycle.ts";
import { ms, msCell, ns, shareCell, whole } from "../lib/format.ts";
import { cycleBefore, deviceInWords, deviceKnown, gapMs, stretches } from "../lib/lanes.ts";
import { definition, GAP, phaseLabel, phaseOrder } from "../lib/phases.ts";
import type { Cycle, PhaseSummary, RankCycle } from "../lib/wire.ts";
import { cycles, figures, openRank } from "../state.ts";
import { Term } from "./Card.tsx";
import { Swatch } from "./Swatch.tsx";

const NS_PER_MS = 1e6;

/** A phase with what each lane took; null where a lane does not have it. */
interface Row {
  readonly name: string;
  readonly host: PhaseRow | null;
  readonly device: PhaseRow | null;
}

/** Of the opened rank; two columns more where its device was timed. */
export function Phases({ cycle }: { readonly cycle: Cycle }) {
  const rank = cycle.ranks.find((each) => each.rank === openRank.value) ?? cycle.ranks[0];
  if (!rank) {
    return null;
  }
  const timed = rank.phases.some((phase) => phase.lane === "device");
  const lacking = rank.mode === "device" ? deviceInWords(rank) : null;
  return (
    <div class="section">
      <h3>
        Phases{" "}
        <span class="caption cut" title={rank.rank}>
          {rank.rank}, {timed ? "ms" : "by host clock"}
        </span>
      </h3>
      {rank.incomplete && (
        <p class="bad">Boundaries are missing: this rank's cycle is incomplete.</p>
      )}
      {lacking && <p class="bad">{`${lacking[0]?.toUpperCase()}${lacking.slice(1)}.`}</p>}
      {timed ? <BothLanes cycle={cycle} rank={rank} /> : <HostAlone cycle={cycle} rank={rank} />}
      <p class="caption">
        {timed &&
          rank.clockErrorNs !== null &&
          `The device lane may be shifted by ${ns(rank.clockErrorNs)} against the host's. `}
        The probe took {ms(rank.probeNs / NS_PER_MS)} of the cycle.
        {rank.endedIdle && " Then the scheduler went idle."}
      </p>
    </div>
  );
}

interface Of {
  readonly cycle: Cycle;
  readonly rank: RankCycle;
}

function HostAlone({ cycle, rank }: Of) {
  const medians = new Map(usual(cycle, "phases").map((p) => [p.name, p.time.p50_ms] as const));
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">phase</th>
          <th scope="col">ms</th>
          <th scope="col">of the cycle</th>
          <th scope="col">median</th>
        </tr>
      </thead>
      <tbody>
        {phaseTable(cycle, rank).map((row) => (
          <tr key={row.name} class={row.name.includes(".") ? "part" : ""}>
            <Name row={row} about={definition(row.name)} />
            <td>{msCell(row.ms)}</td>
            <td>{shareCell(row.share)}</td>
            <td class="dim">{msCell(medians.get(row.name) ?? null)}</td>
          </tr>
        ))}
        <tr class="sum">
          <th scope="row">cycle</th>
          <td>{msCell((rank.end - rank.start) / NS_PER_MS)}</td>
          <td />
          <td />
        </tr>
      </tbody>
    </table>
  );
}

function BothLanes({ cycle, rank }: Of) {
  const gap = gapMs(stretches(cycle, rank, cycleBefore(cycles.value, cycles.value.indexOf(cycle))));
  const known = deviceKnown(rank) === "whole";
  const length = (rank.end - rank.start) / NS_PER_MS;
  const device = phaseTable(cycle, rank, "device").filter((row) => !row.name.includes("."));
  return (
    <table class="lanes">
      <thead>
        <tr>
          <th scope="col">phase</th>
          <th scope="col">host</th>
          <th scope="col">share</th>
          <th scope="col">device</th>
          <th scope="col">share</th>
        </tr>
      </thead>
      <tbody>
        {rowsOf(cycle, rank).map((row) => (
          <tr key={row.name} class={row.name.includes(".") ? "part" : ""}>
            <Name row={row.host ?? row.device} about={aboutRow(cycle, row.name)} />
            <td>{msCell(row.host?.ms ?? null)}</td>
            <td class="dim">{shareCell(row.host?.share ?? null)}</td>
            <td>{msCell(row.device?.ms ?? null)}</td>
            <td class="dim">{shareCell(row.device?.share ?? null)}</td>
          </tr>
        ))}
        {known && (
          <tr>
            <th scope="row">
              <Term about="The device ran no phase of this cycle, before and between its phases.">
                <Swatch phase={GAP} />
                gaps
              </Term>
            </th>
            <td>–</td>
            <td />
            <td>{msCell(gap)}</td>
            <td class="dim">{shareCell(length > 0 ? gap / length : null)}</td>
          </tr>
        )}
        <tr class="sum">
          <th scope="row">cycle</th>
          <td>{msCell(length)}</td>
          <td />
          <td title="All phases on the device">
            {msCell(device.reduce((sum, row) => sum + row.ms, 0))}
          </td>
          <td />
        </tr>
      </tbody>
    </table>
  );
}

function Name({ row, about }: { readonly row: PhaseRow | null; readonly about: string }) {
  if (!row) {
    return null;
  }
  return (
    <th scope="row">
      <Term about={about}>
        <Swatch phase={row.name} />
        {phaseLabel(row.name).replace(/^.*\./, "")}
      </Term>
      {row.times > 1 && <span class="dim"> {row.times}×</span>}
      {row.ofCycle !== null && <span class="caption"> ◂ of cycle {whole(row.ofCycle)}</span>}
    </th>
  );
}

function rowsOf(cycle: Cycle, rank: RankCycle): Row[] {
  const [host, device] = [phaseTable(cycle, rank), phaseTable(cycle, rank, "device")];
  const of = (name: string, table: readonly PhaseRow[]) =>
    table.find((row) => row.name === name) ?? null;
  return [...new Set([...host, ...device].map((row) => row.name))]
    .sort((one, other) => phaseOrder(one) - phaseOrder(other))
    .map((name) => ({ name, host: of(name, host), device: of(name, device) }));
}

function aboutRow(cycle: Cycle, name: string): string {
  const median = (lane: "phases" | "device") => {
    const found = usual(cycle, lane).find((phase) => phase.name === name);
    return found
      ? ` Median on the ${lane === "phases" ? "host" : "device"}: ${ms(found.time.p50_ms)}.`
      : "";
  };
  return `${definition(name)}${median("phases")}${median("device")}`;
}

/** The times of cycles of the same kind over the last seconds. */
function usual({ kind }: Cycle, lane: "phases" | "device"): readonly PhaseSummary[] {
  const summary = figures.value.summary;
  const known = kind === "speculative" || kind === "decode" ? summary?.[kind] : null;
  return known?.[lane] ?? [];
}
