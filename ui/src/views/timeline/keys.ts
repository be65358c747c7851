// The keys of the picture on one axis of time, wherever on the page they are pressed.
import { type CycleId, cycleKey } from "../../lib/cycle.ts";
import { EARLIER } from "../../lib/phases.ts";
import { findSpot, moveSpot, type Spot } from "../../lib/spot.ts";
import type { Cycle } from "../../lib/wire.ts";
import { cycles, openRank, pause, select, selectedCycle } from "../../state.ts";
import { KERNEL_KEYS, kernelSpot, moveKernel } from "../waterfall/kernelRow.ts";
import { open, ranks } from "../waterfall/model.ts";
import { showStored } from "./far.ts";
import {
  byKeys,
  fit,
  focus,
  mark,
  panBy,
  resting,
  reveal,
  shown,
  wantedKernels,
  zoomSteps,
} from "./model.ts";

/** The share of what is in view by which a key moves it. */
const PAN = 0.2;

const DOES: Readonly<Record<string, () => void>> = {
  "+": () => zoomSteps(1),
  "=": () => zoomSteps(1),
  w: () => zoomSteps(1),
  "-": () => zoomSteps(-1),
  s: () => zoomSteps(-1),
  a: () => panBy(-PAN),
  d: () => panBy(PAN),
  ArrowLeft: () => panBy(-PAN),
  ArrowRight: () => panBy(PAN),
  f: fit,
  "0": () => void showStored(),
  m: mark,
};

/** What the keys of `moveSpot` are called here, where the arrows are taken. */
const PHASES: Readonly<Record<string, string>> = {
  "[": "ArrowLeft",
  "]": "ArrowRight",
  j: "j",
  k: "k",
  l: "l",
};

/** Does what a key stands for; whether it stands for anything. `busy` controls take Enter. */
export function onTimeKey({ key, shiftKey }: KeyboardEvent, busy: boolean): boolean {
  if (key === "Enter") {
    return !busy && enter();
  }
  if ((!shiftKey && moveCycle(key)) || movePhase(PHASES[key] ?? "") || goKernel(key)) {
    return true;
  }
  const does = DOES[key];
  does?.();
  return does !== undefined;
}

function enter(): boolean {
  const cycle = focusedCycle() ?? shown.value.at(-1);
  if (cycle) {
    choose(cycle);
  }
  return cycle !== undefined;
}

function choose(cycle: CycleId): void {
  resting.value = false;
  select({ group: cycle.group, n: cycle.n });
}

function focusedCycle(): Cycle | undefined {
  return byKeys.value
    ? cycles.value.findLast((cycle) => cycleKey(cycle) === focus.value?.key)
    : undefined;
}

/** With a cycle selected the arrows step through cycles; else they are left to move the picture. */
function moveCycle(key: string): boolean {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[key] ?? 0;
  const cycle = selectedCycle.value;
  if (by === 0 || !cycle) {
    return false;
  }
  const group = cycles.value.filter((each) => each.group === cycle.group);
  const next = group[group.indexOf(cycle) + by];
  if (next) {
    choose(next);
  }
  return true;
}

function movePhase(key: string): boolean {
  const here = focus.value && findSpot(cycles.value, focus.value);
  const cycle = selectedCycle.value ?? here?.cycle ?? shown.value.at(-1);
  if (key === "" || !cycle) {
    return false;
  }
  const from =
    focus.value?.key === cycleKey(cycle)
      ? focus.value
      : { key: cycleKey(cycle), rank: open.value, place: key === "ArrowRight" ? -1 : 0 };
  const moved = drawn(moveSpot(key, from, cycles.value, ranks.value), key);
  const found = moved && findSpot(cycles.value, moved);
  if (!found) {
    return false;
  }
  pause();
  resting.value = false;
  byKeys.value = true;
  kernelSpot.value = null;
  focus.value = moved;
  openRank.value = moved.rank;
  const { t0Ms } = found.cycle;
  reveal({ start: t0Ms + found.stretch.start, end: t0Ms + found.stretch.end });
  return true;
}

/** Goes through the kernels of a cycle, beginning with those of the phase that the keyboard is on. */
function goKernel(key: string): boolean {
  const by = KERNEL_KEYS[key];
  const here = focus.value && findSpot(cycles.value, focus.value);
  const cycle = selectedCycle.value ?? here?.cycle ?? wantedKernels.value.at(-1);
  const phase = here && here.cycle === cycle ? here.stretch.name : null;
  const range = by && cycle && moveKernel(cycle, open.value, phase, by);
  if (!(range && cycle)) {
    return false;
  }
  pause();
  resting.value = false;
  byKeys.value = true;
  reveal({ start: cycle.t0Ms + range.start, end: cycle.t0Ms + range.end });
  return true;
}

/** The spot itself, or the next one where it has no bar of its own here. */
function drawn(spot: Spot | null, key: string): Spot | null {
  const found = spot && findSpot(cycles.value, spot);
  return found?.stretch.name === EARLIER
    ? moveSpot(key === "ArrowLeft" ? key : "ArrowRight", spot, cycles.value, ranks.value)
    : spot;
}
