// What the strip chart draws: cycle time, accept length and throughput, one point a second.
import { type CycleId, countsForAcceptance, cycleKey, cycleMs, cycleTokens } from "./cycle.ts";
import { ascending, percentile } from "./summary.ts";
import type { Cycle } from "./wire.ts";

const SECOND_MS = 1000;
/** Fewer cycles in a second do not tell what the others gave. */
const ENOUGH = 5;

/** Points of the strip chart; null where nothing is known. */
export interface Columns {
  /** UNIX time of the start of each second, in s. */
  readonly time: number[];
  readonly cycleP5: (number | null)[];
  readonly cycleP50: (number | null)[];
  readonly cycleP95: (number | null)[];
  readonly acceptLength: (number | null)[];
  readonly tokensPerS: (number | null)[];
  /** The longest of the cycles whose times are drawn. */
  readonly slowest: (CycleId | null)[];
}

/** How long a cycle took, in ms. */
interface Duration extends CycleId {
  readonly ms: number;
}

/** The cycles of one group in a second. */
class Part {
  first = Number.POSITIVE_INFINITY;
  last = Number.NEGATIVE_INFINITY;
  cycles = 0;
  tokens = 0;

  count(cycle: Cycle, sign: 1 | -1): void {
    this.first = Math.min(this.first, cycle.n);
    this.last = Math.max(this.last, cycle.n);
    this.cycles += sign;
    this.tokens += sign * (cycleTokens(cycle) ?? 0);
  }

  /** What all cycles gave: where only some are here, as those; null where these are too few. */
  get estimate(): number | null {
    const numbers = this.last - this.first + 1;
    if (this.cycles === numbers || this.cycles === 0) {
      return this.tokens;
    }
    const distance = (numbers - 1) / (this.cycles - 1);
    return this.cycles < ENOUGH ? null : this.tokens * distance;
  }
}

/** How far a group has come by the end of a second. */
interface Reached {
  readonly second: number;
  readonly n: number;
  /** Between the numbers of its cycles. */
  readonly distance: number;
  /** So many of its cycles are here that one would come in every second. */
  readonly dense: boolean;
}

class Bucket {
  /** Of cycles that verify or decode. */
  readonly durations: Duration[] = [];
  readonly parts = new Map<string, Part>();
  verifies = 0;
  correct = 0;

  count(cycle: Cycle, sign: 1 | -1): void {
    const part = this.parts.get(cycle.group) ?? new Part();
    this.parts.set(cycle.group, part);
    part.count(cycle, sign);
    for (const row of cycle.requests ?? []) {
      if (countsForAcceptance(row)) {
        this.verifies += sign;
        this.correct += sign * row.correct;
      }
    }
    if (isDecoding(cycle)) {
      this.#countDuration(cycle, sign);
    }
  }

  /** Of all groups, also of cycles that are not here where enough others are. */
  get tokens(): number {
    return [...this.parts.values()].reduce((sum, part) => sum + (part.estimate ?? 0), 0);
  }

  slowest(): CycleId | null {
    const [first, ...others] = this.durations;
    const longest = others.reduce((one, other) => (other.ms > (one?.ms ?? 0) ? other : one), first);
    return longest ? { group: longest.group, n: longest.n } : null;
  }

  #countDuration(cycle: Cycle, sign: 1 | -1): void {
    if (sign > 0) {
      this.durations.push({ group: cycle.group, n: cycle.n, ms: cycleMs(cycle) });
      return;
    }
    const place = this.durations.findIndex((each) => cycleKey(each) === cycleKey(cycle));
    if (place >= 0) {
      this.durations.splice(place, 1);
    }
  }
}

/** The last `lengthS` seconds of a run, second by second. */
export class Series {
  readonly #lengthS: number;
  readonly #buckets = new Map<number, Bucket>();
  /** Seconds of which not everything was seen, so that sums over them would be too small. */
  readonly #partial = new Set<number>();
  #first: number | null = null;
  #last: number | null = null;

  constructor(lengthS: number) {
    this.#lengthS = lengthS;
  }

  /** Counts a cycle in place of its earlier version, which is null for a new one. */
  put(cycle: Cycle, previous: Cycle | null): void {
    if (previous) {
      this.#buckets.get(secondOf(previous.t0Ms))?.count(previous, -1);
    }
    const second = secondOf(cycle.t0Ms);
    this.#first = Math.min(this.#first ?? second, second);
    this.#last = Math.max(this.#last ?? second, second);
    this.#bucket(second).count(cycle, 1);
  }

