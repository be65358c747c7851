// When the report of a run is asked for: reading it costs the store time.

const EVERY_MS = 10_000;
/** Time that passes before the next one, for each time that one took. */
const REST = 9;

/** Which report is looked at. */
export interface Want {
  readonly run: string;
  /** What a person said that plain decode takes. */
  readonly baselineMs: number | null;
  /** Cycles of the run in the store. */
  readonly stored: number;
}

/** What was asked for last, and when. */
export interface Had extends Want, Read {}

/** When something was read from the store. */
export interface Read {
  /** Cycles of the run in the store. */
  readonly stored: number;
  /** When it was answered, by the browser's clock. */
  readonly atMs: number;
  readonly tookMs: number;
}

/** Whether two are of the same run against the same baseline. */
export function isSameReport(one: Want, other: Want): boolean {
  return one.run === other.run && one.baselineMs === other.baselineMs;
}

/**
 * Whether to ask now: at once for one that is not here, else only while `live`, where cycles came
 * since, at most every 10 s and so that the server reads at most a tenth of the time.
 */
export function isDue(want: Want, had: Had | null, live: boolean, nowMs: number): boolean {
  if (had === null || !isSameReport(want, had)) {
    return true;
  }
  return isStale(want.stored, had, live, nowMs);
}

/** Whether to read again what was read, as `isDue`. */
export function isStale(stored: number, had: Read, live: boolean, nowMs: number): boolean {
  const rest = Math.max(EVERY_MS, had.tookMs * REST);
  return live && stored !== had.stored && nowMs - had.atMs >= rest;
}
