// The newest cycles, one row each, on a canvas that scrolls; with a table for those who need one.
import { useComputed } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { type CycleId, cycleKey } from "../../lib/cycle.ts";
import { findSpot, moveSpot, spotOf } from "../../lib/spot.ts";
import { barAt, showing, zoom } from "../../lib/waterfall.ts";
import type { Cycle } from "../../lib/wire.ts";
import {
  cycles,
  openRank,
  panBy,
  pause,
  paused,
  select,
  selected,
  selectedCycle,
  view,
  zoomed,
} from "../../state.ts";
import { loadOlder } from "../../stream.ts";
import { CycleTable } from "./CycleTable.tsx";
import { HOVER_MS, useBox, usePainting, useWheel, WHEEL } from "./canvas.ts";
import { KernelCard, spokenKernels } from "./KernelCard.tsx";
import { KERNEL_KEYS, kernelSpot, moveKernel } from "./kernelRow.ts";
import {
  box,
  byKeys,
  cardAway,
  focus,
  focused,
  focusedKernels,
  gutter,
  hovered,
  hoveredKernels,
  inRow,
  open,
  plot,
  pointedRank,
  pointer,
  rankAt,
  ranks,
  rowAt,
  rows,
  scene,
  scrollTop,
  shape,
} from "./model.ts";
import { PhaseCard, spokenPhase } from "./PhaseCard.tsx";
import { paint, RULER } from "./paint.ts";
import { Waiting } from "./Waiting.tsx";

const NEAR_END = 600;
/** Up to this width of the window the drawer lies over the waterfall; the same in styles.css. */
const LAID_OVER = 1180;

let resting: ReturnType<typeof setTimeout> | undefined;

/** The waterfall: one stop for the keyboard, with arrow keys inside. */
export function Waterfall() {
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  useBox(scroller, box);
  usePainting(canvas, scene.value, paint);
  useScrolling(scroller);
  useWheel(scroller, onWheel);
  const still = paused.value;
  const under = hoveredKernels.value ?? hovered.value;
  const kernels = hoveredKernels.value ?? (cardAway.value || under ? null : focusedKernels.value);
  const explained = hovered.value ?? (cardAway.value ? null : focused.value);
  const rest = Math.max(0, cycles.value.length * shape.value.height + RULER - box.value.height);
  return (
    <section class="waterfall" aria-label="Waterfall">
      {/* biome-ignore lint/a11y/noNoninteractiveElementInteractions: the role takes its keys itself */}
      <div
        class="scroller"
        ref={scroller}
        role="application"
        aria-label="Cycles, newest first. Arrow keys go through cycles and phases, Enter shows one in full."
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the waterfall is one stop of the keyboard
        tabIndex={0}
        onScroll={onScroll}
        onPointerMove={onMove}
        onPointerLeave={onLeave}
        onClick={onClick}
        onKeyDown={onKeyDown}
        onBlur={onBlur}
      >
        {/* biome-ignore lint/a11y/noAriaHiddenOnFocusable: a canvas takes no focus; the table speaks for it */}
        <canvas
          ref={canvas}
          class={under ? "over-bar" : ""}
          title={pointedRank.value}
          aria-hidden="true"
        />
        <div style={{ height: `${rest}px` }} />
      </div>
      {cycles.value.length === 0 && <Waiting />}
      {kernels ? <KernelCard {...kernels} /> : explained && <PhaseCard {...explained} />}
      <p class="unseen" aria-live="polite">
        {focusedKernels.value
          ? spokenKernels(focusedKernels.value)
          : focused.value && spokenPhase(focused.value.found)}
      </p>
      <div class="unseen">
        <CycleTable
          cycles={rows.value.map(({ cycle }) => cycle)}
          at={
            still ? `${still.atMs} ${still.cycles.length} ${scrollTop.value}` : `${scrollTop.value}`
          }
        />
      </div>
    </section>
  );
}

/** Live begins at the newest cycle; a selected one comes into view. */
function useScrolling(scroller: { readonly current: HTMLDivElement | null }): void {
  const live = paused.value === null;
  useLayoutEffect(() => {
    if (live) {
      scroller.current?.scrollTo({ top: 0 });
    }
  }, [live, scroller]);
  const chosen = useComputed(() => {
    const id = selected.value;
    const row = id ? rowOf(id) : -1;
    return id && row >= 0 ? cycleKey(id) : null;
  });
  useEffect(() => {
    if (chosen.value !== null && selected.peek()) {
      reveal(scroller.current, selected.peek());
    }
  }, [chosen.value, scroller]);
}

function onMove(event: PointerEvent): void {
  const at = { x: event.clientX, y: event.clientY };
  clearTimeout(resting);
  pointedRank.value = rankAt(at.x, at.y);
  if (pointer.value && (hovered.value || hoveredKernels.value)) {
    pointer.value = at;
    return;
  }
  pointer.value = null;
  resting = setTimeout(() => {
    pointer.value = at;
  }, HOVER_MS);
}

