// Other numbers of steps: a curve of throughput, a slider to try one, and a table of all.
import { estimateText } from "../../lib/estimate.ts";
import { msCell, rate, whole } from "../../lib/format.ts";
import { type Frame, through, xOf, yOf } from "../../lib/plot.ts";
import { isSame, type Point, type Report, settingKey } from "../../lib/report.ts";
import { doubtsInWords, originInWords, settingInWords } from "../../lib/verdict.ts";
import {
  batchesOf,
  bestInWords,
  type Choice,
  choiceOf,
  isExtrapolated,
  placeOf,
  pointInWords,
  throughputAxis,
} from "../../lib/whatif.ts";
import { triedBatch, triedSetting } from "../../state.ts";
import { Term } from "../Card.tsx";
import { Flags } from "./Flags.tsx";
import { Plot, Whisker } from "./Plot.tsx";
import { Sideways } from "./Sideways.tsx";

const INSET = 0.5;

/** Nothing can be told without a point. */
export function WhatIf({ report }: { readonly report: Report }) {
  const choice = choiceOf(report, triedBatch.value);
  const place = choice ? placeOf(choice, triedSetting.value) : 0;
  const tried = choice?.points[place];
  return (
    <section class="part">
      <div class="between">
        <h3>
          <Term about="From measured acceptance at each position and measured costs. Throughput is batch size × tokens per cycle / cycle time.">
            What other settings would give
          </Term>{" "}
          {choice && <span class="caption">batch size {whole(choice.batch)}</span>}
        </h3>
        <Batches report={report} batch={choice?.batch ?? null} />
      </div>
      {choice && tried ? (
        <>
          <p class="soft">{bestInWords(choice)}</p>
          <div class="tried">
            <div>
              <Curve choice={choice} tried={tried} />
              <Slider choice={choice} place={place} />
              <p class="caption">● measured ○ predicted, dashed: beyond what was measured</p>
            </div>
            <div>
              <Table choice={choice} tried={tried} />
              <h4>To try {settingInWords(tried.setting)} on the server</h4>
              <Flags flags={tried.flags} />
              <p class="caption">The server has to be restarted.</p>
            </div>
          </div>
        </>
      ) : (
        <p class="soft">Other settings cannot be told from this run.</p>
      )}
    </section>
  );
}

function Batches(props: { readonly report: Report; readonly batch: number | null }) {
  const batches = batchesOf(props.report);
  return batches.length > 1 ? (
    <select
      aria-label="Batch size"
      value={String(props.batch)}
      onChange={(event) => {
        triedBatch.value = Number(event.currentTarget.value);
      }}
    >
      {batches.map((batch) => (
        <option key={batch} value={batch}>
          batch size {whole(batch)}
        </option>
      ))}
    </select>
  ) : null;
}

function along({ points }: Choice) {
  return { start: -INSET, end: points.length - 1 + INSET };
}

function Curve({ choice, tried }: { readonly choice: Choice; readonly tried: Point }) {
  const { points, plain } = choice;
  const { range, at } = throughputAxis(choice);
  return (
    <Plot
      label={`Throughput in tok/s: ${points.map(pointInWords).join("; ")}`}
      height={232}
      range={range}
      at={at}
    >
      {(frame) => {
        const x = (place: number) => xOf(frame, along(choice), place);
        const y = (value: number) => yOf(frame, range, value);
        const plainY = plain && y(plain.tokensPerS.value);
        return (
          <>
            <Band choice={choice} x={x} y={y} />
            {plain && plainY !== null && (
              <>
                <line
                  class="goal"
                  x1={frame.left}
                  x2={frame.width - frame.right}
                  y1={plainY}
                  y2={plainY}
                />
                <text
                  class="name good"
                  x={frame.width - frame.right}
                  y={plainY - 6}
                  text-anchor="end"
                >
                  plain decode {rate(plain.tokensPerS.value)} tok/s
                </text>
              </>
            )}
            {points.map((point, place) => (
              <Spot
                key={settingKey(point.setting)}
                frame={frame}
                point={point}
                range={range}
                x={x(place)}
                tried={isSame(point.setting, tried.setting)}
              />
            ))}
          </>
        );
      }}
    </Plot>
  );
}

