// The phases of a cycle: their order, their parts, and what each one is in a sentence.

/** The name of a stretch in which the device ran nothing. */
export const GAP = "gap";
/** The name of a stretch in which the device was still at work on the cycle before. */
export const EARLIER = "earlier cycle";

/** All phases in the order in which they come in a cycle, parents before their parts. */
export const PHASES = [
  "resolve",
  "forward",
  "draft",
  "draft.step",
  "verify",
  "verify.prepare",
  "verify.forward",
  "verify.sample",
  "verify.commit",
  "draft_extend",
  "wait",
  "result",
  "schedule",
] as const;

/** A phase that the page has a name, a colour and a definition for. */
export type PhaseName = (typeof PHASES)[number];

const KNOWN: ReadonlySet<string> = new Set(PHASES);

/** What is drawn of a device beside its phases. */
const BETWEEN: Readonly<Record<string, string>> = {
  [GAP]: "The device ran no phase of this cycle: it waited.",
  [EARLIER]: "The device is still at work on the cycle before: the host runs ahead of it.",
};

const DEFINITIONS: Readonly<Record<PhaseName, string>> = {
  resolve: "The scheduler hands over the batch; this can wait for the previous verify.",
  forward: "The target model runs once, without drafts: a prefill or a plain decode.",
  draft: "The draft model proposes tokens, one step after the other.",
  "draft.step": "The draft model runs once, for one more token of every branch.",
  verify: "The target model checks all drafts of the batch in one pass.",
  "verify.prepare": "The inputs of the verify pass are put together.",
  "verify.forward": "The target model runs over the drafts.",
  "verify.sample": "The drafts are compared with what the target model would have said.",
  "verify.commit": "What was accepted is written to the cache and handed on.",
  draft_extend: "The draft model catches up with the tokens that were accepted.",
  wait: "The scheduler waits until the accepted counts are on the CPU.",
  result: "The scheduler gives the new tokens to their requests.",
  schedule: "The scheduler's own work between the phases.",
};

/** What a phase is, in one sentence. */
export function definition(name: string): string {
  const known = isPhase(name) ? DEFINITIONS[name] : BETWEEN[name];
  return known ?? "A phase that this page has no definition for.";
}

/** A phase as a reader sees it: "draft extend". */
export function phaseLabel(name: string): string {
  return name.replaceAll("_", " ");
}

/** The parent of a part, such as `verify` of `verify.sample`; the phase itself at the top. */
export function topLevel(name: string): string {
  const dot = name.indexOf(".");
  return dot < 0 ? name : name.slice(0, dot);
}

/** Whether a name is one of `PHASES`. */
export function isPhase(name: string): name is PhaseName {
  return KNOWN.has(name);
}

/** Where a phase comes in a cycle; unknown ones come last. */
export function phaseOrder(name: string): number {
  const place = (PHASES as readonly string[]).indexOf(name);
  return place < 0 ? PHASES.length : place;
}
