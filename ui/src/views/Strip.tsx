// The last five minutes: cycle time, accept length and throughput on one axis of time.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { exactStep, limits, limitText, type Range } from "../lib/axis.ts";
import { clock, length, msCell, rate } from "../lib/format.ts";
import { evenLabel, type Goals, goalsInWords, plainLabel } from "../lib/goals.ts";
import { type Columns, everyTenth, lastValue, type Second, secondAt } from "../lib/series.ts";
import { colour, type Theme } from "../lib/tokens.ts";
import { layout } from "../pointing.ts";
import { columns, goals, paused, STRIP_S, select, stripEndMs, theme } from "../state.ts";
import { Term } from "./Card.tsx";
import { RequestTrack } from "./Requests.tsx";
import { letters, view } from "./timeline/model.ts";
import type { Letter } from "./timeline/paint.ts";

const MINUTE_S = 60;
const MINUTES = STRIP_S / MINUTE_S;
const TABLE_MS = 5000;
/** What a line of words takes above a line, in px. */
const LABEL_ROOM = 14;
const AGO = Array.from({ length: MINUTES }, (_, place) => MINUTES - place);

type Values = readonly (number | null)[];

interface TrackProps {
  readonly name: string;
  readonly about: string;
  readonly unit: string;
  /** No value can be smaller. */
  readonly floor?: number;
  readonly time: readonly number[];
  readonly values: Values;
  /** The stretch around the line, from below to above. */
  readonly band?: readonly [Values, Values];
  readonly goal?: Goal | null;
  readonly text: (value: number | null) => string;
  readonly hovered: number | null;
  readonly onHover: (place: number | null) => void;
  readonly over: Over;
}

/** A value that the curve is held against. */
interface Goal {
  readonly value: number;
  /** At its line. */
  readonly label: string;
}

/** What lies over the curves: what the waterfall shows of the past, and marks. UNIX ms. */
interface Over {
  readonly view: Range | null;
  readonly letters: readonly Letter[];
}

/** Three tracks, one of requests where somebody traces them, and their axis. */
export function Strip() {
  const hovered = useSignal<number | null>(null);
  const shown = columns.value;
  const end = stripEndMs.value;
  const aims = goals.value;
  const dashed = aims === null ? "" : ` Dashed: ${goalsInWords(aims)}`;
  const past = paused.value !== null && layout.value === "time";
  const shared = {
    time: shown.time,
    hovered: hovered.value,
    over: { view: past ? view.value : null, letters: letters.value },
    onHover: (place: number | null) => {
      hovered.value = place;
    },
  };
  return (
    <section class="strip" aria-label="Last five minutes">
      <Track
        {...shared}
        name="cycle time"
        about="The median of each second, in a band from p5 to p95, of cycles that verify or decode."
        unit="ms"
        values={shown.cycleP50}
        band={[shown.cycleP5, shown.cycleP95]}
        text={msCell}
      />
      <Track
        {...shared}
        name="accept length"
        about={`(correct drafts + verifies) / verifies of each second.${dashed}`}
        unit="tokens"
        floor={1}
        values={shown.acceptLength}
        goal={aims && { value: aims.breakEven.value, label: evenLabel(aims) }}
        text={length}
      />
      <Track
        {...shared}
        name="throughput"
        about={`Tokens that all requests together got in each second. Where only some cycles are recorded in full the others are taken to be like them; where fewer than five of a second are, it is the mean of up to eleven seconds around it. A blank stretch was not seen, or too few were recorded there.${dashed}`}
        unit="tok/s"
        values={shown.tokensPerS}
        goal={aims && { value: aims.plainTokensPerS, label: plainLabel(aims) }}
        text={rate}
      />
      <RequestTrack />
      <TimeAxis shown={shown} hovered={hovered} end={end} />
      <div class="unseen">
        <StripTable shown={shown} goals={aims} />
      </div>
    </section>
  );
}

