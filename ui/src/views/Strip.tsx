// The last five minutes: cycle time, accept length and throughput on one axis of time.
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { limits, limitText, niceStep, type Range } from "../lib/axis.ts";
import { clock, length, msCell, rate } from "../lib/format.ts";
import { lastValue } from "../lib/series.ts";
import { colour, type Theme } from "../lib/tokens.ts";
import { columns, STRIP_S, stripEndMs, theme } from "../state.ts";
import { Term } from "./Card.tsx";
import { RequestTrack } from "./Requests.tsx";

const MINUTE_S = 60;
const MINUTES = STRIP_S / MINUTE_S;
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
  readonly text: (value: number | null) => string;
  readonly hovered: number | null;
  readonly onHover: (place: number | null) => void;
}

/** Three tracks, one of requests where somebody traces them, and their axis. */
export function Strip() {
  const hovered = useSignal<number | null>(null);
  const shown = columns.value;
  const end = stripEndMs.value;
  const shared = {
    time: shown.time,
    hovered: hovered.value,
    onHover: (place: number | null) => {
      hovered.value = place;
    },
  };
  const at = hovered.value === null ? undefined : shown.time[hovered.value];
  const spoken = at === undefined ? end : at * 1000;
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
        about="(correct drafts + verifies) / verifies of each second."
        unit="tokens"
        floor={1}
        values={shown.acceptLength}
        text={length}
      />
      <Track
        {...shared}
        name="throughput"
        about="Tokens that all requests together got in each second. A blank stretch was not seen."
        unit="tok/s"
        values={shown.tokensPerS}
        text={rate}
      />
      <RequestTrack />
      <div class="track timeaxis">
        <div class="gutter caption">{spoken === null ? "" : clock(spoken)}</div>
        <div class="scale caption" aria-hidden="true">
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
    </section>
  );
}

function Track(props: TrackProps) {
  const { name, about, unit, values, band, text, hovered } = props;
  const range = useRef<Range | null>(null);
  range.current = limits(
    [...values, ...(band ? [...band[0], ...band[1]] : [])],
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

function limit(range: Range | null, side: "start" | "end"): string {
  if (!range) {
    return "";
  }
  const step = niceStep((range.end - range.start) / 2);
  return limitText(range[side], step);
}