/** The intervals as a band, and the line through the settings without trees. */
function Band(props: {
  readonly choice: Choice;
  readonly x: (place: number) => number;
  readonly y: (value: number) => number;
}) {
  const { choice, x, y } = props;
  const chain = choice.points.flatMap((point, place) =>
    point.setting.topk > 1 ? [] : [{ point, at: x(place) }],
  );
  const limit = (of: (point: Point) => number | null) =>
    chain.map(({ point, at }) => [at, y(of(point) ?? point.tokensPerS.value)] as const);
  const high = limit(({ tokensPerS }) => tokensPerS.high);
  const low = limit(({ tokensPerS }) => tokensPerS.low);
  return (
    <>
      <polygon class="reach" points={through([...high, ...low.toReversed()])} />
      {chain.slice(1).map(({ point, at }, place) => {
        const before = chain[place];
        return before ? (
          <line
            key={settingKey(point.setting)}
            class={isExtrapolated(point) || isExtrapolated(before.point) ? "curve beyond" : "curve"}
            x1={before.at}
            y1={y(before.point.tokensPerS.value)}
            x2={at}
            y2={y(point.tokensPerS.value)}
          />
        ) : null;
      })}
    </>
  );
}

function Spot(props: {
  readonly frame: Frame;
  readonly point: Point;
  readonly range: { readonly start: number; readonly end: number };
  readonly x: number;
  readonly tried: boolean;
}) {
  const { frame, point, range, x, tried } = props;
  const y = yOf(frame, range, point.tokensPerS.value);
  const beyond = isExtrapolated(point);
  return (
    <g>
      {tried && <line class="mark" x1={x} x2={x} y1={frame.top} y2={frame.height - frame.bottom} />}
      <Whisker
        frame={frame}
        range={range}
        x={x}
        estimate={point.tokensPerS}
        class={beyond ? "whisker beyond" : "whisker"}
      />
      <circle
        class={`${point.measured ? "measured" : "predicted"}${beyond ? " beyond" : ""}`}
        cx={x}
        cy={y}
        r={5}
      />
      <text class={tried ? "tick chosen" : "tick"} x={x} y={frame.height - 8} text-anchor="middle">
        {point.setting.steps}
      </text>
    </g>
  );
}

/** Below the curve, its handle below the point that is tried. */
function Slider({ choice, place }: { readonly choice: Choice; readonly place: number }) {
  const { points } = choice;
  const tried = points[place];
  if (!tried) {
    return null;
  }
  const inset = `${(INSET / points.length) * 100}%`;
  return (
    <>
      {points.length > 1 && (
        <div class="slider" style={{ "--inset": inset }}>
          <input
            type="range"
            aria-label="Draft steps"
            min={0}
            max={points.length - 1}
            step={1}
            value={place}
            aria-valuetext={pointInWords(tried)}
            onInput={(event) => {
              const point = points[Number(event.currentTarget.value)];
              triedSetting.value = point ? settingKey(point.setting) : null;
            }}
          />
        </div>
      )}
      <p class="saying">{pointInWords(tried)}</p>
    </>
  );
}

function Table({ choice, tried }: { readonly choice: Choice; readonly tried: Point }) {
  const { points, plain, current } = choice;
  const rows = [...(plain ? [plain] : []), ...points];
  const doubts = doubtsInWords(rows.flatMap((point) => point.doubts));
  return (
    <>
      <Sideways label="Settings">
        <table>
          <caption class="unseen">Settings at batch size {whole(choice.batch)}</caption>
          <thead>
            <tr>
              <th scope="col">setting</th>
              <th scope="col">tokens</th>
              <th scope="col">cycle, ms</th>
              <th scope="col">tok/s</th>
              <th scope="col">of plain</th>
              <th scope="col">known from</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((point) => (
              <tr
                key={settingKey(point.setting)}
                class={isSame(point.setting, tried.setting) ? "chosen" : ""}
              >
                <th scope="row">
                  {settingInWords(point.setting)}
                  {current && isSame(point.setting, current.setting) && (
                    <span class="dim"> now</span>
                  )}
                </th>
                <td>{estimateText(point.acceptLength)}</td>
                <td>{msCell(point.cycleMs.value)}</td>
                <td>{estimateText(point.tokensPerS, 1)}</td>
                <td>{point.speedUp ? `${point.speedUp.value.toFixed(2)}×` : "–"}</td>
                <td>{originInWords(point)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Sideways>
      {doubts.map((doubt) => (
        <p class="caption" key={doubt}>
          {doubt}
        </p>
      ))}
    </>
  );
}
