// What the strip chart draws: cycle time, accept length and throughput, one point a second.
import { type CycleId, countsForAcceptance, cycleKey, cycleMs, cycleTokens } from "./cycle.ts";
import { ascending, percentile } from "./summary.ts";
import type { Cycle } from "./wire.ts";

const SECOND_MS = 1000;
/** Fewer cycles do not tell what the others gave. */
const ENOUGH = 5;
/** So many seconds before and behind one are looked at where it has too few. */
const REACH_S = 5;
/** Distances of cycles in a row differ by no more than that, unless some were lost. */
const UNEVEN = 2;

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
  /** Numbers and UNIX ms of the first and of the last one. */
  first = Number.POSITIVE_INFINITY;
  last = Number.NEGATIVE_INFINITY;
  firstMs = Number.POSITIVE_INFINITY;
  lastMs = Number.NEGATIVE_INFINITY;
  cycles = 0;
  tokens = 0;

  count(cycle: Cycle, sign: 1 | -1): void {
    this.first = Math.min(this.first, cycle.n);
    this.last = Math.max(this.last, cycle.n);
    this.firstMs = Math.min(this.firstMs, cycle.t0Ms);
    this.lastMs = Math.max(this.lastMs, cycle.t0Ms);
    this.cycles += sign;
    this.tokens += sign * (cycleTokens(cycle) ?? 0);
  }

  /** What all cycles gave: where only some are here, as those; null where these are too few. */
  get estimate(): number | null {
    if (this.cycles === this.last - this.first + 1 || this.cycles === 0) {
      return this.tokens;
    }
    return this.cycles < ENOUGH ? null : this.tokens * this.distance;
  }

  /** Between the numbers of two cycles in a row, the mean. */
  get distance(): number {
    return (this.last - this.first) / (this.cycles - 1);
  }

  /** What all cycles gave per second, from the first that is here to the last; null in no time. */
  get tokensPerS(): number | null {
    const seconds = (this.lastMs - this.firstMs) / SECOND_MS;
    const tokens = (this.tokens / this.cycles) * (this.last - this.first);
    return seconds > 0 ? tokens / seconds : null;
  }
}

/** Parts of seconds in a row as one. */
function together(parts: readonly Part[]): Part {
  const whole = new Part();
  for (const part of parts) {
    whole.first = Math.min(whole.first, part.first);
    whole.last = Math.max(whole.last, part.last);
    whole.firstMs = Math.min(whole.firstMs, part.firstMs);
    whole.lastMs = Math.max(whole.lastMs, part.lastMs);
    whole.cycles += part.cycles;
    whole.tokens += part.tokens;
  }
  return whole;
}

/** Whether the cycles of parts in a row are about as far apart as all of them on average. */
function isEven(parts: readonly Part[], distance: number): boolean {
  return parts.every((part, place) => {
    const before = parts[place - 1];
    const within = part.cycles > 1 ? part.distance : 0;
    const jump = before ? part.first - before.last : 0;
    return Math.max(within, jump) <= UNEVEN * distance;
  });
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
    const sparse = this.#sparse();
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
      this.#point(second, columns, this.#tokens(second, sparse.get(second), end));
    }
    return columns;
  }

  /**
   * By second the groups of which cycles ran in it that are not here, as the numbers around them
   * tell: that sampling left out, or that were lost. Where some are here, too few.
   */
  #sparse(): ReadonlyMap<number, ReadonlySet<string>> {
    const found = new Map<number, Set<string>>();
    const add = (group: string, seconds: readonly number[]) => {
      for (const second of seconds) {
        found.set(second, (found.get(second) ?? new Set()).add(group));
      }
    };
    const before = new Map<string, Reached>();
    for (const second of [...this.#buckets.keys()].sort((one, other) => one - other)) {
      for (const [group, part] of this.#buckets.get(second)?.parts ?? []) {
        const { first, last, cycles } = part;
        const earlier = before.get(group);
        const distance = earlier ? first - earlier.n : 1;
        if (part.estimate === null || (cycles === 1 && distance > 1)) {
          add(group, [second]);
        }
        if (earlier && distance > (earlier.dense ? UNEVEN * earlier.distance : 1)) {
          add(group, this.#between(earlier.second, second));
        }
        const within = cycles > 1 ? part.distance : distance;
        before.set(group, { second, n: last, distance: within, dense: cycles >= ENOUGH });
      }
    }
    // Behind the last one the next may be due only later.
    for (const [group, { second, distance, dense }] of before) {
      if (distance > 1 && !dense) {
        add(group, this.#between(second, second + this.#lengthS));
      }
    }
    return found;
  }

  #between(from: number, to: number): number[] {
    const begin = Math.max(from + 1, to - this.#lengthS);
    return Array.from({ length: Math.max(0, to - begin) }, (_, place) => begin + place);
  }

  /** Of all groups in a second before `end`, those that are sparse in it by what is around it. */
  #tokens(second: number, sparse: ReadonlySet<string> | undefined, end: number): number | null {
    let sum = 0;
    for (const [group, part] of this.#buckets.get(second)?.parts ?? []) {
      sum += sparse?.has(group) ? 0 : (part.estimate ?? 0);
    }
    for (const group of sparse ?? []) {
      const tokens = this.#around(group, second, end);
      if (tokens === null) {
        return null;
      }
      sum += tokens;
    }
    return sum;
  }

  /**
   * What a group got in a second, as the mean of as many seconds around it as have enough cycles;
   * null where these are too far, lie on one side of it alone, or some were lost between them.
   */
  #around(group: string, second: number, end: number): number | null {
    const parts = new Map<number, Part>();
    for (let each = second - REACH_S; each <= Math.min(second + REACH_S, end - 1); each += 1) {
      const part = this.#buckets.get(each)?.parts.get(group);
      if (part && part.cycles > 0) {
        parts.set(each, part);
      }
    }
    for (let reach = 1; reach <= REACH_S; reach += 1) {
      const near = [...parts].filter(([each]) => Math.abs(each - second) <= reach);
      const some = near.map(([, part]) => part);
      const whole = together(some);
      if (whole.cycles >= ENOUGH) {
        const [first = end] = near[0] ?? [];
        const [last = first] = near.at(-1) ?? [];
        const isWithin = first <= second && second <= last;
        return isWithin && isEven(some, whole.distance) ? whole.tokensPerS : null;
      }
    }
    return null;
  }

  #point(second: number, columns: Columns, tokens: number | null): void {
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
    columns.tokensPerS.push(begun && !this.#partial.has(second) ? tokens : null);
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
