// Follows what is in view: asks for the kernels of the cycles that are large enough to show them.
import { computed, effect } from "@preact/signals";
import { isLookedAt, runLooks, wantKernels } from "../../kernels.ts";
import { cycleKey } from "../../lib/cycle.ts";
import type { Cycle } from "../../lib/wire.ts";
import { layout } from "../../pointing.ts";
import { selectedCycle, tab } from "../../state.ts";
import { wantedKernels as wantedInTime } from "../timeline/model.ts";
import { wantedKernels as wantedInRows } from "./model.ts";

/** So long a picture rests before kernels are asked for. */
const SETTLED_MS = 120;

/** Those in view, and the selected one: the drawer says of what it is made. */
const wanted = computed<readonly Cycle[]>(() => {
  if (tab.value !== "live") {
    return [];
  }
  const shown = layout.value === "time" ? wantedInTime.value : wantedInRows.value;
  const chosen = selectedCycle.value;
  const beside = chosen && isLookedAt(chosen) && !shown.includes(chosen) ? [chosen] : [];
  return [...shown, ...beside];
});

/** Asks by itself from now on. */
export function startWantingKernels(): void {
  let waiting: ReturnType<typeof setTimeout> | undefined;
  let asked = "";
  effect(() => {
    const cycles = wanted.value;
    const names = cycles.map((cycle) => `${cycle.run}/${cycleKey(cycle)}`);
    const keys = [runLooks.value.length, ...names].join(" ");
    // Not again, later and later, for each cycle that comes meanwhile.
    if (keys !== asked) {
      asked = keys;
      clearTimeout(waiting);
      waiting = setTimeout(() => wantKernels(cycles), SETTLED_MS);
    }
  });
}
