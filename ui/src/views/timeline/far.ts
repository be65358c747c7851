// Follows what is in view: asks for an overview where it is too much, reads cycles where some lack.
import { effect } from "@preact/signals";
import { lacking } from "../../lib/overview.ts";
import { around } from "../../lib/timeline.ts";
import { overview, overviewOf } from "../../overseen.ts";
import { layout } from "../../pointing.ts";
import { cycles, paused, run } from "../../state.ts";
import { loadBefore } from "../../stream.ts";
import { beyond, far, known, ofGroup, plot, show, showAll, view } from "./model.ts";

/** So long a picture rests before the server is asked about it: each answer is read anew. */
const SETTLED_MS = 200;
/** Beside all that is stored, of its length. */
const ROOM = 0.01;

/** Asks by itself from now on. */
export function startOverseeing(): void {
  let waiting: ReturnType<typeof setTimeout> | undefined;
  effect(() => {
    const want = layout.value === "time" ? far.value : null;
    clearTimeout(waiting);
    // One at a time: what is under way is waited for.
    if (want && !(overview.asking.value || overview.of(want))) {
      waiting = setTimeout(() => void overview.ask(want, stored()), SETTLED_MS);
    }
  });
  let tried = "";
  effect(() => {
    const current = run.value;
    const { group, cycles: loaded } = ofGroup.value;
    const found = current && overviewOf(current.run, group);
    if (!(found && paused.value) || far.value || layout.value !== "time") {
      tried = "";
      return;
    }
    const before = lacking(found, loaded, view.value);
    // What does not come is not asked for again and again.
    const next = `${before} ${cycles.value.length}`;
    if (before !== null && next !== tried) {
      tried = next;
      void loadBefore(group, before);
    }
  });
}

/** Shows everything that is stored: what is here at once, the rest when the server has said it. */
export async function showStored(): Promise<void> {
  const current = run.value;
  const { group } = ofGroup.value;
  if (!(current && beyond.value)) {
    showAll();
    return;
  }
  if (overviewOf(current.run, group)) {
    showKnown();
    return;
  }
  showAll();
  const before = view.value;
  const want = {
    run: current.run,
    group,
    fromMs: null,
    toMs: null,
    columns: Math.round(plot.value),
  };
  await overview.ask(want, stored());
  // Not if the reader has gone elsewhere meanwhile; more cycles alone move nothing.
  if (overview.of(want)?.value && Math.abs(view.value.start - before.start) < 1) {
    showKnown();
  }
}

function showKnown(): void {
  const range = known();
  if (range) {
    show(around(range, ROOM));
  }
}

function stored(): number {
  return run.value?.stored.cycles ?? 0;
}
