// The one store of the page: what the server said, what is chosen, and what follows from both.
import { batch, computed, type Signal, signal } from "@preact/signals";
import type { Had } from "./lib/asking.ts";
import { axisSpan, type Range } from "./lib/axis.ts";
import { CONNECTING, type Connection } from "./lib/connection.ts";
import { type CycleId, reachMs } from "./lib/cycle.ts";
import { type Goals, goalsOf } from "./lib/goals.ts";
import { type Place, parseHash, type Tab } from "./lib/hash.ts";
import { type Load, loadOf } from "./lib/load.ts";
import { EVERYTHING } from "./lib/look.ts";
import { endOf, Skew, until } from "./lib/now.ts";
import type { Report } from "./lib/report.ts";
import { merged, type TracedRequest } from "./lib/requests.ts";
import { amend, CycleRing, findCycle, merge } from "./lib/ring.ts";
import { isSampled, isTraced } from "./lib/run.ts";
import { type Columns, Series } from "./lib/series.ts";
import { keptShare, newest, summarize } from "./lib/summary.ts";
import { type Timing, timingOf } from "./lib/timing.ts";
import type { Theme } from "./lib/tokens.ts";
import { anchor, pan, zoom } from "./lib/waterfall.ts";
import type { Cycle, RunState, ServerState, Summary } from "./lib/wire.ts";
import { bar, look, oneRun, otherRun, requestId, seenLook } from "./looked.ts";
import { find, layout, marks, measured, stretch } from "./pointing.ts";

/** How long the strip chart looks back, in s. */
export const STRIP_S = 300;

const KEPT_CYCLES = 3000;
const KEPT_REQUESTS = 500;
/** Over how long the figures of the page are taken, in s; the server does the same. */
export const SUMMARY_S = 10;
const MOST_FROZEN = 10_000;
const AXIS_SAMPLE = 200;
const ZOOM_STEP = 1.5;

/** What was collected of one run in this browser. */
interface Collected {
  readonly ring: CycleRing;
  readonly series: Series;
  readonly skew: Skew;
}

/** A picture that stands still. `cycles` are oldest first. */
export interface Paused {
  /** By the browser's clock. */
  readonly atMs: number;
  /** Where the strip chart ends: then, or with a run that had ended. UNIX ms. */
  readonly stripMs: number;
  readonly cycles: readonly Cycle[];
  readonly fresh: number;
  /** Those up to `columnsMs` (UNIX ms, by the clock that stamps the cycles). */
  readonly columns: Columns;
  readonly columnsMs: number;
}

/** A cycle that was asked for by its address and is not stored. */
export interface NotFound {
  readonly n: number;
}

/** The report that came last. */
export interface Reported extends Had {
  /** Of the same run, and before a failure perhaps older; null where none ever came. */
  readonly report: Report | null;
  /** Why the last one did not come, in a sentence; null where it did. */
  readonly failure: string | null;
}

const collected = new Map<string, Collected>();
const initial = parseHash(globalThis.location?.hash ?? "");
let axisMs: number | null = null;

export const tab: Signal<Tab> = signal(initial.tab);
export const connection: Signal<Connection> = signal(CONNECTING);
export const server: Signal<ServerState | null> = signal(null);
export const chosenRun: Signal<string | null> = signal(initial.run);
/** Counts up when cycles of the run in view arrived, at most four times a second. */
export const beat: Signal<number> = signal(0);
/** UNIX ms by the browser's clock, once a second. */
export const clockMs: Signal<number> = signal(Date.now());
export const paused: Signal<Paused | null> = signal(null);
export const selected: Signal<CycleId | null> = signal(
  initial.cycle === null ? null : { group: initial.group, n: initial.cycle },
);
export const notFound: Signal<NotFound | null> = signal(null);
export const themeOverride: Signal<Theme | null> = signal(initial.theme);
export const systemTheme: Signal<Theme> = signal("light");
/** The stretch of the waterfall's axis that the reader chose; null follows the cycles. */
export const zoomed: Signal<Range | null> = signal(null);
/** The name of the opened rank; null is the first. */
export const openRank: Signal<string | null> = signal(initial.rank);
export const onlyOpenRank: Signal<boolean> = signal(false);
/** Cycles that this browser was too slow for. */
export const skipped: Signal<number> = signal(0);
/** What spans of other people say, by their starts. */
export const requests: Signal<readonly TracedRequest[]> = signal([]);
export const reported: Signal<Reported | null> = signal(null);
/** Whether a report is under way. */
export const asking: Signal<boolean> = signal(false);
/** What a person says that plain decode takes, in ms. */
export const baselineMs: Signal<number | null> = signal(initial.baselineMs);
/** The batch size of the what-if; null is the one that took most of the time. */
export const triedBatch: Signal<number | null> = signal(initial.batch);
/** The setting that is tried, as `settingKey` writes it; null is the best. */
export const triedSetting: Signal<string | null> = signal(initial.setting);
/** Whether something arrived that the page does not understand. */
export const misunderstood: Signal<boolean> = signal(false);