  /** Says that cycles which began from `fromMs` to `toMs` (UNIX ms) may be missing. */
  missed(fromMs: number, toMs: number): void {
    const from = Math.max(secondOf(fromMs), secondOf(toMs) - this.#lengthS);
    for (let second = from; second <= secondOf(toMs); second += 1) {
      this.#partial.add(second);
    }
  }

  /**
   * Points up to `nowMs` (UNIX ms), without the running second and the one before it: counts
   * come with the next cycle, and cycles in batches. Forgets what is too old for these and for
   * points up to the newest cycle: of a run that ended long ago it may be said only later when.
   */
  columns(nowMs: number): Columns {
    const end = secondOf(nowMs) - 1;
    const begin = end - this.#lengthS;
    this.#forget(Math.min(begin, (this.#last ?? begin) - this.#lengthS));
    const skipping = this.#skipping();
    const columns: Columns = {
      time: [],
      cycleP5: [],
      cycleP50: [],
      cycleP95: [],
      acceptLength: [],
      tokensPerS: [],
      slowest: [],
    };
    for (let second = begin; second < end; second += 1) {
      columns.time.push(second);
      this.#point(second, columns, skipping);
    }
    return columns;
  }

  /**
   * Seconds in which cycles ran that are not here, as the numbers around them tell: of those that
   * sampling left out, or that were lost. Of one in which some are here, too few.
   */
  #skipping(): ReadonlySet<number> {
    const found = new Set<number>();
    const before = new Map<string, Reached>();
    for (const second of [...this.#buckets.keys()].sort((one, other) => one - other)) {
      for (const [group, part] of this.#buckets.get(second)?.parts ?? []) {
        const { first, last, cycles } = part;
        const earlier = before.get(group);
        const distance = earlier ? first - earlier.n : 1;
        if (part.estimate === null || (cycles === 1 && distance > 1)) {
          found.add(second);
        }
        if (earlier && distance > (earlier.dense ? 2 * earlier.distance : 1)) {
          this.#addBetween(found, earlier.second, second);
        }
        const within = cycles > 1 ? (last - first) / (cycles - 1) : distance;
        before.set(group, { second, n: last, distance: within, dense: cycles >= ENOUGH });
      }
    }
    // Behind the last one the next may be due only later.
    for (const { second, distance, dense } of before.values()) {
      if (distance > 1 && !dense) {
        this.#addBetween(found, second, second + this.#lengthS);
      }
    }
    return found;
  }

  #addBetween(seconds: Set<number>, from: number, to: number): void {
    for (let second = Math.max(from + 1, to - this.#lengthS); second < to; second += 1) {
      seconds.add(second);
    }
  }

  #point(second: number, columns: Columns, skipping: ReadonlySet<number>): void {
    // The very first second began before the first cycle that the page knows.
    const begun = this.#first !== null && second > this.#first;
    const bucket = begun ? this.#buckets.get(second) : undefined;
    const sorted = ascending((bucket?.durations ?? []).map(({ ms }) => ms));
    const at = (percent: number) => (sorted.length > 0 ? percentile(sorted, percent) : null);
    columns.cycleP5.push(at(5));
    columns.cycleP50.push(at(50));
    columns.cycleP95.push(at(95));
    columns.acceptLength.push(
      bucket && bucket.verifies > 0 ? 1 + bucket.correct / bucket.verifies : null,
    );
    columns.slowest.push(bucket?.slowest() ?? null);
    const seen = begun && !this.#partial.has(second) && !skipping.has(second);
    columns.tokensPerS.push(seen ? (bucket?.tokens ?? 0) : null);
  }

  #bucket(second: number): Bucket {
    const bucket = this.#buckets.get(second) ?? new Bucket();
    this.#buckets.set(second, bucket);
    return bucket;
  }

  #forget(before: number): void {
    for (const second of this.#buckets.keys()) {
      if (second < before) {
        this.#buckets.delete(second);
      }
    }
    for (const second of this.#partial) {
      if (second < before) {
        this.#partial.delete(second);
      }
    }
  }
}

/** Points at the end of a column, one a second, that still speak of now: about the last 10 s. */
const RECENT = 8;

/** The newest value of a column; null if all that is known is older than about 10 s. */
export function lastValue(column: readonly (number | null)[]): number | null {
  return column.slice(-RECENT).findLast((value) => value !== null) ?? null;
}

/** One second of the strip chart. */
export interface Second {
  /** UNIX s. */
  readonly time: number;
  readonly cycleP50: number | null;
  readonly acceptLength: number | null;
  readonly tokensPerS: number | null;
}

/** The second at a place of the columns; null beyond their ends. */
export function secondAt(columns: Columns, place: number): Second | null {
  const time = columns.time[place];
  return time === undefined
    ? null
    : {
        time,
        cycleP50: columns.cycleP50[place] ?? null,
        acceptLength: columns.acceptLength[place] ?? null,
        tokensPerS: columns.tokensPerS[place] ?? null,
      };
}

/** Every tenth second of which anything is known, newest first: what a table can hold. */
export function everyTenth(columns: Columns): Second[] {
  return columns.time
    .flatMap((time, place) => (time % 10 === 0 ? [secondAt(columns, place)] : []))
    .filter((second) => second !== null)
    .filter(({ cycleP50, tokensPerS }) => cycleP50 !== null || tokensPerS !== null)
    .toReversed();
}

function isDecoding(cycle: Cycle): boolean {
  const decodes = cycle.kind === "speculative" || cycle.kind === "decode";
  return decodes && cycle.ranks[0]?.incomplete === false;
}

function secondOf(unixMs: number): number {
  return Math.floor(unixMs / SECOND_MS);
}
