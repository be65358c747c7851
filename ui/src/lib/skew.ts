// How far the ranks lie apart: `spectrace.analysis.rank_skew.Skew`, read and in words.
import { decodeEstimate, type Estimate, maybeEstimate } from "./estimate.ts";
import { enumerate, ms } from "./format.ts";
import { flag, list, maybeText, object, objects, text, texts } from "./json.ts";
import { phaseLabel } from "./phases.ts";

/** One rank in one phase; medians over cycles, in ms. */
export interface RankTimes {
  readonly rank: string;
  /** By how much later than the first rank it came to the phase. */
  readonly lateMs: Estimate;
  /** By how much it fell behind the first rank within it. */
  readonly lostMs: Estimate;
  /** For how long it stood there before the last rank came. */
  readonly waitedMs: Estimate;
  readonly tookMs: Estimate;
}

/** The ranks in one phase. */
export interface PhaseSkew {
  readonly phase: string;
  readonly lane: string;
  /** From the first rank's start to the last one's: the median, and what 5 % exceed. */
  readonly spreadMs: Estimate;
  readonly spreadP95Ms: Estimate;
  /** They leave it much closer together than they come. */
  readonly synchronises: boolean;
  readonly straggler: string | null;
  readonly ranks: readonly RankTimes[];
}

/** All phases in which ranks can be held against each other. */
export interface Skew {
  readonly phases: readonly PhaseSkew[];
  readonly straggler: string | null;
  readonly waitsIn: string | null;
  readonly lostIn: string | null;
  readonly waitedMs: Estimate | null;
  /** Ranks on other machines, of whose clocks nothing is known. */
  readonly leftOut: readonly string[];
  /** Why nothing can be said; empty where something can. */
  readonly problem: string;
}

/** Reads it. */
export function decodeSkew(value: unknown): Skew {
  const skew = object(value, "skew");
  return {
    phases: list(skew["phases"], "phases").map(decodePhase),
    straggler: maybeText(skew, "straggler"),
    waitsIn: maybeText(skew, "waits_in"),
    lostIn: maybeText(skew, "lost_in"),
    waitedMs: maybeEstimate(skew, "waited_ms"),
    leftOut: texts(skew, "left_out_ranks"),
    problem: text(skew, "problem"),
  };
}

function decodePhase(value: unknown): PhaseSkew {
  const phase = object(value, "phase");
  return {
    phase: text(phase, "phase"),
    lane: text(phase, "lane"),
    spreadMs: decodeEstimate(phase["start_spread_ms"]),
    spreadP95Ms: decodeEstimate(phase["start_spread_p95_ms"]),
    synchronises: flag(phase, "synchronises"),
    straggler: maybeText(phase, "straggler"),
    ranks: objects(phase, "ranks").map((rank) => ({
      rank: text(rank, "rank"),
      lateMs: decodeEstimate(rank["late_ms"]),
      lostMs: decodeEstimate(rank["lost_ms"]),
      waitedMs: decodeEstimate(rank["waited_ms"]),
      tookMs: decodeEstimate(rank["took_ms"]),
    })),
  };
}

/** The phase that says most: where a straggler is waited for, else where ranks lie furthest apart. */
export function shownPhase({ phases, straggler, waitsIn }: Skew): PhaseSkew | null {
  const waits = phases.filter(
    (one) => one.phase === waitsIn && one.straggler === straggler && one.synchronises,
  );
  const among = waits.length > 0 ? waits : phases;
  return among.toSorted((one, other) => other.spreadMs.value - one.spreadMs.value)[0] ?? null;
}

/** Who is late, who waits, and who is left out. */
export function skewInWords(skew: Skew): string[] {
  const words = skew.problem === "" ? told(skew) : [skew.problem];
  return skew.leftOut.length === 0
    ? words
    : [
        ...words,
        `On other machines, and left out: ${enumerate(skew.leftOut)}. How far the clocks lie apart is not known.`,
      ];
}

function told(skew: Skew): string[] {
  const shown = shownPhase(skew);
  if (shown === null) {
    return [];
  }
  const phase = phaseLabel(shown.phase);
  const late = shown.ranks.find(({ rank }) => rank === skew.straggler)?.lateMs.value;
  if (skew.straggler === null || skew.waitsIn === null || late === undefined) {
    return [
      `No rank is clearly later than the others. They lie furthest apart where they come to ${phase}: ${ms(shown.spreadMs.value)} in the median (p95 ${ms(shown.spreadP95Ms.value)}).`,
    ];
  }
  const waited = skew.waitedMs === null ? "" : `: up to ${ms(skew.waitedMs.value)} of it`;
  const words = [
    `${skew.straggler} comes to ${phase} ${ms(late)} behind the first rank, and the others wait for it there${waited}.`,
  ];
  return skew.lostIn === null
    ? words
    : [...words, `It falls behind in ${phaseLabel(skew.lostIn)}.`];
}