/** The axis below the tracks: one stop of the keyboard, which goes through the seconds. */
function TimeAxis(props: {
  readonly shown: Columns;
  readonly hovered: Signal<number | null>;
  /** UNIX ms; null is now. */
  readonly end: number | null;
}) {
  const { shown, hovered, end } = props;
  const at = hovered.value === null ? undefined : shown.time[hovered.value];
  const spoken = at === undefined ? end : at * 1000;
  return (
    <div class="track timeaxis">
      <div class="gutter caption">{spoken === null ? "" : clock(spoken)}</div>
      <div
        class="scale caption"
        role="slider"
        tabIndex={0}
        aria-label="Second in the strip chart. Enter selects its slowest cycle."
        aria-valuemin={0}
        aria-valuemax={shown.time.length - 1}
        aria-valuenow={hovered.value ?? shown.time.length - 1}
        aria-valuetext={inWords(secondAt(shown, hovered.value ?? shown.time.length - 1))}
        onKeyDown={(event) => onKeyDown(event, shown, hovered)}
        onBlur={() => {
          hovered.value = null;
        }}
      >
        {AGO.map((minutes) => (
          <span key={minutes} style={{ left: `${(1 - minutes / MINUTES) * 100}%` }}>
            {minutes === MINUTES ? `${minutes} min ${end === null ? "ago" : "before"}` : minutes}
          </span>
        ))}
      </div>
      <div class="caption" aria-hidden="true">
        <span class="now">{end === null ? "now" : clock(end)}</span>
      </div>
    </div>
  );
}