export const theme = computed<Theme>(() => themeOverride.value ?? systemTheme.value);

/** The run in view: the chosen one, else the first that still sends, else the first. */
export const run = computed<RunState | null>(() => {
  const runs = server.value?.runs ?? [];
  return (
    runs.find((each) => each.run === chosenRun.value) ??
    runs.find((each) => each.state === "tracing" || each.state === "idle") ??
    runs[0] ??
    null
  );
});

/** The run that the address asks for and the server does not know; another one is in view. */
export const unknownRun = computed<string | null>(() => {
  const id = chosenRun.value;
  const known = server.value?.runs.some((each) => each.run === id) ?? true;
  return known ? null : id;
});

/** Whether cycles may come that change what is shown, and the picture is to follow them. */
export const follows = computed(
  () =>
    run.value !== null &&
    isTraced(run.value) &&
    paused.value === null &&
    connection.value.kind === "open",
);

/** Cycles in view, oldest first: the frozen ones while paused. */
export const cycles = computed<readonly Cycle[]>(() => {
  void beat.value;
  // A copy: what arrives until the next beat must not move under a drawn picture.
  return paused.value?.cycles ?? [...collectedCycles()];
});

/** How the run in view is timed, by the newest cycles in view. */
export const timing = computed<Timing>(() =>
  run.value ? timingOf(run.value, cycles.value) : { modes: [], asked: [], slows: false },
);

/** What the cycles of the last seconds had to do. */
export const load = computed<Load>(() => {
  void beat.value;
  return loadOf(newest(pastCycles(), SUMMARY_S));
});

/** What the figures of the page are taken from. */
export interface Figures {
  readonly summary: Summary | null;
  /** Whether they speak of now; else of the time before the last cycle ended. */
  readonly current: boolean;
  /** Which part of the cycles that ran they are of: sampling leaves some out. */
  readonly share: number;
  /** When the newest cycle ended, UNIX ms; null without any. */
  readonly lastEndMs: number | null;
  readonly lastN: number | null;
  /** When the figures ended if nothing follows: the run ended, or the server is silent. UNIX ms. */
  readonly untilMs: number | null;
}

/** Collected cycles of the run in view up to now, oldest first; none from the future. */
function pastCycles(): readonly Cycle[] {
  const all = collectedCycles();
  const past = until(all, runNowMs());
  return past.length > 0 ? past : all;
}

/** When the run in view ended for this page, UNIX ms; null while more can come. */
const endedMs = computed<number | null>(() => {
  const last = run.value !== null && !isTraced(run.value) ? pastCycles().at(-1) : undefined;
  return last ? endOf(last) : null;
});

/** The server's summary; where it has none, the page's own of the last seconds with cycles. */
export const figures = computed<Figures>(() => {
  const past = pastCycles();
  const last = past.at(-1);
  const lastEndMs = last ? endOf(last) : null;
  const silent = connection.value.kind === "lost" ? connection.value.sinceMs : null;
  const untilMs = endedMs.value ?? silent;
  const sent = run.value?.summary ?? null;
  const recentOnes = newest(past, SUMMARY_S);
  const summary = sent && sent.cycles > 0 ? sent : summarize(recentOnes, SUMMARY_S);
  const share = isSampled(run.value)
    ? (keptShare(recentOnes) ?? 1 / (run.value?.sample_every ?? 1))
    : 1;
  const recent = lastEndMs === null || runNowMs() - lastEndMs < SUMMARY_S * 1000;
  const current = recent || untilMs !== null;
  return { summary, current, share, lastEndMs, lastN: last?.n ?? null, untilMs };
});

/** The newest report of the run in view; null while there is none. */
export const runReport = computed<Report | null>(() =>
  reported.value?.run === run.value?.run ? (reported.value?.report ?? null) : null,
);

/** What speculation has to reach under the load in view; once a second, for it changes slowly. */
export const goals = computed<Goals | null>(() => {
  void clockMs.value;
  void paused.value;
  return goalsOf(cycles.peek(), runReport.value, baselineMs.value);
});

/** Names of the ranks, as the server lists them or as they came. */
export const rankNames = computed<readonly string[]>(() => {
  const listed = run.value?.ranks.map((rank) => rank.name) ?? [];
  const seen = cycles.value.slice(-20).flatMap((cycle) => cycle.ranks.map((rank) => rank.rank));
  return [...new Set([...listed, ...seen])];
});

