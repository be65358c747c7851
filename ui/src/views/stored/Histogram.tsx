// The times of one phase as bars: filled for the device, outlined for the host, on one axis.
import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { ms, plural, whole } from "../../lib/format.ts";
import type { LaneName } from "../../lib/lanes.ts";
import { type Bar, isSameBar } from "../../lib/look.ts";
import { GAP, phaseLabel } from "../../lib/phases.ts";
import {
  along,
  barInWords,
  barOf,
  barsOf,
  barsPath,
  CYCLE,
  countOf,
  type LaneSpread,
  laneAt,
  type PhaseSpread,
  placeAt,
} from "../../lib/spread.ts";
import { phaseProperty } from "../../lib/tokens.ts";
import { bar } from "../../looked.ts";
import { Card } from "../Card.tsx";
import { useWidth } from "../width.ts";

const HEIGHT = 56;
/** For the words at the medians, above the bars. */
const ABOVE = 30;
const NS_PER_MS = 1e6;
const FAR = 10;
const HATCH = "M-1,1l2,-2M0,5l5,-5M4,6l2,-2";

/** Where a reader points to, by pointer or keys. */
interface At {
  readonly place: number;
  readonly lane: LaneName;
}

/** In px of the window. */
interface Point {
  readonly x: number;
  readonly y: number;
}

/** Bars that lead to their cycles: a click, or the arrows and Enter. */
export function Histogram({ phase }: { readonly phase: PhaseSpread }) {
  return (
    <div class="histogram">
      <Plot phase={phase} />
      <div class="ends caption">
        <span>
          {ms(phase.lowNs / NS_PER_MS)}
          <Edge phase={phase} place={-1} word="below" />
        </span>
        <span>
          <Edge phase={phase} place={barsOf(phase)} word="beyond" />
          {ms((phase.lowNs + barsOf(phase) * phase.stepNs) / NS_PER_MS)}
        </span>
      </div>
    </div>
  );
}

function Plot({ phase }: { readonly phase: PhaseSpread }) {
  const [box, width] = useWidth();
  const at = useSignal<At | null>(null);
  const pointer = useSignal<Point | null>(null);
  const hint = useId();
  const now = at.value ?? placeOfMedian(phase);
  const point = (next: At | null, where: Point | null) => {
    at.value = next;
    pointer.value = where;
  };
  const onKey = (event: KeyboardEvent) => {
    const next = moved(phase, now, event.key);
    if (next) {
      point(next, null);
    } else if (event.key === "Enter" || event.key === " ") {
      choose(phase, now);
    } else {
      return;
    }
    event.preventDefault();
  };
  return (
    <div
      class="bars"
      ref={box}
      role="slider"
      tabIndex={0}
      aria-label={`Times of ${phaseLabel(phase.name)}`}
      aria-orientation="horizontal"
      aria-valuemin={0}
      aria-valuemax={barsOf(phase) - 1}
      aria-valuenow={now.place}
      aria-valuetext={barInWords(phase, now.lane, now.place)}
      aria-describedby={hint}
      style={{ height: `${ABOVE + HEIGHT + 1}px` }}
      onPointerMove={(event) => point(under(phase, event), { x: event.clientX, y: event.clientY })}
      onPointerLeave={() => point(null, null)}
      onClick={(event) => choose(phase, under(phase, event))}
      onKeyDown={onKey}
      onBlur={() => point(null, null)}
    >
      {width > 0 && <Picture phase={phase} width={width} at={at.value} />}
      <span class="unseen" id={hint}>
        Left and right go from bar to bar{phase.lanes.length > 1 && ", up and down between lanes"},
        Enter lists the cycles.
      </span>
      {at.value && (
        <Hover
          phase={phase}
          at={at.value}
          point={pointer.value ?? pointOf(box.current, phase, at.value)}
        />
      )}
    </div>
  );
}

function Picture(props: {
  readonly phase: PhaseSpread;
  readonly width: number;
  readonly at: At | null;
}) {
  const { phase, width, at } = props;
  return (
    <svg width={width} height={ABOVE + HEIGHT + 1} aria-hidden="true">
      <Marked phase={phase} width={width} at={at} />
      <g transform={`translate(0 ${ABOVE})`}>
        {phase.lanes.map((lane) => (
          <Bars key={lane.lane} phase={phase} lane={lane} width={width} />
        ))}
        <path class="axis" d={`M0,${HEIGHT + 0.5}H${width}`} />
      </g>
      {phase.lanes.map((lane, row) => (
        <Median key={lane.lane} phase={phase} lane={lane} row={row} width={width} />
      ))}
    </svg>
  );
}

function choose(phase: PhaseSpread, { place, lane }: At): void {
  if (countOf(phase, lane, place) > 0) {
    bar.value = barOf(phase, lane, place);
  }
}

/** The bar below a pointer. */
function under(phase: PhaseSpread, event: MouseEvent): At {
  const { left, top, width } = (event.currentTarget as Element).getBoundingClientRect();
  const place = placeAt(phase, (event.clientX - left) / Math.max(1, width));
  const lane = laneAt(phase, place, (ABOVE + HEIGHT - (event.clientY - top)) / HEIGHT);
  return { place, lane: lane ?? phase.lanes[0]?.lane ?? "host" };
}

