// Requests as stored cycles tell of them: read, and their acceptance over their lives.
import { flag, list, maybeNumber, number, object, text, texts, WireError } from "./json.ts";
import { unixMs } from "./wire.ts";

const NS_PER_MS = 1e6;
const MOST_STRETCHES = 60;
/** Verifies below which a mean says little. */
const FEWEST = 5;

/** What all stored cycles gave to a request. */
export interface Served {
  readonly id: string;
  readonly cycles: number;
  readonly verifies: number;
  readonly correct: number;
  readonly tokens: number;
  readonly firstN: number;
  readonly lastN: number;
  /** UNIX ms at which its first cycle began. */
  readonly t0Ms: number;
  readonly lengthMs: number;
}

/** What one cycle gave to it; `startMs` counts from its `t0Ms`. */
export interface ServedCycle {
  readonly n: number;
  readonly startMs: number;
  readonly ms: number;
  readonly batch: number;
  readonly steps: number;
  /** Null where nothing was verified. */
  readonly correct: number | null;
  readonly tokens: number;
  readonly overshoot: boolean;
}

/** Where the next page begins. */
export type ServedKey = readonly [lastN: number, id: string];

/** Some requests, the one that was served last first. */
export interface ServedPage {
  readonly groups: readonly string[];
  readonly requests: readonly Served[];
  readonly before: ServedKey | null;
}

/** A request and some of its cycles, the newest first. */
export interface History {
  readonly request: Served;
  readonly cycles: readonly ServedCycle[];
  readonly before: number | null;
}

/** Reads a page of requests. */
export function decodeServedPage(value: unknown): ServedPage {
  const page = object(value, "requests");
  const before = page["before"] ?? null;
  return {
    groups: texts(page, "groups"),
    requests: list(page["requests"], "requests").map(decodeServed),
    before: before === null ? null : decodeKey(before),
  };
}

/** Reads one request and its cycles. */
export function decodeHistory(value: unknown): History {
  const history = object(value, "request");
  return {
    request: decodeServed(history["request"]),
    cycles: list(history["cycles"], "cycles").map(decodeCycle),
    before: maybeNumber(history, "before"),
  };
}

function decodeKey(value: unknown): ServedKey {
  const [lastN, id] = list(value, "before");
  if (typeof lastN !== "number" || typeof id !== "string") {
    throw new WireError("before is not [number, id]");
  }
  return [lastN, id];
}

function decodeServed(value: unknown): Served {
  const request = object(value, "request");
  return {
    id: text(request, "id"),
    cycles: number(request, "cycles"),
    verifies: number(request, "verifies"),
    correct: number(request, "correct"),
    tokens: number(request, "tokens"),
    firstN: number(request, "first_n"),
    lastN: number(request, "last_n"),
    t0Ms: unixMs(text(request, "t0")),
    lengthMs: number(request, "length_ns") / NS_PER_MS,
  };
}

function decodeCycle(value: unknown): ServedCycle {
  const row = list(value, "cycle");
  const [n, startMs, ms, batch, steps] = row.slice(0, 5).map((cell) => {
    if (typeof cell !== "number") {
      throw new WireError("a cycle of a request is not made of numbers");
    }
    return cell;
  }) as [number, number, number, number, number];
  const rest = object({ correct: row[5], tokens: row[6], overshoot: row[7] }, "cycle");
  return {
    n,
    startMs: startMs / NS_PER_MS,
    ms: ms / NS_PER_MS,
    batch,
    steps,
    correct: maybeNumber(rest, "correct"),
    tokens: number(rest, "tokens"),
    overshoot: flag(rest, "overshoot"),
  };
}

/** (correct drafts + verifies) / verifies; null where nothing was verified. */
export function acceptLength({ verifies, correct }: Served): number | null {
  return verifies > 0 ? (correct + verifies) / verifies : null;
}

/** A stretch of a request's life; `length` is the accept length in it. */
export interface Stretch {
  readonly fromMs: number;
  readonly toMs: number;
  readonly verifies: number;
  readonly length: number;
}

/**
 * The accept length of a request over its life, oldest first: of equally many verifies in a row,
 * at least five where it has so many, in at most sixty stretches.
 */
export function overLife(cycles: readonly ServedCycle[]): readonly Stretch[] {
  const verified = cycles
    .filter(({ correct, overshoot }) => correct !== null && !overshoot)
    .toSorted((one, other) => one.n - other.n);
  const each = Math.max(FEWEST, Math.ceil(verified.length / MOST_STRETCHES));
  // What is left over would be a stretch of few: all are made as long as that takes.
  const count = Math.max(1, Math.floor(verified.length / each));
  const edge = (place: number) => Math.round((place * verified.length) / count);
  return Array.from({ length: count }, (_, place) => verified.slice(edge(place), edge(place + 1)))
    .filter((part) => part.length > 0)
    .map((part) => ({
      fromMs: part[0]?.startMs ?? 0,
      toMs: endOf(part.at(-1)),
      verifies: part.length,
      length: part.reduce((sum, row) => sum + (row.correct ?? 0), 0) / part.length + 1,
    }));
}

function endOf(row: ServedCycle | undefined): number {
  return row ? row.startMs + row.ms : 0;
}

/** The most tokens that a verify of these could give. */
export function mostLength(cycles: readonly ServedCycle[]): number {
  return 1 + cycles.reduce((most, row) => Math.max(most, row.steps, row.correct ?? 0), 1);
}

/** Requests whose ids hold a text, in whatever case. */
export function found(requests: readonly Served[], part: string): readonly Served[] {
  const wanted = part.trim().toLowerCase();
  return wanted === "" ? requests : requests.filter(({ id }) => id.toLowerCase().includes(wanted));
}

/** The pages so far with the next one; what is there already counts as it came last. */
export function withPage(known: readonly Served[], page: readonly Served[]): readonly Served[] {
  const byId = new Map([...known, ...page].map((each) => [each.id, each]));
  return [...byId.values()].toSorted(
    (one, other) => other.lastN - one.lastN || (one.id < other.id ? 1 : -1),
  );
}
