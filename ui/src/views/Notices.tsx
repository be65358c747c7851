// Lines that say what is not as it should be, for as long as it is true.
import { secondsToRetry } from "../lib/connection.ts";
import { clock, plural, shortId, whole } from "../lib/format.ts";
import { address, endInWords, lostInWords, lostTotal, modelName, silentRanks } from "../lib/run.ts";
import type { RunState } from "../lib/wire.ts";
import {
  clockMs,
  connection,
  figures,
  misunderstood,
  notFound,
  run,
  server,
  skipped,
  unknownRun,
} from "../state.ts";
import { connect } from "../stream.ts";
import { LookNotice } from "./LookAtKernels.tsx";

const MOST_OF_NAME = 40;

/** All notices that hold now. */
export function Notices() {
  const current = run.value;
  const end = current && endInWords(current);
  const silent = current && silentRanks(current);
  const lost = current ? lostTotal(current) : 0;
  return (
    <div aria-live="polite">
      <Unreachable />
      {unknownRun.value !== null && (
        <Notice>
          <b title={unknownRun.value}>Run {shortId(unknownRun.value)} is not known here.</b>{" "}
          {current &&
            `Shown is ${shortId(modelName(current), MOST_OF_NAME)}, ${shortId(address(current), MOST_OF_NAME)}.`}
        </Notice>
      )}
      {end && (
        <Notice>
          <b>{end.head}</b> {end.text}
        </Notice>
      )}
      {current && !end && current.message && <Notice>{current.message}</Notice>}
      {current && <LookNotice current={current} />}
      {silent && (
        <Notice>
          <b class="bad">A rank is missing.</b> <span title={silentNames(current)}>{silent}</span>
        </Notice>
      )}
      {current && lost > 0 && (
        <Notice>
          <b class="bad">{whole(lost)} lost:</b> {lostInWords(current)} Cycles with holes are left
          out of the figures.
        </Notice>
      )}
      <LostSpans />
      {notFound.value && (
        <Notice>
          <b>Cycle {whole(notFound.value.n)} is not stored.</b> {storedRange()}
        </Notice>
      )}
      {skipped.value > 0 && (
        <Notice>
          This browser was too slow for {plural(skipped.value, "cycle")}: they are stored, but not
          in this picture.
        </Notice>
      )}
      {misunderstood.value && (
        <Notice>
          <b>The server sent something that this page does not know.</b> They may be of different
          versions: reload the page.
        </Notice>
      )}
    </div>
  );
}

function Unreachable() {
  const state = connection.value;
  if (state.kind !== "lost") {
    return null;
  }
  const seconds = secondsToRetry(state, clockMs.value);
  const last = figures.value.lastN;
  return (
    <div class="notice">
      <span class="dot ring" />
      <p>
        <b>spectrace stopped answering at {clock(state.sinceMs)}.</b>{" "}
        {last !== null && `Everything up to cycle ${whole(last)} stays readable here. `}
        {/* Seconds count down in sight only: read aloud they would never end. */}
        <span aria-hidden="true">
          {seconds > 0 ? `Trying again in ${seconds} s.` : "Trying now."}
        </span>
      </p>
      <button type="button" class="button" onClick={connect}>
        Try now
      </button>
    </div>
  );
}

/** What was sent here and is not stored, other than cycles that were whole. */
function LostSpans() {
  const lost = server.value?.lostSpans;
  return (
    <>
      {lost && lost.stored > 0 && (
        <Notice>
          <b class="bad">{plural(lost.stored, "span")} of others could not be stored.</b>{" "}
          {lost.problem}
        </Notice>
      )}
      {lost && lost.refused > 0 && (
        <Notice>
          <b class="bad">{plural(lost.refused, "span")} refused.</b> {lost.reasons}
        </Notice>
      )}
      {lost && lost.unjoined > 0 && (
        <Notice>
          <b class="bad">{plural(lost.unjoined, "cycle")} not stored:</b> the root or all ranks
          never came.
        </Notice>
      )}
      {lost && lost.evicted > 0 && (
        <Notice>
          <b class="bad">{plural(lost.evicted, "cycle")} put together no further:</b> too many spans
          waited for others.
        </Notice>
      )}
      {lost && lost.partial > 0 && (
        <Notice>
          {plural(lost.partial, "time")} a cycle was stored of which spans were late or never came.
        </Notice>
      )}
    </>
  );
}

function Notice(props: { readonly children: preact.ComponentChildren }) {
  return (
    <div class="notice">
      <p>{props.children}</p>
    </div>
  );
}

/** In full: the sentence shortens long names. */
function silentNames(current: RunState): string {
  const silent = current.ranks.filter((rank) => !rank.reporting);
  return silent.map((rank) => rank.name).join(", ");
}

function storedRange(): string {
  const stored = run.value?.stored;
  if (!stored || stored.first_n === null || stored.last_n === null) {
    return "Nothing of this run is stored.";
  }
  return `Stored are ${whole(stored.first_n)} to ${whole(stored.last_n)}.`;
}