/** The selected cycle, null while it is not here. */
export const selectedCycle = computed<Cycle | null>(() => {
  const id = unknownRun.value === null ? selected.value : null;
  return id && findCycle(cycles.value, id.group, id.n);
});

/** The stretch of time from a cycle's start that the waterfall shows, in ms. */
export const view = computed<Range>(() => {
  if (zoomed.value) {
    return zoomed.value;
  }
  const sample = cycles.value.slice(-AXIS_SAMPLE);
  const decoding = sample.filter((cycle) => cycle.kind !== "extend" && cycle.kind !== "idle");
  axisMs = axisSpan((decoding.length > 0 ? decoding : sample).map(reachMs), axisMs);
  return { start: 0, end: axisMs };
});

/** Now by the clock that stamps the cycles of the run in view, in UNIX ms. */
function runNowMs(): number {
  return clockMs.value - (of(run.value?.run)?.skew.ms ?? 0);
}

/** The columns that stand still with the picture; null while live, or if they show nothing. */
const frozenColumns = computed<Columns | null>(() => {
  const frozen = paused.value?.columns;
  return frozen?.cycleP50.some((value) => value !== null) ? frozen : null;
});

/** When the strip chart ends, UNIX ms: at the pause, or with a run that ended; null is now. */
export const stripEndMs = computed<number | null>(() =>
  frozenColumns.value && paused.value ? paused.value.stripMs : endedMs.value,
);

/** What the strip chart shows: up to now, or up to the pause. */
export const columns = computed<Columns>(() => frozenColumns.value ?? columnsTo(currentEndMs()));

/** Takes in cycles that arrived, oldest first. */
export function takeCycles(arrived: readonly Cycle[], nowMs: number): void {
  const ends = new Map<Skew, number>();
  let fresh = 0;
  let frozen = paused.value?.cycles;
  for (const cycle of arrived) {
    const { ring, series: strip, skew } = of(cycle.run) ?? start(cycle.run);
    const previous = ring.put(cycle);
    strip.put(cycle, previous);
    if (!previous) {
      ends.set(skew, endOf(cycle));
    }
    if (cycle.run === run.value?.run) {
      fresh += previous ? 0 : 1;
      frozen = frozen && amend(frozen, cycle);
    }
  }
  for (const [skew, endMs] of ends) {
    skew.put(nowMs - endMs);
  }
  if (paused.value && frozen) {
    paused.value = { ...paused.value, cycles: frozen, fresh: paused.value.fresh + fresh };
  }
}

/** Takes in stored cycles that are older than what arrived; does not count them as new. */
export function takePast(stored: readonly Cycle[]): void {
  for (const cycle of stored) {
    const { ring, series: strip } = of(cycle.run) ?? start(cycle.run);
    if (!ring.has(cycle)) {
      ring.put(cycle);
      strip.put(cycle, null);
    }
  }
  const mine = stored.filter((cycle) => cycle.run === run.value?.run);
  if (paused.value && mine.length > 0) {
    // What lies before it moves nothing in a picture that stands still.
    const { cycles: frozen, columnsMs } = paused.value;
    paused.value = { ...paused.value, cycles: merge(mine, frozen), columns: columnsTo(columnsMs) };
  }
}

/** Takes in what the server says about itself. */
export function takeState(state: ServerState): void {
  server.value = state;
}

/** Takes in requests that are new, or of which more is known. */
export function takeRequests(arrived: readonly TracedRequest[]): void {
  if (arrived.length > 0) {
    requests.value = merged(requests.value, arrived, KEPT_REQUESTS);
  }
}

/** Notes that cycles between these UNIX times (ms, browser's clock) may never arrive. */
export function takeOutage(fromMs: number, toMs: number): void {
  for (const { series: strip, skew } of collected.values()) {
    strip.missed(fromMs - skew.ms, toMs - skew.ms);
  }
}

/** Stands still. */
export function pause(): void {
  if (!paused.value) {
    const atMs = Date.now();
    const columnsMs = currentEndMs();
    paused.value = {
      atMs,
      stripMs: endedMs.value ?? atMs,
      cycles: [...collectedCycles()],
      fresh: 0,
      columns: columnsTo(columnsMs),
      columnsMs,
    };
  }
}

/** Goes on; what is selected stays selected as long as it is stored. */
export function resume(): void {
  // Before the pause ends: a stretch in view holds the picture.
  stretch.value = null;
  paused.value = null;
  notFound.value = null;
  beat.value += 1;
}

/** Pauses or goes on. */
export function togglePause(): void {
  if (paused.value) {
    resume();
  } else {
    pause();
  }
}

