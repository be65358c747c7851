// The selected cycle in full: its phases, its ranks, its requests.
import { useSignal } from "@preact/signals";
import { cycleMs, lateness, servedRows } from "../lib/cycle.ts";
import { clock, lateMs, ms, msCell, plural, whole } from "../lib/format.ts";
import { contextInWords, paddedInWords } from "../lib/load.ts";
import { modesOf, oddTiming } from "../lib/timing.ts";
import { turnover } from "../lib/turnover.ts";
import type { Cycle, RankCycle, RequestRow } from "../lib/wire.ts";
import { layout } from "../pointing.ts";
import { cycles, openRank, select, selectedCycle } from "../state.ts";
import { Term } from "./Card.tsx";
import { Copy, CopyLink } from "./Copy.tsx";
import { Dots } from "./Dots.tsx";
import { MadeOf } from "./MadeOf.tsx";
import { Measured } from "./Measured.tsx";
import { Phases } from "./Phases.tsx";
import { RequestLink } from "./stored/RequestLink.tsx";
import { measuredAtRest } from "./timeline/model.ts";

const FIRST_REQUESTS = 24;
const FIRST_CAME = 8;
const NS_PER_MS = 1e6;

/** What is measured, and the selected cycle; nothing while there is neither. */
export function Drawer() {
  const cycle = selectedCycle.value;
  const range = layout.value === "time" ? measuredAtRest.value : null;
  if (range) {
    return (
      <aside class="side" aria-label="Measured">
        <Measured range={range} />
      </aside>
    );
  }
  return cycle ? (
    <aside class="side" aria-label={`Cycle ${whole(cycle.n)}`}>
      <Title cycle={cycle} />
      <Gain cycle={cycle} />
      <Start key={`${cycle.group} ${cycle.n}`} cycle={cycle} />
      <Phases cycle={cycle} />
      <MadeOf cycle={cycle} />
      {cycle.ranks.length > 1 && <Ranks cycle={cycle} />}
      <Requests key={cycle.n} cycle={cycle} />
    </aside>
  ) : null;
}

/** Selects the cycle that lies `by` places after the selected one. */
function step(by: number): void {
  const cycle = selectedCycle.value;
  const place = cycle ? cycles.value.indexOf(cycle) : -1;
  const next = place < 0 ? undefined : cycles.value[place + by];
  if (next) {
    select({ group: next.group, n: next.n });
  }
}

function Title({ cycle }: { readonly cycle: Cycle }) {
  const place = cycles.value.indexOf(cycle);
  const padded = paddedInWords(cycle);
  const context = contextInWords(cycle);
  const odd = oddTiming(cycle);
  return (
    <div class="section">
      <div class="title">
        <div>
          <h2>Cycle {whole(cycle.n)}</h2>
          <p class="caption">
            {cycle.kind}, batch {whole(cycle.batch)}
            {padded && ` ${padded}`}
            {cycle.group && `, group ${cycle.group}`}, {clock(cycle.t0Ms, true)}
          </p>
          <p class="caption">
            {ms(cycleMs(cycle))}, timing {modesOf(cycle)}
            {odd && ` (${odd})`}
          </p>
          {context && <p class="caption">{context}</p>}
        </div>
        <div class="steps">
          <button
            type="button"
            class="button plain icon"
            aria-label="Cycle before"
            title="Cycle before"
            disabled={place <= 0}
            onClick={() => step(-1)}
          >
            ‹
          </button>
          <button
            type="button"
            class="button plain icon"
            aria-label="Cycle after"
            title="Cycle after"
            disabled={place >= cycles.value.length - 1}
            onClick={() => step(1)}
          >
            ›
          </button>
          <button
            type="button"
            class="button plain icon"
            aria-label="Close"
            title="Close"
            onClick={() => select(null)}
          >
            ✕
          </button>
        </div>
      </div>
      <CopyLink />
    </div>
  );
}

function Gain({ cycle }: { readonly cycle: Cycle }) {
  const rows = servedRows(cycle);
  const tokens = rows.reduce((sum, row) => sum + row.tokens, 0);
  const correct = rows.reduce((sum, row) => sum + (row.overshoot ? 0 : (row.correct ?? 0)), 0);
  const verified = rows.filter((row) => row.correct !== null && !row.overshoot).length;
  const only = rows.length === 1 ? rows[0] : undefined;
  return (
    <div class="section between">
      {cycle.requests === null ? (
        <span class="soft">What was accepted is not counted.</span>
      ) : (
        <span>
          <b>{plural(tokens, "token")}</b>{" "}
          <span class="soft">
            {verified > 0 &&
              `${plural(correct, "draft")} accepted in ${plural(verified, "verify", "verifies")}`}
          </span>
        </span>
      )}
      {only && only.correct !== null && <Dots row={only} steps={cycle.steps} />}
    </div>
  );
}