/** The curves as a table; brought up to date at most every five seconds. */
function StripTable(props: { readonly shown: Columns; readonly goals: Goals | null }) {
  const { shown, goals: aims } = props;
  const kept = useRef<{ seconds: readonly Second[]; atMs: number }>({ seconds: [], atMs: 0 });
  const { seconds, atMs } = kept.current;
  if (seconds.length === 0 || Date.now() - atMs > TABLE_MS) {
    kept.current = { seconds: everyTenth(shown), atMs: Date.now() };
  }
  return (
    <table>
      <caption>
        Every tenth second of the last five minutes, newest first
        {aims &&
          `. Lines to hold them against: ${evenLabel(aims)} tokens, ${plainLabel(aims)} tok/s`}
      </caption>
      <thead>
        <tr>
          <th scope="col">second</th>
          <th scope="col">median cycle time, ms</th>
          <th scope="col">accept length, tokens</th>
          <th scope="col">throughput, tok/s</th>
        </tr>
      </thead>
      <tbody>
        {kept.current.seconds.map((second) => (
          <tr key={second.time}>
            <th scope="row">{clock(second.time * 1000)}</th>
            <td>{msCell(second.cycleP50)}</td>
            <td>{length(second.acceptLength)}</td>
            <td>{rate(second.tokensPerS)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** By how many seconds a key moves. */
const STEPS: Readonly<Record<string, number>> = {
  ArrowLeft: -1,
  ArrowDown: -1,
  ArrowRight: 1,
  ArrowUp: 1,
  PageDown: -10,
  PageUp: 10,
  Home: -STRIP_S,
  End: STRIP_S,
};

function onKeyDown(event: KeyboardEvent, shown: Columns, hovered: Signal<number | null>): void {
  const last = shown.time.length - 1;
  const by = STEPS[event.key];
  if (last < 0) {
    return; // no second has come yet
  }
  if (by !== undefined) {
    hovered.value = Math.min(last, Math.max(0, (hovered.value ?? last + 1) + by));
  } else if (event.key === "Enter") {
    pick(shown, hovered.value ?? last);
  } else {
    return;
  }
  event.preventDefault();
  event.stopPropagation();
}

/** Selects the slowest cycle of a second, the one that a peak is made of. */
function pick(shown: Columns, place: number): void {
  const slowest = shown.slowest[place];
  if (slowest) {
    select(slowest);
  }
}

function inWords(second: Second | null): string {
  if (!second) {
    return "";
  }
  const { time, cycleP50, acceptLength, tokensPerS } = second;
  return [
    clock(time * 1000),
    `cycle time ${msCell(cycleP50)} ms`,
    `accept length ${length(acceptLength)}`,
    `${rate(tokensPerS)} tokens per second`,
  ].join(", ");
}

function Track(props: TrackProps) {
  const { name, about, unit, values, band, goal, text, hovered } = props;
  const range = useRef<Range | null>(null);
  // A line alone says nothing.
  const aim = goal && values.some((each) => each !== null) ? [goal.value] : [];
  range.current = limits(
    [...values, ...(band ? [...band[0], ...band[1]] : []), ...aim],
    range.current,
    props.floor,
  );
  const value = hovered === null ? lastValue(values) : (values[hovered] ?? null);
  return (
    <div class="track">
      <div class="gutter">
        <Term class="caption" about={about}>
          {name}
        </Term>
        <b title={`${text(value)} ${unit}`}>
          {text(value)} <span class="dim">{unit}</span>
        </b>
      </div>
      <Plot {...props} range={range.current} />
      <div class="ylimits caption" aria-hidden="true">
        <span>{limit(range.current, "end")}</span>
        <span>{limit(range.current, "start")}</span>
      </div>
    </div>
  );
}

function Plot(props: TrackProps & { readonly range: Range | null }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const tone = theme.value;

  useLayoutEffect(() => {
    const place = box.current;
    if (!place) {
      return;
    }
    const chart = new uPlot(
      options(place, tone, latest),
      data(latest.current) as uPlot.AlignedData,
      place,
    );
    plot.current = chart;
    // By its own place: the cursor follows the pointer a frame later, and a finger has moved none.
    const onClick = (event: MouseEvent) => pick(columns.peek(), chart.posToIdx(event.offsetX));
    chart.over.addEventListener("click", onClick);
    const fit = new ResizeObserver(() =>
      chart.setSize({ width: place.clientWidth, height: place.clientHeight }),
    );
    fit.observe(place);
    return () => {
      fit.disconnect();
      chart.destroy();
      plot.current = null;
    };
  }, [tone]);
  useEffect(() => {
    plot.current?.setData(data(latest.current) as uPlot.AlignedData);
  }, [props.time]);
  useEffect(
    () => plot.current?.redraw(false),
    [props.over.view, props.over.letters, props.goal?.label],
  );
  useEffect(() => {
    const chart = plot.current;
    // The pointer moves the cursor itself; what the keyboard chose is shown in the same way.
    if (chart && (chart.cursor.idx ?? null) !== props.hovered) {
      const time = props.hovered === null ? undefined : props.time[props.hovered];
      const left = time === undefined ? -10 : chart.valToPos(time, "x");
      chart.setCursor({ left, top: time === undefined ? -10 : 0 }, false);
    }
  }, [props.hovered]);
  return <div class="plot" ref={box} />;
}

function options(
  place: HTMLElement,
  tone: Theme,
  latest: { readonly current: TrackProps & { readonly range: Range | null } },
): uPlot.Options {
  const ink = colour("ink", tone);
  const line: uPlot.Series = { stroke: ink, width: 1.25, points: { size: 3 }, spanGaps: false };
  const edge: uPlot.Series = { stroke: "transparent", width: 0, points: { show: false } };
  const banded = latest.current.band !== undefined;
  return {
    width: place.clientWidth,
    height: place.clientHeight,
    padding: [4, 0, 4, 0],
    legend: { show: false },
    axes: [{ show: false }, { show: false }],
    cursor: {
      y: false,
      points: { show: false },
      drag: { x: false, y: false },
      sync: { key: "strip" },
    },
    scales: {
      // The last second begins one before "now".
      x: { time: false, range: (_, from, to) => [from, Math.max(to + 1, from + 1)] },
      y: {
        range: () => {
          const { range } = latest.current;
          return [range?.start ?? 0, range?.end ?? 1];
        },
      },
    },
    series: banded ? [{}, edge, edge, line] : [{}, line],
    ...(banded ? { bands: [{ series: [2, 1], fill: `${colour("ink3", tone)}4D` }] } : {}),
    hooks: {
      drawClear: [(chart) => drawMinutes(chart, colour("line", tone))],
      draw: [
        (chart) => drawGoal(chart, latest.current.goal ?? null, tone),
        (chart) => drawOver(chart, latest.current.over, tone),
      ],
      setCursor: [(chart) => latest.current.onHover(chart.cursor.idx ?? null)],
    },
  };
}

function data({ time, values, band }: TrackProps): (readonly (number | null)[])[] {
  return band ? [time, band[0], band[1], values] : [time, values];
}

function drawMinutes(chart: uPlot, stroke: string): void {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.fillStyle = stroke;
  for (let minute = 1; minute < MINUTES; minute += 1) {
    const x = Math.round(bbox.left + (bbox.width * minute) / MINUTES);
    ctx.fillRect(x, 0, Math.max(1, Math.round(devicePixelRatio)), ctx.canvas.height);
  }
  ctx.restore();
}

/** A dashed line with its name above it, or below where there is no room. */
function drawGoal(chart: uPlot, goal: Goal | null, tone: Theme): void {
  const { ctx, bbox } = chart;
  if (!goal || chart.data.at(-1)?.every((value) => value === null)) {
    return;
  }
  const px = devicePixelRatio;
  const width = Math.max(1, Math.round(px));
  // The middle of a line of whole pixels, so that it is sharp.
  const y = Math.round(chart.valToPos(goal.value, "y", true) - width / 2) + width / 2;
  ctx.save();
  ctx.strokeStyle = colour("good", tone);
  ctx.lineWidth = width;
  ctx.setLineDash([6 * px, 4 * px]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.font = `${11 * px}px ${getComputedStyle(document.body).fontFamily}`;
  ctx.textAlign = "left";
  const above = y - bbox.top > LABEL_ROOM * px;
  ctx.textBaseline = above ? "bottom" : "top";
  const at = [bbox.left + 4 * px, y + (above ? -2 : 3) * px] as const;
  // A plate, so that no curve runs through the words.
  ctx.strokeStyle = colour("bg", tone);
  ctx.lineWidth = 3 * px;
  ctx.strokeText(goal.label, ...at);
  ctx.fillStyle = colour("good", tone);
  ctx.fillText(goal.label, ...at);
  ctx.restore();
}

/** What the waterfall shows as a tinted stretch, marks as dashed lines. */
function drawOver(chart: uPlot, { view: stretch, letters: marked }: Over, tone: Theme): void {
  const { ctx, bbox } = chart;
  const px = Math.max(1, Math.round(devicePixelRatio));
  const xOf = (timeMs: number) => Math.round(chart.valToPos(timeMs / 1000, "x", true));
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, 0, bbox.width, ctx.canvas.height);
  ctx.clip();
  if (stretch) {
    const [from, to] = [xOf(stretch.start), xOf(stretch.end)];
    ctx.fillStyle = colour("tint", tone);
    ctx.fillRect(from, 0, Math.max(px, to - from), ctx.canvas.height);
    ctx.fillStyle = colour("accent", tone);
    ctx.fillRect(from, 0, px, ctx.canvas.height);
    ctx.fillRect(Math.max(from + px, to), 0, px, ctx.canvas.height);
  }
  ctx.strokeStyle = colour("accent", tone);
  ctx.lineWidth = px;
  ctx.setLineDash([2 * px, 3 * px]);
  for (const { time } of marked) {
    ctx.beginPath();
    ctx.moveTo(xOf(time), 0);
    ctx.lineTo(xOf(time), ctx.canvas.height);
    ctx.stroke();
  }
  ctx.restore();
}

function limit(range: Range | null, side: "start" | "end"): string {
  return range ? limitText(range[side], exactStep(range)) : "";
}