function onLeave(): void {
  pointedRank.value = "";
  hideHover();
}

function hideHover(): void {
  clearTimeout(resting);
  pointer.value = null;
}

function onClick(event: MouseEvent): void {
  const row = rowAt(event.clientY);
  byKeys.value = false;
  kernelSpot.value = null;
  if (row) {
    const x = event.clientX - box.value.left - gutter.value;
    const bar = barAt(row.bars, x, inRow(event.clientY, row));
    choose(row.cycle);
    focus.value = bar
      ? spotOf(row.cycle, bar)
      : { key: cycleKey(row.cycle), rank: open.value, place: 0 };
  }
}

function onScroll(event: Event): void {
  const element = event.currentTarget as HTMLElement;
  hideHover();
  scrollTop.value = element.scrollTop;
  if (element.scrollTop > 2) {
    pause();
  }
  const left = element.scrollHeight - element.scrollTop - element.clientHeight;
  if (paused.value && left < NEAR_END) {
    void loadOlder();
  }
}

function onWheel(event: WheelEvent): void {
  if (event.ctrlKey) {
    const place = (event.clientX - box.value.left - gutter.value) / plot.value;
    zoomed.value = zoom(view.value, WHEEL ** event.deltaY, Math.min(1, Math.max(0, place)));
    event.preventDefault();
  } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    panBy(event.deltaX / plot.value);
    event.preventDefault();
  }
}

function onKeyDown(event: KeyboardEvent): void {
  // With Shift the arrows move the picture, as anywhere on the page.
  if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) {
    return;
  }
  const scroller = event.currentTarget as HTMLElement;
  if (goKernel(event.key, scroller) || moveFocus(event.key, scroller) || act(event.key)) {
    event.preventDefault();
    event.stopPropagation();
  }
}

function onBlur(): void {
  byKeys.value = false;
}

function moveFocus(key: string, scroller: HTMLElement): boolean {
  const moved = moveSpot(key, focus.value, cycles.value, ranks.value);
  if (!moved) {
    return false;
  }
  pause();
  hideHover();
  byKeys.value = true;
  kernelSpot.value = null;
  cardAway.value = selected.value !== null && innerWidth <= LAID_OVER;
  focus.value = moved;
  openRank.value = moved.rank;
  const cycle = cycles.value.findLast((each) => cycleKey(each) === moved.key) ?? null;
  reveal(scroller, cycle);
  showFocus();
  if (selected.value && cycle) {
    choose(cycle);
  }
  return true;
}

/** Goes through the kernels of the cycle that the keyboard is on, beginning with its phase. */
function goKernel(key: string, scroller: HTMLElement): boolean {
  const by = KERNEL_KEYS[key];
  const found = focus.value && findSpot(cycles.value, focus.value);
  const cycle = found?.cycle ?? selectedCycle.value ?? rows.value[0]?.cycle;
  const range = by && cycle && moveKernel(cycle, open.value, found?.stretch.name ?? null, by);
  if (!(range && cycle)) {
    return false;
  }
  pause();
  hideHover();
  byKeys.value = true;
  cardAway.value = selected.value !== null && innerWidth <= LAID_OVER;
  reveal(scroller, cycle);
  const shown = showing(view.value, range);
  if (shown !== view.value) {
    zoomed.value = shown;
  }
  return true;
}

/** Moves the picture if the focused phase lies outside. */
function showFocus(): void {
  const stretch = focus.value && findSpot(cycles.value, focus.value)?.stretch;
  const shown = stretch ? showing(view.value, stretch) : view.value;
  if (shown !== view.value) {
    zoomed.value = shown;
  }
}

function act(key: string): boolean {
  const cycle = cycles.value.findLast((each) => cycleKey(each) === focus.value?.key);
  if (key === "Enter" && cycle) {
    choose(cycle);
    cardAway.value = true;
    return true;
  }
  return false;
}

function choose(cycle: Cycle): void {
  // The drawer says more than the card, and may open over the place that it speaks of.
  hideHover();
  select({ group: cycle.group, n: cycle.n });
}

/** The row of a cycle, counted from the newest; -1 if it is not in view's list. */
function rowOf(id: CycleId): number {
  const place = cycles.value.findLastIndex((cycle) => cycleKey(cycle) === cycleKey(id));
  return place < 0 ? -1 : cycles.value.length - 1 - place;
}

function reveal(scroller: HTMLElement | null, id: CycleId | null): void {
  const row = id ? rowOf(id) : -1;
  if (!scroller || row < 0) {
    return;
  }
  const top = row * shape.value.height;
  const bottom = top + shape.value.height + RULER;
  if (top < scroller.scrollTop) {
    scroller.scrollTop = top;
  } else if (bottom > scroller.scrollTop + scroller.clientHeight) {
    scroller.scrollTop = bottom - scroller.clientHeight;
  }
}
