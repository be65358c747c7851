// The border to the server for the report of a run: asked for while somebody looks at it.
import { batch, computed, effect } from "@preact/signals";
import { isDue, isSameReport, type Want } from "./lib/asking.ts";
import { decodeReport, type Report } from "./lib/report.ts";
import { isTraced } from "./lib/run.ts";
import {
  asking,
  baselineMs,
  clockMs,
  connection,
  paused,
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

/** Whether cycles may come that change it, and the picture is to follow them. */
const live = computed(
  () =>
    run.value !== null &&
    isTraced(run.value) &&
    paused.value === null &&
    connection.value.kind === "open",
);

/** Asks by itself from now on. */
export function startAsking(): void {
  effect(() => {
    const want = wanted.value;
    const current = live.value && !document.hidden;
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
      reported.value = follows(reported.peek(), want, answer, beganMs);
    });
  }
}

/** What is shown after an answer: where it is a failure, the older report of the run stays. */
function follows(
  before: Reported | null,
  want: Want,
  answer: Report | string,
  beganMs: number,
): Reported {
  const now = Date.now();
  const kept = before && isSameReport(before, want) ? before.report : null;
  const failed = typeof answer === "string";
  return {
    ...want,
    atMs: now,
    tookMs: now - beganMs,
    report: failed ? kept : answer,
    failure: failed ? answer : null,
  };
}

/** The report, or a sentence that says why there is none. */
async function answered(want: Want, signal: AbortSignal): Promise<Report | string> {
  const baseline = want.baselineMs === null ? "" : `?baseline_ms=${want.baselineMs}`;
  const response = await fetch(`api/runs/${encodeURIComponent(want.run)}/report${baseline}`, {
    signal,
  }).catch(() => null);
  if (response === null) {
    return "spectrace does not answer. Read again when it is back.";
  }
  const body: unknown = await response.json().catch(() => null);
  if (!response.ok) {
    const detail = (body as { detail?: unknown } | null)?.detail;
    return typeof detail === "string" ? detail : `The server answered ${response.status}.`;
  }
  try {
    return decodeReport(body);
  } catch {
    return "The report is of a form that this page does not know. Reload the page.";
  }
}
