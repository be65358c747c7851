// What a reader should know of how a run is traced: what is not seen, and what it cost.
import { length, ms, plural, whole } from "./format.ts";
import type { RunState } from "./wire.ts";

const NS_PER_MS = 1e6;

/** Sentences, the one that limits the picture most first. */
export function notesOf(run: RunState): readonly string[] {
  const untimed = run.timing ? [`The device is not timed: ${run.timing}`] : [];
  const sampling = samplingInWords(run);
  return [...untimed, ...(sampling === null ? [] : [sampling]), serverInWords(run), ...run.notes]
    .filter(Boolean)
    .filter((note, place, all) => all.indexOf(note) === place);
}

/** How much is recorded in full, and what the others gave; null where all is recorded. */
export function samplingInWords({ sample_every: every, skipped }: RunState): string | null {
  if (every <= 1 && skipped.cycles === 0) {
    return null;
  }
  const kept =
    every > 1 ? `1 cycle of ${whole(every)} is recorded in full` : "All are recorded now";
  const { cycles, total_ns, verifies, correct_drafts, output_tokens } = skipped;
  if (cycles === 0) {
    return `${kept}.`;
  }
  const sums = [
    `${ms(total_ns / NS_PER_MS / cycles)} each`,
    plural(output_tokens, "token"),
    ...(verifies > 0 ? [`accept length ${length((correct_drafts + verifies) / verifies)}`] : []),
  ];
  return `${kept}; ${plural(cycles, "other was", "others were")} counted: ${sums.join(", ")}.`;
}

/** Less is lost now and then, and says nothing of sampling. */
const NEARLY_ALL = 0.98;
const NEARLY_WHOLE = 0.05;

/** "of 1 cycle in 10", "of 55 % of the cycles" where that changed; null where all are in. */
export function partInWords(share: number): string | null {
  if (share >= NEARLY_ALL) {
    return null;
  }
  const every = 1 / share;
  const isWhole = every > 1.5 && Math.abs(every - Math.round(every)) <= NEARLY_WHOLE * every;
  return isWhole
    ? `of 1 cycle in ${whole(Math.round(every))}`
    : `of ${Math.round(share * 100)} % of the cycles`;
}

function serverInWords({ worker, device, overlap }: RunState): string {
  const scheduler =
    overlap === null ? "" : overlap ? "the overlap scheduler" : "the plain scheduler";
  const parts = [worker, device && `on ${device}`].filter(Boolean).join(" ");
  return parts && `${parts}${scheduler && `, with ${scheduler}`}.`;
}
