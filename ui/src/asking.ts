// The border to the server for the report of a run: asked for while somebody looks at it.
import { batch, computed, effect } from "@preact/signals";
import { type Answer, fetched } from "./fetching.ts";
import { isDue, isSameReport, type Want } from "./lib/asking.ts";
import { decodeReport, type Report } from "./lib/report.ts";
import {
  asking,
  baselineMs,
  clockMs,
  follows,
  type Reported,
  reported,
  run,
  tab,
} from "./state.ts";

/** A report that is under way. */
interface Under {
  readonly want: Want;
  readonly gone: AbortController;
}

let under: Under | null = null;

/** What is looked at; null while nobody does. */
const wanted = computed<Want | null>(() => {
  const current = run.value;
  return tab.value === "verdict" && current
    ? { run: current.run, baselineMs: baselineMs.value, stored: current.stored.cycles }
    : null;
});

/** Asks by itself from now on. */
export function startAsking(): void {
  effect(() => {
    const want = wanted.value;
    const current = follows.value && !document.hidden;
    if (want && isDue(want, reported.value, current, clockMs.value)) {
      void ask(want);
    }
  });
}

/** Asks at once, whatever is here already. */
export function askAgain(): void {
  if (wanted.value) {
    void ask(wanted.value);
  }
}

async function ask(want: Want): Promise<void> {
  if (under && isSameReport(under.want, want)) {
    return;
  }
  under?.gone.abort();
  const mine: Under = { want, gone: new AbortController() };
  under = mine;
  asking.value = true;
  const beganMs = Date.now();
  const answer = await answered(want, mine.gone.signal);
  if (under === mine) {
    under = null;
    batch(() => {
      asking.value = false;
      reported.value = reportAfter(reported.peek(), want, answer, beganMs);
    });
  }
}

/** What is shown after an answer: where it is a failure, the older report of the run stays. */
function reportAfter(
  before: Reported | null,
  want: Want,
  answer: Answer<Report>,
  beganMs: number,
): Reported {
  const now = Date.now();
  const kept = before && isSameReport(before, want) ? before.report : null;
  return {
    ...want,
    atMs: now,
    tookMs: now - beganMs,
    report: "value" in answer ? answer.value : kept,
    failure: "value" in answer ? null : answer.failure,
  };
}

/** The report, or why there is none. */
function answered(want: Want, signal: AbortSignal): Promise<Answer<Report>> {
  const baseline = want.baselineMs === null ? "" : `?baseline_ms=${want.baselineMs}`;
  return fetched(`runs/${encodeURIComponent(want.run)}/report${baseline}`, decodeReport, signal);
}
