// When the views of stored cycles ask the server: at once for what is new, else while cycles come.
import { computed, effect } from "@preact/signals";
import { isStale } from "./lib/asking.ts";
import {
  bar,
  barCycles,
  comparison,
  type Group,
  history,
  look,
  oneRun,
  otherRun,
  type Pair,
  type Picked,
  type PickedBar,
  type PickedRequest,
  requestId,
  served,
  spread,
  traced,
} from "./looked.ts";
import type { Question } from "./question.ts";
import { clockMs, follows, requests, run, server, tab } from "./state.ts";

export const picked = computed<Picked | null>(() => {
  const current = run.value;
  return tab.value === "distribution" && current ? { run: current.run, look: look.value } : null;
});

export const pickedBar = computed<PickedBar | null>(() =>
  picked.value && bar.value ? { ...picked.value, bar: bar.value } : null,
);

export const group = computed<Group | null>(() => {
  const current = run.value;
  return tab.value === "requests" && current ? { run: current.run, group: look.value.group } : null;
});

/** Whether requests of others are looked at; whether there are any is what the stream says. */
const others = computed(() => tab.value === "requests" && requests.value.length > 0);

export const pickedRequest = computed<PickedRequest | null>(() =>
  group.value && requestId.value !== null ? { ...group.value, id: requestId.value } : null,
);

/** The two runs that are looked at; if not chosen the one in view and a neighbour, as they came. */
export const pair = computed<Pair | null>(() => {
  const runs = server.value?.runs.map((each) => each.run) ?? [];
  const place = Math.max(1, runs.indexOf(run.value?.run ?? ""));
  const one = oneRun.value ?? runs[place - 1];
  const other = otherRun.value ?? runs[place];
  return tab.value === "runs" && one && other && one !== other ? { one, other } : null;
});

/** Asks by itself from now on. */
export function startLooking(): void {
  follow(() => picked.value, spread);
  follow(() => group.value, served);
  follow(() => pickedRequest.value, history);
  effect(() => {
    if (others.value && !traced.had.peek()) {
      void traced.ask(null, stored());
    }
  });
  effect(() => {
    if (pair.value && !comparison.of(pair.value)) {
      void comparison.ask(pair.value, stored());
    }
  });
  // The cycles of a bar stay: they are those that were counted when it was chosen.
  effect(() => {
    const want = pickedBar.value;
    if (want && !barCycles.of(want)) {
      void barCycles.ask(want, stored());
    }
  });
}

/** Asks at once, whatever is here already. */
export function lookAgain(): void {
  if (picked.value) {
    void spread.ask(picked.value, stored());
  }
  if (group.value) {
    void served.ask(group.value, stored());
  }
  if (pair.value) {
    void comparison.ask(pair.value, stored());
  }
  if (others.value) {
    void traced.ask(null, stored());
  }
  if (pickedRequest.value) {
    void history.ask(pickedRequest.value, stored());
  }
}

function follow<W, T>(wanted: () => W | null, question: Question<W, T>): void {
  effect(() => {
    const want = wanted();
    if (!want) {
      return;
    }
    const had = question.of(want);
    const live = follows.value && !document.hidden;
    if (!had || isStale(stored(), had, live, clockMs.value)) {
      void question.ask(want, stored());
    }
  });
}

function stored(): number {
  return run.value?.stored.cycles ?? 0;
}