/** Puts stored cycles into the picture that stands still. */
export function takeStored(stored: readonly Cycle[]): void {
  pause();
  const now = paused.value;
  if (now && now.cycles.length < MOST_FROZEN) {
    paused.value = { ...now, cycles: merge(stored, now.cycles) };
  }
}

/** Selects a cycle; the picture stands still, for a selected cycle must not run away. */
export function select(id: CycleId | null): void {
  batch(() => {
    notFound.value = null;
    if (id) {
      // Whoever selects in the run in view means that one, whatever the address asked for.
      chosenRun.value = unknownRun.value === null ? chosenRun.value : (run.value?.run ?? null);
      pause();
    }
    selected.value = id;
  });
}

/**
 * Shows a shorter stretch of each cycle for a positive number of steps, else a longer one. `time`
 * (ms from the start of the cycle) stays where it is if it is in view, else the middle does.
 */
export function zoomBy(steps: number, time: number | null): void {
  zoomed.value = zoom(view.value, ZOOM_STEP ** -steps, anchor(view.value, time));
}

/** Moves along the cycles by a share of what is in view. */
export function panBy(share: number): void {
  const reach = Math.max(view.value.end - view.value.start, ...cycles.value.map(reachMs));
  zoomed.value = pan(view.value, share, reach);
}

/** Shows another run. */
export function chooseRun(id: string): void {
  selected.value = null;
  zoomed.value = null;
  openRank.value = null;
  baselineMs.value = null;
  triedBatch.value = null;
  triedSetting.value = null;
  look.value = EVERYTHING;
  bar.value = null;
  requestId.value = null;
  seenLook.value = null;
  measured.value = null;
  marks.value = [];
  chosenRun.value = id;
  resume();
}

/** What the address should say. */
export const place = computed<Place>(() => ({
  tab: tab.value,
  run: chosenRun.value ?? (namesCycles() ? (run.value?.run ?? null) : null),
  group: selected.value?.group ?? "",
  cycle: selected.value?.n ?? null,
  theme: themeOverride.value,
  baselineMs: baselineMs.value,
  batch: triedBatch.value,
  setting: triedSetting.value,
  look: look.value,
  bar: bar.value,
  request: requestId.value,
  one: oneRun.value,
  other: otherRun.value,
  layout: layout.value,
  stretch: stretch.value,
  measured: measured.value,
  marks: marks.value,
  find: find.value,
  rank: openRank.value,
  seen: seenLook.value,
}));

/** Whether the address names cycles, which mean nothing without their run. */
function namesCycles(): boolean {
  const named = selected.value ?? stretch.value ?? measured.value;
  return named !== null || marks.value.length > 0;
}

/** Follows an address that was typed or gone back to. */
export function goTo(target: Place): void {
  themeOverride.value = target.theme;
  if (target.run !== null && target.run !== chosenRun.value) {
    chooseRun(target.run);
  }
  tab.value = target.tab;
  baselineMs.value = target.baselineMs;
  triedBatch.value = target.batch;
  triedSetting.value = target.setting;
  look.value = target.look;
  bar.value = target.bar;
  requestId.value = target.request;
  oneRun.value = target.one;
  otherRun.value = target.other;
  layout.value = target.layout;
  stretch.value = target.stretch;
  measured.value = target.measured;
  marks.value = target.marks;
  find.value = target.find;
  openRank.value = target.rank;
  seenLook.value = target.seen;
  const same = target.cycle === selected.value?.n && target.group === selected.value?.group;
  if (unknownRun.value !== null) {
    selected.value = target.cycle === null ? null : { group: target.group, n: target.cycle };
  } else if (!same && (target.cycle !== null || selected.value)) {
    select(target.cycle === null ? null : { group: target.group, n: target.cycle });
  }
}

function collectedCycles(): readonly Cycle[] {
  return of(run.value?.run)?.ring.cycles ?? [];
}

/** The columns of the run in view up to `nowMs`, by its own clock. */
function columnsTo(nowMs: number): Columns {
  return (of(run.value?.run)?.series ?? new Series(STRIP_S)).columns(nowMs);
}

/** Where the columns end: now, or after the last cycle of a run that ended. UNIX ms. */
function currentEndMs(): number {
  // So that the strip leaves out the second in which the run ended, of which only a part was seen.
  return endedMs.value === null ? runNowMs() : endedMs.value + 1000;
}

function of(id: string | undefined): Collected | undefined {
  return id === undefined ? undefined : collected.get(id);
}

function start(id: string): Collected {
  const fresh = { ring: new CycleRing(KEPT_CYCLES), series: new Series(STRIP_S), skew: new Skew() };
  collected.set(id, fresh);
  return fresh;
}
