// What a look at kernels found: of what phases are made, and what looking cost.
//
// A view of its own, there where something was looked at or can be: its answer is of the device's work
// within phases, where Timing holds ways of timing against each other and Distribution spreads times.
import { useEffect } from "preact/hooks";
import { looks, runLooks } from "../../kernels.ts";
import { clock, fixed, ms, msCell, plural, shareCell, whole } from "../../lib/format.ts";
import { formatHash } from "../../lib/hash.ts";
import {
  classesOf,
  costInWords,
  groundOf,
  headline,
  type KernelLook,
  lookingInWords,
  lossesInWords,
  type PhaseClasses,
  ranksOf,
  worksOf,
} from "../../lib/kernelLook.ts";
import { decodeOverview, type Overview } from "../../lib/overview.ts";
import { phaseLabel } from "../../lib/phases.ts";
import type { RunState } from "../../lib/wire.ts";
import { seenLook } from "../../looked.ts";
import { overviewPath, type Stretch } from "../../overseen.ts";
import { Question } from "../../question.ts";
import { cycles, openRank, place, run } from "../../state.ts";
import { Failure } from "../AsOf.tsx";
import { ClassBar } from "../ClassBar.tsx";
import { Copy } from "../Copy.tsx";
import { LookButton } from "../LookAtKernels.tsx";
import { Swatch } from "../Swatch.tsx";
import { Sideways } from "../verdict/Sideways.tsx";

/** In how many parts a look is divided to find its first cycle. */
const PARTS = 1000;
/** The page's times are rounded to so many ms. */
const ROUNDED_MS = 0.002;
const OUTSIDE = "outside of phases";

/** The cycles that a look saw, summed up. */
const seenCycles = new Question<Stretch, Overview>({
  key: overviewPath,
  path: overviewPath,
  decode: decodeOverview,
});

/** The newest look, or the chosen one. */
export function Kernels() {
  const current = run.value;
  const all = runLooks.value;
  const look = all.find((each) => idOf(each) === seenLook.value) ?? all.at(-1);
  const ranks = look ? ranksOf(look) : [];
  const rank = ranks.find((each) => each === openRank.value) ?? ranks[0] ?? "";
  if (!current) {
    return null;
  }
  return (
    <section class="served runs lookview" aria-label="Kernels">
      <div class="freshness">
        {all.length > 1 && (
          <label class="pick">
            <span class="caption">look</span>
            <select
              value={look && String(idOf(look))}
              onChange={(event) => {
                const chosen = Number(event.currentTarget.value);
                const newest = all.at(-1);
                seenLook.value = newest && idOf(newest) === chosen ? null : chosen;
              }}
            >
              {all.toReversed().map((each) => (
                <option key={idOf(each)} value={String(idOf(each))}>
                  {lookName(each)}
                </option>
              ))}
            </select>
          </label>
        )}
        {ranks.length > 1 && (
          <label class="pick">
            <span class="caption">rank</span>
            <select
              value={rank}
              onChange={(event) => {
                openRank.value = event.currentTarget.value;
              }}
            >
              {ranks.map((each) => (
                <option key={each} value={each}>
                  {each}
                </option>
              ))}
            </select>
          </label>
        )}
        {look && all.length === 1 && <span class="soft">{lookName(look)}</span>}
        <span class="grow" />
        <LookButton current={current} />
      </div>
      <Failure what="The looks did not come." why={looks.of(current.run)?.failure} />
      {look ? <Shown look={look} rank={rank} /> : <NotYet current={current} />}
    </section>
  );
}

/** What names a look in the address. */
function idOf({ startMs }: KernelLook): number {
  return Math.floor(startMs);
}

function lookName(look: KernelLook): string {
  const when = clock(look.startMs);
  return look.source === "trace"
    ? `${when}, from a trace`
    : `${when}, ${plural(look.cycles, "cycle")}`;
}

