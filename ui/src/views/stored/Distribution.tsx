// How the times of stored cycles are spread: a row for each phase, and beside them what stands out.
import { useSignal } from "@preact/signals";
import { msCell } from "../../lib/format.ts";
import { definition, GAP, phaseLabel, topLevel } from "../../lib/phases.ts";
import {
  CYCLE,
  cutInWords,
  groundOf,
  type PhaseSpread,
  type Spread,
  shownPhases,
} from "../../lib/spread.ts";
import { bar, spread } from "../../looked.ts";
import { lookAgain, picked } from "../../looking.ts";
import { AsOf, Failure, ReadAgain } from "../AsOf.tsx";
import { Term } from "../Card.tsx";
import { Swatch } from "../Swatch.tsx";
import { Accepted } from "./Accepted.tsx";
import { Alikes } from "./Alikes.tsx";
import { BarCycles } from "./BarCycles.tsx";
import { Histogram } from "./Histogram.tsx";
import { Picks } from "./Picks.tsx";
import { Slowest } from "./Slowest.tsx";

const NS_PER_MS = 1e6;
const ABOUT_CYCLE =
  "A whole pass of the decode loop, from its start to that of the next, on the host.";
const ABOUT_GAP =
  "The device ran nothing, from its last phase of the cycle before on. Only of cycles of which the one before was picked too.";

/** The distribution of what is picked, or why there is none. */
export function Distribution() {
  // What was there stays while another pick is read: nothing is to jump.
  const before = useSignal<Spread | null>(null);
  const had = spread.of(picked.value);
  const last = spread.had.value;
  const here = last?.want.run === picked.value?.run ? last : null;
  const shown = had ? had.value : (here?.value ?? before.value);
  return (
    <section class="distribution" aria-label="Distribution" aria-busy={spread.asking.value}>
      <h2 class="unseen">Distribution</h2>
      <div class="freshness">
        <Picks spread={shown} />
        <div class="grow" />
        <AsOf ms={had?.value ? had.atMs : null} asking={spread.asking.value} />
        <ReadAgain disabled={spread.asking.value} ask={lookAgain} />
      </div>
      <Failure what="The stored cycles could not be read." why={had?.failure} />
      {shown && <Found found={shown} stale={had === null} />}
      {!(shown || had?.failure) && <Skeleton />}
    </section>
  );
}

function Found({ found, stale }: { readonly found: Spread; readonly stale: boolean }) {
  const cut = cutInWords(found);
  if (found.cycles === 0) {
    return (
      <p class="failure">
        <b>No stored cycle is like that.</b> Choose another size, number of steps or time
        {found.lookedAt === 0 && "; the first ten cycles of a run are warm-up and not among them"}.
      </p>
    );
  }
  return (
    <div class={stale ? "spreadgrid stale" : "spreadgrid"}>
      <div class="spreads">
        <p class="ground caption">
          <span>
            {groundOf(found)}
            {found.look.mode === "sync" && (
              <b class="bad"> Timed with sync: the server was slower.</b>
            )}
          </span>
          {cut && <span>{cut}</span>}
          <span>filled: device · outlined: host · height: square root of the count</span>
        </p>
        {shownPhases(found.phases).map((phase) => (
          <Row key={phase.name} phase={phase} />
        ))}
      </div>
      <aside class="spreadside" aria-label="What stands out">
        {bar.value && <BarCycles bar={bar.value} />}
        <Alikes found={found.alike} />
        <Accepted found={found.acceptance} />
        <Slowest cycles={found.slowest} />
      </aside>
    </div>
  );
}

function Row({ phase }: { readonly phase: PhaseSpread }) {
  const { name } = phase;
  const part = topLevel(name) !== name;
  return (
    <section class="spreadrow" aria-label={phaseLabel(name)}>
      <h3 class={part ? "part-name" : ""}>
        {name !== CYCLE && <Swatch phase={name} lane="device" />}
        <Term about={aboutOf(name)}>{phaseLabel(name)}</Term>
      </h3>
      <Histogram phase={phase} />
      <Percentiles phase={phase} />
    </section>
  );
}

function aboutOf(name: string): string {
  if (name === CYCLE) {
    return ABOUT_CYCLE;
  }
  return name === GAP ? ABOUT_GAP : definition(name);
}

function Percentiles({ phase }: { readonly phase: PhaseSpread }) {
  return (
    <table class="percentiles">
      <caption class="unseen">Times of {phaseLabel(phase.name)} in ms</caption>
      <thead>
        <tr>
          <th scope="col">ms</th>
          <th scope="col">p50</th>
          <th scope="col">p95</th>
          <th scope="col">p99</th>
          <th scope="col">max</th>
        </tr>
      </thead>
      <tbody>
        {phase.lanes.map((lane) => (
          <tr key={lane.lane}>
            <th scope="row">{phase.name === CYCLE ? "cycle" : lane.lane}</th>
            <td>
              <b>{msCell(lane.p50 / NS_PER_MS)}</b>
            </td>
            <td>{msCell(lane.p95 / NS_PER_MS)}</td>
            <td>{msCell(lane.p99 / NS_PER_MS)}</td>
            <td>{msCell(lane.most / NS_PER_MS)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Of the size of what is to come. */
function Skeleton() {
  return (
    <div class="skeleton" aria-hidden="true">
      <i />
      <i />
      <i />
    </div>
  );
}