/** Who came into the batch with this cycle, and who was gone by then. */
function Start({ cycle }: { readonly cycle: Cycle }) {
  const all = useSignal(false);
  const found = turnover(cycles.value, cycles.value.indexOf(cycle));
  if (!found) {
    return null;
  }
  const { before, came, left } = found;
  const most = all.value ? Number.POSITIVE_INFINITY : FIRST_CAME;
  const more = [came, left].reduce((sum, ids) => sum + Math.max(0, ids.length - most), 0);
  return (
    <section class="section" aria-label="Around its start">
      <h3>
        <Term about="The requests of this cycle's batch against those of the decoding cycle before it. One that was gone had finished, or gave way to others.">
          Around its start
        </Term>{" "}
        <span class="caption">against cycle {whole(before)}</span>
      </h3>
      {came.length + left.length === 0 && <p class="soft">The same requests as before.</p>}
      <Turned word="came" ids={came.slice(0, most)} />
      <Turned word="gone" ids={left.slice(0, most)} />
      {more > 0 && (
        <button
          type="button"
          class="button"
          onClick={() => {
            all.value = true;
          }}
        >
          Show {whole(more)} more
        </button>
      )}
    </section>
  );
}

function Turned({ word, ids }: { readonly word: string; readonly ids: readonly string[] }) {
  return ids.length > 0 ? (
    <p class="turned">
      <span class="soft">{word}</span>
      {ids.map((id) => (
        <RequestLink key={id} id={id} inList={true} />
      ))}
    </p>
  ) : null;
}

function Ranks({ cycle }: { readonly cycle: Cycle }) {
  const late = lateness(cycle);
  const sorted = cycle.ranks.toSorted(
    (one, other) => (late.get(other.rank) ?? 0) - (late.get(one.rank) ?? 0),
  );
  const open = openRank.value ?? cycle.ranks[0]?.rank;
  return (
    <div class="section">
      <h3>
        Ranks{" "}
        <span class="caption cut" title={cycle.ranks[0]?.rank}>
          start against {cycle.ranks[0]?.rank}
        </span>
      </h3>
      <table>
        <thead>
          <tr>
            <th scope="col">rank</th>
            <th scope="col">late by</th>
            <th scope="col">cycle, ms</th>
            <th scope="col">probe, µs</th>
          </tr>
        </thead>
        <tbody>
          {sorted.map((rank) => (
            <tr key={rank.rank} class={rank.rank === open ? "chosen" : ""}>
              <th scope="row">
                <button
                  type="button"
                  class="term cut name"
                  title={`Show the phases of ${rank.rank}`}
                  onClick={() => {
                    openRank.value = rank.rank;
                  }}
                >
                  {rank.rank}
                </button>
                {rank.incomplete && <span class="bad"> incomplete</span>}
              </th>
              <td>{lateText(rank, cycle, late)}</td>
              <td>{msCell((rank.end - rank.start) / NS_PER_MS)}</td>
              <td>{whole(rank.probeNs / 1000)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function lateText(rank: RankCycle, cycle: Cycle, late: ReadonlyMap<string, number>): string {
  return rank.rank === cycle.ranks[0]?.rank ? "–" : lateMs(late.get(rank.rank) ?? 0);
}

function Requests({ cycle }: { readonly cycle: Cycle }) {
  const all = useSignal(false);
  const rows = cycle.requests ?? [];
  const shown = all.value ? rows : rows.slice(0, FIRST_REQUESTS);
  return (
    <div class="section">
      <h3>
        Requests <span class="caption">{whole(cycle.batch)} in the batch</span>
      </h3>
      {cycle.requests === null ? (
        <p class="caption">
          Counts come with the results, which the overlap scheduler processes a cycle later.
        </p>
      ) : (
        <table class="requests">
          <thead>
            <tr>
              <th scope="col">request</th>
              <th scope="col">drafts</th>
              <th scope="col">tokens</th>
              <th scope="col">
                <span class="unseen">copy</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <Request key={row.id} row={row} steps={cycle.steps} />
            ))}
          </tbody>
        </table>
      )}
      {rows.length > shown.length && (
        <button
          type="button"
          class="button"
          onClick={() => {
            all.value = true;
          }}
        >
          Show all {whole(rows.length)}
        </button>
      )}
    </div>
  );
}

function Request({ row, steps }: { readonly row: RequestRow; readonly steps: number }) {
  return (
    <tr>
      <th scope="row">
        <RequestLink id={row.id} inList={!row.health} />
        {row.health && <span class="caption"> health check</span>}
        {row.overshoot && (
          <Term
            class="caption"
            about="The request had ended before this result was processed. Left out of acceptance figures."
          >
            {" "}
            overshoot
          </Term>
        )}
      </th>
      <td>
        <Dots row={row} steps={steps} />
      </td>
      <td>{whole(row.tokens)}</td>
      <td>
        <Copy text={row.id} label="Copy" class="small" />
      </td>
    </tr>
  );
}