/** What a look would say, and how to get one. */
function NotYet({ current }: { readonly current: RunState }) {
  if (current.looks > 0) {
    return null; // they are on their way
  }
  const refused = current.looking?.stage === "refused" ? lookingInWords(current.looking) : null;
  const command = `spectrace kernels ${current.server_pid || "PID"}`;
  return (
    <div class="part">
      <p class="sentence">No kernels of this run were looked at.</p>
      <p class="soft">
        A look records for some cycles what the GPU does, and says of what each phase is made: which
        kernels run, for how long, with what gaps, and what share of it is communication.
      </p>
      {refused && (
        <p>
          {refused.head} {refused.text}
        </p>
      )}
      {!current.steerable && (
        <>
          <p class="soft">
            This run is not traced from here. On the machine of a running server the command asks
            first what it costs:
          </p>
          <div class="command">
            <code class="mono">{command}</code>
            <Copy text={command} label="Copy" />
          </div>
        </>
      )}
    </div>
  );
}

function Shown({ look, rank }: { readonly look: KernelLook; readonly rank: string }) {
  const costs = look.costs.filter((one) => one.rank === rank);
  const losses = lossesInWords(look);
  return (
    <>
      <div class="part">
        <h2 class="sentence">{headline(look, rank)}</h2>
        <p class="soft">
          {groundOf(look, rank)} <FirstCycle look={look} rank={rank} />
        </p>
      </div>
      <section class="part" aria-label="Phases on the device">
        <h3>
          Phases on the device <span class="caption">per cycle, times in ms</span>
        </h3>
        <Phases look={look} rank={rank} />
      </section>
      <section class="part" aria-label="Time by class">
        <h3>
          Time by class{" "}
          <span class="caption">of all of its kernels; those that ran at once count each</span>
        </h3>
        <Classes look={look} rank={rank} />
      </section>
      {look.costs.length > 0 && (
        <section class="part" aria-label="What the window cost">
          <h3>What the window cost</h3>
          {costs.map((cost) => (
            <p key={cost.rank} class="soft">
              {costInWords(cost)}
            </p>
          ))}
          <Costs look={look} />
        </section>
      )}
      {losses.length > 0 && (
        <section class="part" aria-label="Not in the figures">
          <h3>Not in the figures</h3>
          <ul class="notes">
            {losses.map((sentence) => (
              <li key={sentence}>{sentence}</li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

/** Leads to the first one that began within a look, once the store has said which that is. */
function FirstCycle({ look, rank }: { readonly look: KernelLook; readonly rank: string }) {
  const current = run.value?.run ?? "";
  const of = cycles.value.findLast((cycle) => cycle.ranks.some((each) => each.rank === rank));
  const group = of?.group ?? "";
  const want: Stretch = {
    run: current,
    group,
    fromMs: look.startMs - ROUNDED_MS,
    toMs: look.endMs,
    columns: PARTS,
  };
  const known = of !== undefined;
  useEffect(() => {
    if (known && !seenCycles.of(want)) {
      void seenCycles.ask(want, 0);
    }
  }, [overviewPath(want), known]);
  const first = seenCycles.of(want)?.value?.columns[0];
  if (!first) {
    return null;
  }
  const n = first.cycles === 1 ? first.last : first.slowest;
  const there = formatHash({
    ...place.value,
    tab: "live",
    run: place.value.run ?? current,
    group,
    cycle: n,
    rank,
    // These belong to what was in view before.
    stretch: null,
    measured: null,
  });
  return (
    <>
      <a href={there}>Cycle {whole(n)}</a> is among them.
    </>
  );
}

function Phases({ look, rank }: { readonly look: KernelLook; readonly rank: string }) {
  return (
    <Sideways label="Phases on the device, per cycle">
      <table>
        <thead>
          <tr>
            <th scope="col">phase</th>
            <th scope="col">device</th>
            <th scope="col">busy</th>
            <th scope="col">gaps</th>
            <th scope="col">kernels</th>
            <th scope="col">launches</th>
            <th scope="col">replays</th>
            <th scope="col">a replay</th>
            <th scope="col">cycles</th>
          </tr>
        </thead>
        <tbody>
          {worksOf(look, rank).map((work) => (
            <tr key={work.phase}>
              <th scope="row">
                <Swatch phase={work.phase} lane="device" />
                {phaseLabel(work.phase)}
              </th>
              <td>{msCell(work.deviceMs)}</td>
              <td>{msCell(work.busyMs)}</td>
              <td>{msCell(work.gapMs)}</td>
              <td>{perCycle(work.kernels)}</td>
              <td>{perCycle(work.launches)}</td>
              <td>{perCycle(work.replays)}</td>
              <td>{msCell(work.replayMs)}</td>
              <td>{whole(work.cycles)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Sideways>
  );
}

/** How many there are in a cycle: whole where it is, or where a tenth does not matter. */
function perCycle(value: number): string {
  return Number.isInteger(value) || value >= 99.95 ? whole(value) : fixed(value, 1);
}

function Classes({ look, rank }: { readonly look: KernelLook; readonly rank: string }) {
  const phases = classesOf(look, rank);
  const longest = Math.max(1e-9, ...phases.map((phase) => phase.ms));
  return (
    <>
      <div class="classbars" role="img" aria-label={classesInWords(phases)}>
        {phases.map((one) => (
          <div key={one.phase} class="classrow">
            <span class="cut">{one.phase === "" ? OUTSIDE : phaseLabel(one.phase)}</span>
            <ClassBar phase={one.phase} classes={one.classes} length={one.ms / longest} />
            <span>{ms(one.ms)}</span>
          </div>
        ))}
      </div>
      <Sideways label="Time of kernels by phase and class">
        <table class="classtable">
          <thead>
            <tr>
              <th scope="col">phase</th>
              <th scope="col">class</th>
              <th scope="col">ms, in all</th>
              <th scope="col">of the phase</th>
              <th scope="col">kernels</th>
            </tr>
          </thead>
          <tbody>
            {phases.flatMap(({ phase, classes }) =>
              classes.map((one, number) => (
                <tr key={`${phase} ${one.kernelClass}`}>
                  <th scope="row">
                    {number === 0 ? (
                      <PhaseName phase={phase} />
                    ) : (
                      <span class="unseen">{phase}</span>
                    )}
                  </th>
                  <td>{one.kernelClass}</td>
                  <td>{msCell(one.ms)}</td>
                  <td>{shareCell(one.share)}</td>
                  <td>{whole(one.kernels)}</td>
                </tr>
              )),
            )}
          </tbody>
        </table>
      </Sideways>
    </>
  );
}

function PhaseName({ phase }: { readonly phase: string }) {
  return phase === "" ? (
    <span>{OUTSIDE}</span>
  ) : (
    <>
      <Swatch phase={phase} lane="device" />
      {phaseLabel(phase)}
    </>
  );
}

function classesInWords(phases: readonly PhaseClasses[]): string {
  return phases
    .map(({ phase, classes }) => {
      const parts = classes.map((one) => `${one.kernelClass} ${shareCell(one.share)}`);
      return `${phase === "" ? OUTSIDE : phaseLabel(phase)}: ${parts.join(", ")}`;
    })
    .join("; ");
}

function Costs({ look }: { readonly look: KernelLook }) {
  return (
    <Sideways label="What the window cost each rank">
      <table>
        <thead>
          <tr>
            <th scope="col">rank</th>
            <th scope="col">stood still, ms</th>
            <th scope="col">a cycle before, ms</th>
            <th scope="col">graphs whole</th>
            <th scope="col">kernel by kernel</th>
            <th scope="col">after</th>
          </tr>
        </thead>
        <tbody>
          {look.costs.map((cost) => (
            <tr key={cost.rank}>
              <th scope="row">{cost.rank}</th>
              <td>{msCell(cost.loadingMs + cost.switchingMs + cost.flushingMs)}</td>
              <td>{msCell(cost.beforeMs)}</td>
              <td>{msCell(cost.graphsMs)}</td>
              <td>{msCell(cost.kernelsMs)}</td>
              <td>{msCell(cost.afterMs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Sideways>
  );
}
