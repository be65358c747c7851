// The looks at kernels of the run in view, and the kernels of some cycles: asked for once, then kept.
import { computed, effect, type Signal, signal } from "@preact/signals";
import { fetched } from "./fetching.ts";
import { cycleKey, reachMs } from "./lib/cycle.ts";
import { decodeLooks, isSeen, isUnderWay, type KernelLook } from "./lib/kernelLook.ts";
import { type CycleKernels, decodeKernels, type RankKernels } from "./lib/kernels.ts";
import { isTraced } from "./lib/run.ts";
import type { Cycle } from "./lib/wire.ts";
import { Question } from "./question.ts";
import { paused, run, tab } from "./state.ts";

/** Cycles whose kernels are kept; each has thousands on each of its ranks. */
const KEPT = 32;
const AT_ONCE = 2;
const PATIENCE_MS = 30_000;
const AGAIN_MS = 5000;

/** Whether the dialog that asks for a look is open. */
export const lookAsked: Signal<boolean> = signal(false);
/** The run whose look this page saw begin: it says what came of it. */
export const watchedLook: Signal<string | null> = signal(null);

export const looks = new Question<string, readonly KernelLook[]>({
  key: (id) => id,
  path: (id) => `runs/${encodeURIComponent(id)}/looks`,
  decode: decodeLooks,
});

/** The looks of the run in view, the oldest first; none before they have come. */
export const runLooks = computed<readonly KernelLook[]>(
  () => looks.of(run.value?.run ?? null)?.value ?? [],
);

const kept: Signal<ReadonlyMap<string, CycleKernels>> = signal(new Map());
/** Cycles that are under way, or did not come a moment ago. */
const busy = new Set<string>();
let wanted: readonly Cycle[] = [];
let loading = 0;

/** Asks for the looks by itself from now on: when there are more, or others. */
export function startLookingAtKernels(): void {
  effect(() => {
    const current = run.value;
    const count = current?.looks ?? 0;
    const looked = tab.value === "live" || tab.value === "kernels";
    const had = current && looks.of(current.run);
    if (current && count > 0 && looked && had?.stored !== count) {
      forgetEmpty();
      void looks.ask(current.run, count);
    }
  });
  effect(() => {
    const current = run.value;
    if (current && isUnderWay(current.looking)) {
      watchedLook.value = current.run;
    }
  });
}

/** Whether a look has seen something of a cycle. */
export function isLookedAt(cycle: Cycle): boolean {
  return isSeen(runLooks.value, cycle.t0Ms, cycle.t0Ms + reachMs(cycle));
}

/** Whether the picture stands: what is looked at is of the past, and cycles come and go before. */
const stands = computed(
  () => paused.value !== null || (run.value !== null && !isTraced(run.value)),
);

/** Those of some cycles that a look has seen; none while the picture follows what comes. */
export function lookedAt(cycles: readonly Cycle[]): readonly Cycle[] {
  return stands.value && runLooks.value.length > 0 ? cycles.filter(isLookedAt) : [];
}

/** The kernels of a cycle on a rank; null where there are none, or not yet. */
export function kernelsOf(
  cycle: Cycle,
  rank: string,
): { readonly kernels: RankKernels; readonly shiftMs: number } | null {
  const found = kept.value.get(keyOf(cycle));
  const kernels = found?.ranks.find((each) => each.rank === rank);
  return found && kernels && kernels.start.length > 0
    ? { kernels, shiftMs: found.t0Ms - cycle.t0Ms }
    : null;
}

/** Has the kernels of these cycles come, and of no others any more. */
export function wantKernels(cycles: readonly Cycle[]): void {
  wanted = cycles.slice(-KEPT);
  while (loading < AT_ONCE) {
    const next = wanted.find((cycle) => {
      const key = keyOf(cycle);
      return !(busy.has(key) || kept.peek().has(key));
    });
    if (!next) {
      return;
    }
    void load(next);
  }
}

async function load(cycle: Cycle): Promise<void> {
  const key = keyOf(cycle);
  const query = new URLSearchParams({ group: cycle.group });
  busy.add(key);
  loading += 1;
  const path = `runs/${encodeURIComponent(cycle.run)}/cycles/${cycle.n}/kernels?${query}`;
  const answer = await fetched(path, decodeKernels, AbortSignal.timeout(PATIENCE_MS));
  loading -= 1;
  if ("value" in answer) {
    busy.delete(key);
    keep(key, answer.value);
  } else {
    setTimeout(() => {
      busy.delete(key);
      wantKernels(wanted);
    }, AGAIN_MS);
  }
  wantKernels(wanted);
}

function keep(key: string, value: CycleKernels): void {
  const shown = new Set(wanted.map(keyOf));
  const old = [...kept.peek()];
  const room = Math.max(0, KEPT - 1 - old.filter(([each]) => shown.has(each)).length);
  const others = old.filter(([each]) => !shown.has(each)).slice(room > 0 ? -room : old.length);
  kept.value = new Map([...others, ...old.filter(([each]) => shown.has(each)), [key, value]]);
}

/** What had no kernels may have been seen meanwhile. */
function forgetEmpty(): void {
  kept.value = new Map([...kept.peek()].filter(([, { ranks }]) => ranks.length > 0));
}

function keyOf(cycle: Cycle): string {
  return `${cycle.run}/${cycleKey(cycle)}`;
}
