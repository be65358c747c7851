// All ranks on one axis of time, on a canvas; with a table for those who need one.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type CycleId, cycleKey } from "../../lib/cycle.ts";
import { clock, ms, plural, whole } from "../../lib/format.ts";
import { coarse } from "../../lib/overview.ts";
import { spotOf } from "../../lib/spot.ts";
import { panTime } from "../../lib/timeline.ts";
import { measured, spanMs } from "../../pointing.ts";
import { cycles, openRank, paused, select, selectedCycle } from "../../state.ts";
import { Card } from "../Card.tsx";
import { CycleTable } from "../waterfall/CycleTable.tsx";
import { HOVER_MS, useBox, usePainting, useWheel, WHEEL } from "../waterfall/canvas.ts";
import { KernelCard, spokenKernels } from "../waterfall/KernelCard.tsx";
import { kernelSpot } from "../waterfall/kernelRow.ts";
import { PhaseCard, spokenPhase } from "../waterfall/PhaseCard.tsx";
import { Waiting } from "../waterfall/Waiting.tsx";
import {
  barAtPoint,
  box,
  boxAtPoint,
  boxes,
  byKeys,
  columnAt,
  cycleAt,
  cycleRange,
  dragging,
  far,
  focus,
  focused,
  focusedKernels,
  gutter,
  hold,
  hovered,
  hoveredKernels,
  inBars,
  known,
  loading,
  measureBetween,
  panBy,
  plot,
  pointer,
  rankAt,
  resting,
  reveal,
  scene,
  scrollTop,
  shape,
  show,
  shown,
  timeAt,
  view,
  zoomAt,
} from "./model.ts";
import { HEAD, paint } from "./paint.ts";

/** A pointer that moved less than this while it was down has clicked. */
const CLICK = 4;
const MOST_LISTED = 60;
const MOST_SUMMED = 20;
const SETTLED_MS = 150;

let rest: ReturnType<typeof setTimeout> | undefined;
/** Where the pointer went down, and what it does since then. */
let drag: {
  readonly x: number;
  readonly time: number;
  readonly view: { readonly start: number; readonly end: number };
  readonly moves: boolean;
} | null = null;

/** One stop for the keyboard, with arrow keys inside. */
export function Timeline() {
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  useBox(scroller, box);
  usePainting(canvas, scene.value, paint);
  useWheel(scroller, onWheel);
  useRevealing();
  const under = hoveredKernels.value ?? hovered.value;
  const kernels = hoveredKernels.value ?? (under ? null : focusedKernels.value);
  const explained = hovered.value ?? focused.value;
  const still = paused.value;
  const summed = boxes.value[0]?.column.start ?? "";
  const settled = useSettled(
    still
      ? `${still.atMs} ${still.cycles.length} ${view.value.start} ${view.value.end} ${summed}`
      : `${spanMs.value} ${summed}`, // what comes by itself moves no table
  );
  return (
    <section class="waterfall timeline" aria-label="Waterfall">
      <div
        class="scroller"
        ref={scroller}
        role="application"
        aria-label="Cycles on an axis of time. A and D move, W and S zoom, Enter selects a cycle, brackets go through its phases, comma and full stop through its kernels, question mark lists all keys."
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the waterfall is one stop of the keyboard
        tabIndex={0}
        onScroll={(event) => {
          scrollTop.value = event.currentTarget.scrollTop;
        }}
        onPointerDown={onDown}
        onPointerMove={onMove}
        onPointerUp={onUp}
        onPointerCancel={onCancel}
        onPointerLeave={onLeave}
      >
        {/* biome-ignore lint/a11y/noAriaHiddenOnFocusable: a canvas takes no focus; the table speaks for it */}
        <canvas ref={canvas} class={under ? "over-bar" : ""} aria-hidden="true" />
        <div style={{ height: `${Math.max(0, shape.value.height + HEAD - box.value.height)}px` }} />
      </div>
      {cycles.value.length === 0 && <Waiting />}
      {kernels && <KernelCard {...kernels} />}
      {!kernels && (explained ? <PhaseCard {...explained} /> : <ColumnCard />)}
      <p class="unseen" aria-live="polite">
        {focusedKernels.value
          ? spokenKernels(focusedKernels.value)
          : focused.value && spokenPhase(focused.value.found)}
      </p>
      <div class="unseen">
        {far.value && <FarTable at={settled} />}
        <CycleTable cycles={shown.value.slice(-MOST_LISTED).toReversed()} at={settled} />
      </div>
    </section>
  );
}

/** What a column stands for, where cycles are too narrow for their phases. */
function ColumnCard() {
  const at = resting.value ? pointer.value : null;
  const column = at && at.x > box.value.left + gutter.value ? summedAt(at.x) : null;
  if (!(at && column)) {
    return null;
  }
  const { cycles: count, n, leastMs, mostMs } = column;
  return (
    <Card x={at.x} y={at.y}>
      {count === 1 ? (
        <p>
          Cycle {whole(n)}, {ms(mostMs)}.
        </p>
      ) : (
        <p>
          {plural(count, "cycle")} from {ms(leastMs)} to {ms(mostMs)}. The slowest is {whole(n)}.
        </p>
      )}
    </Card>
  );
}

