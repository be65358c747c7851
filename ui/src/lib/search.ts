// What somebody looks for among the cycles, from the words in the search field.
import { countsForAcceptance, cycleMs } from "./cycle.ts";
import type { Cycle } from "./wire.ts";

const UNIT_MS: Readonly<Record<string, number>> = { "": 1, ms: 1, s: 1000, us: 1e-3, µs: 1e-3 };
const NUMBER = String.raw`(\d+(?:\.\d+)?)`;
const TIME = String.raw`${NUMBER}\s*(ms|s|us|µs|)`;
const SLOWER = new RegExp(`^(?:slower than|longer than|slower|over|>)\\s*${TIME}$`, "iu");
const FASTER = new RegExp(`^(?:faster than|shorter than|faster|under|<)\\s*${TIME}$`, "iu");
const FEWER = new RegExp(`^accepted\\s*(?:fewer than|less than|<)\\s*${NUMBER}$`, "iu");
const MORE = new RegExp(`^accepted\\s*(?:more than|>)\\s*${NUMBER}$`, "iu");
const BATCH = /^batch\s*=?\s*(\d+)$/iu;
const CYCLE = /^(?:cycle\s*)?#?(\d{1,3}(?:,\d{3})+|\d+)$/iu;
const KINDS: Readonly<Record<string, string>> = {
  speculative: "speculative",
  decode: "decode",
  extend: "extend",
  prefill: "extend",
  idle: "idle",
};

/** What is looked for: all conditions hold. */
export interface Query {
  /** The number of the one cycle that is meant; null where several may be. */
  readonly n: number | null;
  readonly fits: (cycle: Cycle) => boolean;
}

type Condition = (cycle: Cycle) => boolean;

/**
 * Reads "slower than 35 ms, accepted < 2": conditions between commas, semicolons or "and". A number
 * is a cycle's; words that are no condition are a part of a request's id. Null for nothing.
 */
export function parseQuery(text: string): Query | null {
  const terms = text
    .split(/,\s+|;|\s+and\s+/iu)
    .map((term) => term.trim().replace(/,$/u, ""))
    .filter((term) => term !== "");
  if (terms.length === 0) {
    return null;
  }
  const [only] = terms;
  const n = terms.length === 1 ? numberIn(CYCLE.exec(only ?? "")) : null;
  const conditions = terms.map(condition);
  return { n, fits: (cycle) => conditions.every((fits) => fits(cycle)) };
}

/** How many drafts the verifies of a cycle accepted, on average; null where none was counted. */
export function acceptedDrafts(cycle: Cycle): number | null {
  const rows = (cycle.requests ?? []).filter(countsForAcceptance);
  const correct = rows.reduce((sum, row) => sum + row.correct, 0);
  return rows.length > 0 ? correct / rows.length : null;
}

/**
 * From what is found, oldest first, the one before (-1) or after (1) the cycle at `fromMs`, by its
 * start (UNIX ms); from nowhere, and beyond the last one, it goes on at the other end.
 */
export function nextFound(
  found: readonly Cycle[],
  fromMs: number | null,
  by: 1 | -1,
): Cycle | null {
  const at = fromMs ?? (by < 0 ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY);
  const next =
    by < 0 ? found.findLast(({ t0Ms }) => t0Ms < at) : found.find(({ t0Ms }) => t0Ms > at);
  return next ?? found.at(by < 0 ? -1 : 0) ?? null;
}

function condition(term: string): Condition {
  const slower = timeIn(SLOWER.exec(term));
  const faster = timeIn(FASTER.exec(term));
  const fewer = numberIn(FEWER.exec(term));
  const more = numberIn(MORE.exec(term));
  const batch = numberIn(BATCH.exec(term));
  const n = numberIn(CYCLE.exec(term));
  const kind = KINDS[term.toLowerCase()];
  if (slower !== null) {
    return (cycle) => cycleMs(cycle) > slower;
  }
  if (faster !== null) {
    return (cycle) => cycleMs(cycle) < faster;
  }
  if (fewer !== null) {
    return (cycle) => (acceptedDrafts(cycle) ?? Number.POSITIVE_INFINITY) < fewer;
  }
  if (more !== null) {
    return (cycle) => (acceptedDrafts(cycle) ?? Number.NEGATIVE_INFINITY) > more;
  }
  if (batch !== null) {
    return (cycle) => cycle.batch === batch;
  }
  if (n !== null) {
    return (cycle) => cycle.n === n;
  }
  if (kind !== undefined) {
    return (cycle) => cycle.kind === kind;
  }
  return (cycle) => (cycle.requests ?? []).some(({ id }) => id.includes(term));
}

function timeIn(match: RegExpExecArray | null): number | null {
  return match ? Number(match[1]) * (UNIT_MS[(match[2] ?? "").toLowerCase()] ?? 1) : null;
}

function numberIn(match: RegExpExecArray | null): number | null {
  return match ? Number((match[1] ?? "").replaceAll(",", "")) : null;
}
