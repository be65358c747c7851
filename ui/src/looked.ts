// What is picked in the views of stored cycles, and what the server said of it.
import { type Signal, signal } from "@preact/signals";
import { type Comparison, decodeComparison } from "./lib/comparison.ts";
import { parseHash } from "./lib/hash.ts";
import { type Bar, barQuery, formatBar, type Look, lookQuery } from "./lib/look.ts";
import { decodeTracedPage, type TracedPage } from "./lib/requests.ts";
import {
  decodeHistory,
  decodeServedPage,
  type History,
  type ServedKey,
  type ServedPage,
  withPage,
} from "./lib/served.ts";
import { type BarPage, decodeBarPage, decodeSpread, type Spread } from "./lib/spread.ts";
import { Question } from "./question.ts";

const TRACED_PATH = "requests/stored";
const initial = parseHash(globalThis.location?.hash ?? "");

export const look: Signal<Look> = signal(initial.look);
export const bar: Signal<Bar | null> = signal(initial.bar);
/** The request whose cycles are shown. */
export const requestId: Signal<string | null> = signal(initial.request);

/** The look at kernels that is shown, by the whole UNIX ms of its begin; null is the newest. */
export const seenLook: Signal<number | null> = signal(initial.seen);

/** The runs that are held against each other; null is the one that offers itself. */
export const oneRun: Signal<string | null> = signal(initial.one);
export const otherRun: Signal<string | null> = signal(initial.other);

/** Two runs. */
export interface Pair {
  readonly one: string;
  readonly other: string;
}

/** What is picked of a run. */
export interface Picked {
  readonly run: string;
  readonly look: Look;
}

/** A bar of it. */
export interface PickedBar extends Picked {
  readonly bar: Bar;
}

/** The requests of a group. */
export interface Group {
  readonly run: string;
  readonly group: string;
}

/** One of them. */
export interface PickedRequest extends Group {
  readonly id: string;
}

export const spread = new Question<Picked, Spread>({
  key: ({ run, look: picked }) => `${run} ${lookQuery(picked)}`,
  path: ({ run, look: picked }) => `${ofRun(run)}/distribution?${lookQuery(picked)}`,
  decode: decodeSpread,
});

export const barCycles = new Question<PickedBar, BarPage>({
  key: (want) => `${want.run} ${lookQuery(want.look)} ${formatBar(want.bar)}`,
  path: (want) => barPath(want, null),
  decode: decodeBarPage,
});

export const served = new Question<Group, ServedPage>({
  key: ({ run, group }) => `${run} ${group}`,
  path: (want) => servedPath(want, null),
  decode: decodeServedPage,
  // Pages that were read stay when the first one is read again.
  follow: (before, next) => ({
    ...next,
    requests: withPage(before.requests, next.requests),
    before: before.requests.length > next.requests.length ? before.before : next.before,
  }),
});

export const history = new Question<PickedRequest, History>({
  key: ({ run, group, id }) => `${run} ${group} ${id}`,
  path: (want) => historyPath(want, null),
  decode: decodeHistory,
});

/** Requests as others traced them, of all runs. */
export const traced = new Question<null, TracedPage>({
  key: () => "",
  path: () => TRACED_PATH,
  decode: decodeTracedPage,
  follow: (before, next) => joinTraced(next, before),
});

/** Further requests that others traced. */
export function moreTraced(): void {
  const before = traced.had.value?.value?.before ?? null;
  if (before !== null) {
    void traced.more(`${TRACED_PATH}?before=${before}`, (known, page) => ({
      ...joinTraced(known, page),
      before: page.before,
    }));
  }
}

/** The first with those of the second that it has not; a page that was read before goes on below. */
function joinTraced(one: TracedPage, other: TracedPage): TracedPage {
  const known = new Set(one.requests.map(({ trace }) => trace));
  const rest = other.requests.filter(({ trace }) => !known.has(trace));
  return { requests: [...one.requests, ...rest], before: other.before };
}

export const comparison = new Question<Pair, Comparison>({
  key: ({ one, other }) => `${one} ${other}`,
  path: ({ one, other }) => `compare?${new URLSearchParams({ one, other })}`,
  decode: decodeComparison,
});

/** Further cycles of the bar. */
export function moreOfBar(): void {
  const had = barCycles.had.value;
  const before = had?.value?.before ?? null;
  if (had && before !== null) {
    void barCycles.more(barPath(had.want, before), (known, page) => ({
      ...page,
      cycles: [...known.cycles, ...page.cycles],
    }));
  }
}

/** Further requests. */
export function moreRequests(): void {
  const had = served.had.value;
  const before = had?.value?.before ?? null;
  if (had && before) {
    void served.more(servedPath(had.want, before), (known, page) => ({
      ...page,
      requests: withPage(known.requests, page.requests),
    }));
  }
}

/** Earlier cycles of the request. */
export function moreHistory(): void {
  const had = history.had.value;
  const before = had?.value?.before ?? null;
  if (had && before !== null) {
    void history.more(historyPath(had.want, before), (known, page) => ({
      ...page,
      cycles: [...known.cycles, ...page.cycles],
    }));
  }
}

function ofRun(run: string): string {
  return `runs/${encodeURIComponent(run)}`;
}

function barPath(want: PickedBar, before: number | null): string {
  return `${ofRun(want.run)}/distribution/cycles?${barQuery(want.look, want.bar, before)}`;
}

function servedPath({ run, group }: Group, before: ServedKey | null): string {
  const query = new URLSearchParams(group === "" ? {} : { group });
  if (before) {
    query.set("before_n", String(before[0]));
    query.set("before_id", before[1]);
  }
  return `${ofRun(run)}/requests?${query}`;
}

function historyPath({ run, group, id }: PickedRequest, before: number | null): string {
  const query = new URLSearchParams({ id, ...(group === "" ? {} : { group }) });
  if (before !== null) {
    query.set("before", String(before));
  }
  return `${ofRun(run)}/request?${query}`;
}