/** The cycles of a column, and the slowest of them. */
interface Summed extends CycleId {
  readonly cycles: number;
  readonly leastMs: number;
  readonly mostMs: number;
}

/** What a point of the window stands for, where cycles are summed up; null where nothing is. */
function summedAt(x: number): Summed | null {
  const stored = far.value && boxAtPoint(x)?.column;
  if (stored) {
    return { ...stored, group: far.value?.group ?? "", n: stored.slowest };
  }
  const column = columnAt(x);
  return (
    column && {
      group: column.cycle.group,
      n: column.cycle.n,
      cycles: column.cycles,
      leastMs: column.time.start,
      mostMs: column.time.end,
    }
  );
}

/** What the server summed up, for those who do not see it: few lines, other ones for another `at`. */
function FarTable({ at }: { readonly at: string }) {
  const lines = useMemo(() => {
    const columns = boxes.peek().map(({ column }) => column);
    return coarse(columns, view.peek(), MOST_SUMMED);
  }, [at]);
  return (
    <table>
      <caption>Stored cycles in view, summed up</caption>
      <thead>
        <tr>
          <th scope="col">from</th>
          <th scope="col">to</th>
          <th scope="col">cycles</th>
          <th scope="col">shortest</th>
          <th scope="col">longest</th>
          <th scope="col">slowest cycle</th>
        </tr>
      </thead>
      <tbody>
        {lines.map((line) => (
          <tr key={line.start}>
            <th scope="row">{clock(line.start, true)}</th>
            <td>{clock(line.end, true)}</td>
            <td>{whole(line.cycles)}</td>
            <td>{ms(line.leastMs)}</td>
            <td>{ms(line.mostMs)}</td>
            <td>{whole(line.slowest)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A value once it has stayed the same for a while: not every frame of a zoom needs a new table. */
function useSettled(value: string): string {
  const [settled, settle] = useState(value);
  useEffect(() => {
    const waiting = setTimeout(() => settle(value), SETTLED_MS);
    return () => clearTimeout(waiting);
  }, [value]);
  return settled;
}

/** A cycle that was selected elsewhere comes into view, once it is here. */
function useRevealing(): void {
  const cycle = selectedCycle.value;
  const key = cycle && cycleKey(cycle);
  useEffect(() => {
    // Where the address names a stretch that is still loaded, that one comes into view.
    if (cycle && !loading.peek()) {
      reveal(cycleRange(cycle));
    }
  }, [key]);
}

function onWheel(event: WheelEvent): void {
  if (event.ctrlKey) {
    zoomAt(WHEEL ** event.deltaY, event.clientX);
    event.preventDefault();
  } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    panBy((event.deltaX || event.deltaY) / plot.value);
    event.preventDefault();
  }
}

function onDown(event: PointerEvent): void {
  const inPlot = event.clientX >= box.value.left + gutter.value;
  if (event.button === 0) {
    drag = {
      x: event.clientX,
      time: timeAt(event.clientX),
      view: view.value,
      // A finger has no keys, and what it is used to is to move things.
      moves: event.shiftKey || event.pointerType === "touch" || !inPlot,
    };
  }
}

function onMove(event: PointerEvent): void {
  const at = { x: event.clientX, y: event.clientY };
  clearTimeout(rest);
  if (drag && (dragging.value || Math.abs(at.x - drag.x) > CLICK)) {
    onDrag(event, drag);
    return;
  }
  pointer.value = at;
  if (!(resting.value && (hovered.value || hoveredKernels.value))) {
    resting.value = false;
    rest = setTimeout(() => {
      resting.value = true;
    }, HOVER_MS);
  }
}

function onDrag(event: PointerEvent, now: NonNullable<typeof drag>): void {
  if (!dragging.value) {
    dragging.value = true;
    resting.value = false;
    // What was pressed on may have moved on meanwhile.
    show(now.view);
    (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
  }
  if (now.moves) {
    show(panTime(now.view, (now.x - event.clientX) / plot.value, known()));
  } else {
    const right = box.value.left + gutter.value + plot.value;
    const left = box.value.left + gutter.value;
    measureBetween(now.time, timeAt(Math.min(right, Math.max(left, event.clientX))));
  }
}

function onUp(event: PointerEvent): void {
  const clicked = drag !== null && !dragging.value;
  onCancel();
  if (clicked) {
    onClick(event);
  }
}

function onCancel(): void {
  drag = null;
  dragging.value = false;
}

function onLeave(): void {
  clearTimeout(rest);
  resting.value = false;
  pointer.value = null;
}

function onClick({ clientX, clientY }: PointerEvent): void {
  const rank = rankAt(clientY);
  byKeys.value = false;
  kernelSpot.value = null;
  if (clientX < box.value.left + gutter.value) {
    openRank.value = rank ?? openRank.value;
    return;
  }
  const bar = barAtPoint(clientX, clientY);
  const there = inBars.value ? cycleAt(timeAt(clientX)) : summedAt(clientX);
  const chosen = bar?.cycle ?? there;
  measured.value = null;
  if (chosen) {
    resting.value = false;
    hold();
    select({ group: chosen.group, n: chosen.n });
    focus.value = bar ? spotOf(bar.cycle, bar) : null;
  }
}
