// What the server sums up of more cycles than the page can hold, and how that is asked for.
import { decodeOverview, type Overview } from "./lib/overview.ts";
import { Question } from "./question.ts";

const NS_PER_US = 1000n;

/** A stretch of the cycles of a group, in UNIX ms; null for all that is stored. */
export interface Stretch {
  readonly run: string;
  readonly group: string;
  readonly fromMs: number | null;
  readonly toMs: number | null;
  /** Columns of the picture. */
  readonly columns: number;
}

export const overview = new Question<Stretch, Overview>({
  key: (want) => overviewPath(want),
  path: (want) => overviewPath(want),
  decode: decodeOverview,
});

/** What came last of this group, whatever the stretch; null where nothing did. */
export function overviewOf(run: string, group: string): Overview | null {
  const had = overview.had.value;
  return had?.want.run === run && had.want.group === group ? had.value : null;
}

/** Where a stretch is asked for. */
export function overviewPath({ run, group, fromMs, toMs, columns }: Stretch): string {
  const query = new URLSearchParams({ columns: String(columns) });
  if (group !== "") {
    query.set("group", group);
  }
  if (fromMs !== null) {
    query.set("from_ns", nsOf(fromMs));
  }
  if (toMs !== null) {
    query.set("to_ns", nsOf(toMs));
  }
  return `runs/${encodeURIComponent(run)}/overview?${query}`;
}

/** UNIX ms as whole ns, to the µs. */
function nsOf(ms: number): string {
  return String(BigInt(Math.max(0, Math.round(ms * 1000))) * NS_PER_US);
}
