// Where a cycle goes: a bar of shares for each lane, the phases' times, and all of it as a table.
import { msCell, plural, share, shareCell } from "../lib/format.ts";
import type { LaneName } from "../lib/lanes.ts";
import { definition, GAP, phaseLabel } from "../lib/phases.ts";
import { gapShare, lanesOf, type PhaseTimes } from "../lib/shares.ts";
import { phaseProperty } from "../lib/tokens.ts";
import type { CycleTimes, PhaseSummary } from "../lib/wire.ts";
import { type Figures, rankNames, SUMMARY_S } from "../state.ts";
import { Term } from "./Card.tsx";
import { Panel } from "./Panel.tsx";
import { Swatch } from "./Swatch.tsx";

/** Narrower shares of the bar are drawn solid. */
const THIN = 0.008;

const ABOUT: Readonly<Record<LaneName, string>> = {
  device: "when the accelerator did it",
  host: "when the CPU did it",
};

/** The times of the first rank; of both its lanes where its device was timed. */
export function Shares(props: { readonly shown: Figures; readonly times: CycleTimes | null }) {
  const { shown, times } = props;
  const rows = times ? lanesOf(times) : [];
  const timed = times !== null && times.device.length > 0;
  return (
    <div class="cell shares">
      <div class="between">
        <Term about={about(shown, timed)}>
          <span class="soft">Where a cycle goes</span>
        </Term>
        {times && rows.length > 0 && (
          <span class="caption nowrap head">
            {!timed && <span class="wide">by host clock,</span>} median of{" "}
            {shown.current ? `${SUMMARY_S} s` : "the last cycles"}, ms
            <Panel label="Table" class="small">
              <Table rows={rows} times={times} timed={timed} />
            </Panel>
          </span>
        )}
      </div>
      {times === null || rows.length === 0 ? (
        <p class="caption">
          {times ? "This timing does not divide cycles into phases." : "No cycle to divide."}
        </p>
      ) : (
        <Lanes times={times} />
      )}
    </div>
  );
}

/** A bar of shares for each lane, and the phases with their medians. */
export function Lanes({ times }: { readonly times: CycleTimes }) {
  const timed = times.device.length > 0;
  return (
    <>
      <div class="sharebars">
        {timed && <Bar lane="device" phases={times.device} gap={gapShare(times.device)} />}
        <Bar lane="host" phases={times.phases} gap={0} named={timed} />
      </div>
      <div class="legend">
        {lanesOf(times).map((row) => (
          <Entry key={row.name} row={row} />
        ))}
        {timed && (
          <div class="nowrap">
            <Term about="Time in which the device ran none of these phases.">
              <Swatch phase={GAP} />
              gap
            </Term>
            <b>{share(gapShare(times.device))}</b>
          </div>
        )}
      </div>
    </>
  );
}

function Bar(props: {
  readonly lane: LaneName;
  readonly phases: readonly PhaseSummary[];
  readonly gap: number;
  readonly named?: boolean;
}) {
  const { lane, phases, gap, named = true } = props;
  const top = phases.filter((phase) => !phase.name.includes("."));
  const words = top.map((phase) => `${phaseLabel(phase.name)} ${share(phase.share)}`);
  const all = gap > 0 ? [...words, `gap ${share(gap)}`] : words;
  return (
    <>
      {named && <span class="caption">{lane}</span>}
      <div class={`sharebar ${lane}`} role="img" aria-label={`${lane}: ${all.join(", ")}`}>
        {top.map((phase) => (
          <i
            key={phase.name}
            class={phase.share < THIN ? "thin" : ""}
            style={{
              flex: phase.share,
              "--c": `var(${phaseProperty(phase.name)})`,
              "--pale": `var(${phaseProperty(phase.name)}-pale)`,
            }}
          />
        ))}
        {gap > 0 && <i class="hatched" style={{ flex: gap }} />}
      </div>
    </>
  );
}

/** One phase with its median on each lane that has it. */
function Entry({ row }: { readonly row: PhaseTimes }) {
  const { name, device, host } = row;
  return (
    <div class="nowrap">
      <Term
        about={`${definition(name)}${lag(row)} ${inWords("device", device)}${inWords("host", host)}`}
      >
        <Swatch phase={name} lane={device ? "device" : "host"} />
        <span class={name.includes(".") ? "soft" : ""}>
          {phaseLabel(name).replace(/^.*\./, "")}
        </span>
        {host && host.max_lag > 0 && <span class="dim"> ◂</span>}
      </Term>
      <b>{msCell((device ?? host)?.time.p50_ms ?? null)}</b>
      {device && host && (
        <span class="second">
          <Swatch phase={name} />
          {msCell(host.time.p50_ms)}
        </span>
      )}
    </div>
  );
}

/** All phases as a table, of both lanes where the device was timed. */
export function Table(props: {
  readonly rows: readonly PhaseTimes[];
  readonly times: CycleTimes;
  readonly timed: boolean;
}) {
  const { rows, times, timed } = props;
  const lanes: readonly LaneName[] = timed ? ["device", "host"] : ["host"];
  return (
    <table class="times">
      <thead>
        <tr>
          <th />
          {lanes.map((lane) => (
            <th key={lane} colSpan={3} scope="colgroup">
              {lane === "host" ? "host" : `device, ${plural(times.device_cycles, "cycle")}`}
            </th>
          ))}
        </tr>
        <tr>
          <th scope="col">phase</th>
          {lanes.map((lane) => [
            <th key={`${lane} p50`} scope="col">
              p50, ms
            </th>,
            <th key={`${lane} p95`} scope="col">
              p95
            </th>,
            <th key={`${lane} share`} scope="col">
              share
            </th>,
          ])}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.name} class={row.name.includes(".") ? "part" : ""}>
            <th scope="row">
              <Swatch phase={row.name} lane={row.device ? "device" : "host"} />
              {phaseLabel(row.name).replace(/^.*\./, "")}
            </th>
            {lanes.map((lane) => [
              <td key={`${lane} p50`}>{msCell(row[lane]?.time.p50_ms ?? null)}</td>,
              <td key={`${lane} p95`}>{msCell(row[lane]?.time.p95_ms ?? null)}</td>,
              <td key={`${lane} share`}>{shareCell(row[lane]?.share ?? null)}</td>,
            ])}
          </tr>
        ))}
        {timed && (
          <tr>
            <th scope="row">
              <Swatch phase={GAP} />
              gap
            </th>
            <td colSpan={2} />
            <td>{shareCell(gapShare(times.device))}</td>
            <td colSpan={3} />
          </tr>
        )}
      </tbody>
    </table>
  );
}

function about({ summary }: Figures, timed: boolean): string {
  const kind = summary?.speculative ? "speculative" : "plain decode";
  const rank = rankNames.value[0] ?? "the first rank";
  return timed
    ? `Of ${kind} cycles on ${rank}. Filled is the device: ${ABOUT.device}. Outlined is the host: ${ABOUT.host}. Shares are of the time from one cycle's start to the next.`
    : `Shares of the time of ${kind} cycles on ${rank} by host clock: ${ABOUT.host}.`;
}

function lag({ host }: PhaseTimes): string {
  return host && host.max_lag > 0
    ? " With the overlap scheduler it works for an earlier cycle's batch."
    : "";
}

function inWords(lane: LaneName, phase: PhaseSummary | null): string {
  return phase
    ? `On the ${lane}: median ${msCell(phase.time.p50_ms)} ms, p95 ${msCell(phase.time.p95_ms)} ms, ${share(phase.share)} of the time, in ${plural(phase.cycles, "cycle")}. `
    : "";
}