function Bars(props: {
  readonly phase: PhaseSpread;
  readonly lane: LaneSpread;
  readonly width: number;
}) {
  const { phase, lane, width } = props;
  const hatch = useId();
  // The whole cycle is no phase and has no lane: it is drawn as a plain count.
  const filled = phase.name === CYCLE || lane.lane === "device";
  const d = barsPath(phase, { ...lane, lane: filled ? "device" : "host" }, width, HEIGHT);
  if (!filled) {
    return <path class="outline" d={d} />;
  }
  if (phase.name !== GAP) {
    const fill = phase.name === CYCLE ? "var(--ink3)" : `var(${phaseProperty(phase.name)})`;
    return <path d={d} style={{ fill }} />;
  }
  return (
    <>
      <pattern id={hatch} width="5" height="5" patternUnits="userSpaceOnUse">
        <path class="hatch" d={HATCH} />
      </pattern>
      <path class="gapbars" d={d} fill={`url(#${hatch})`} />
    </>
  );
}

/** The bar whose cycles are listed, and the one that is pointed to. */
function Marked(props: {
  readonly phase: PhaseSpread;
  readonly width: number;
  readonly at: At | null;
}) {
  const { phase, width, at } = props;
  const each = width / barsOf(phase);
  const chosen = bar.value?.phase === phase.name ? extent(phase, bar.value, width) : null;
  return (
    <>
      {at && <rect class="pointed" x={at.place * each} width={each} height={ABOVE + HEIGHT} />}
      {chosen && <rect class="chosenbar" {...chosen} height={ABOVE + HEIGHT} />}
    </>
  );
}

/** Where a chosen bar lies; null where the axis has moved away from it. */
function extent(phase: PhaseSpread, { fromNs, toNs }: Bar, width: number) {
  const [low, high] = [along(phase, fromNs ?? phase.lowNs), toNs === null ? 1 : along(phase, toNs)];
  return low === null || high === null
    ? null
    : { x: low * width, width: Math.max(2, (high - low) * width) };
}

function Median(props: {
  readonly phase: PhaseSpread;
  readonly lane: LaneSpread;
  readonly row: number;
  readonly width: number;
}) {
  const { phase, lane, row, width } = props;
  const place = along(phase, lane.p50);
  if (place === null) {
    return null;
  }
  const x = place * width;
  const left = place > 0.5;
  const who = phase.lanes.length > 1 ? `${lane.lane} ` : "";
  return (
    <g>
      <path class="median" d={`M${x},${row * 14 + 2}V${ABOVE + HEIGHT}`} />
      <text
        class="mediantext"
        x={left ? x - 5 : x + 5}
        y={row * 14 + 11}
        text-anchor={left ? "end" : "start"}
      >
        {who}p50 {ms(lane.p50 / NS_PER_MS)}
      </text>
    </g>
  );
}

/** Buttons for what lies outside of all bars. */
function Edge(props: {
  readonly phase: PhaseSpread;
  readonly place: number;
  readonly word: string;
}) {
  const { phase, place, word } = props;
  return (
    <>
      {phase.lanes.map(({ lane }) => {
        const count = countOf(phase, lane, place);
        const edge = barOf(phase, lane, place);
        return count > 0 ? (
          <button
            key={lane}
            type="button"
            class="small edge"
            aria-pressed={isSameBar(bar.value, edge)}
            title={`${plural(count, "cycle")} ${word} what is drawn`}
            onClick={() => {
              bar.value = edge;
            }}
          >
            {phase.lanes.length > 1 && `${lane} `}
            {whole(count)} {word}
          </button>
        ) : null;
      })}
    </>
  );
}

function Hover(props: { readonly phase: PhaseSpread; readonly at: At; readonly point: Point }) {
  const { phase, at, point } = props;
  return (
    <Card x={point.x} y={point.y}>
      {phase.lanes.map(({ lane }) => (
        <p key={lane} class={lane === at.lane ? "first" : ""}>
          {barInWords(phase, lane, at.place)}
        </p>
      ))}
    </Card>
  );
}

/** Where the card of a bar stands that was reached by keys. */
function pointOf(box: HTMLElement | null, phase: PhaseSpread, at: At): Point {
  const { left = 0, top = 0, width = 0 } = box?.getBoundingClientRect() ?? {};
  return { x: left + ((at.place + 0.5) / barsOf(phase)) * width, y: top + ABOVE };
}

function placeOfMedian(phase: PhaseSpread): At {
  const [first] = phase.lanes;
  const place = along(phase, first?.p50 ?? phase.lowNs);
  return { place: placeAt(phase, place ?? 0), lane: first?.lane ?? "host" };
}

/** Where a key leads to; null where it does nothing. */
function moved(phase: PhaseSpread, { place, lane }: At, key: string): At | null {
  const last = barsOf(phase) - 1;
  const to = (next: number) => ({ place: Math.max(0, Math.min(last, next)), lane });
  switch (key) {
    case "ArrowRight":
      return to(place + 1);
    case "ArrowLeft":
      return to(place - 1);
    case "PageUp":
      return to(place + FAR);
    case "PageDown":
      return to(place - FAR);
    case "Home":
      return to(0);
    case "End":
      return to(last);
    case "ArrowUp":
    case "ArrowDown": {
      const other = phase.lanes.find((each) => each.lane !== lane);
      return { place, lane: other?.lane ?? lane };
    }
    default:
      return null;
  }
}
