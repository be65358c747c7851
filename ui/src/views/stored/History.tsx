// One request: what it got, its accept length over its life, and the cycles that worked for it.
import { type Range, ticks } from "../../lib/axis.ts";
import { clock, length, ms, msCell, plural, whole } from "../../lib/format.ts";
import { through, xOf, yOf } from "../../lib/plot.ts";
import {
  acceptLength,
  type History as Found,
  mostLength,
  overLife,
  type ServedCycle,
  type Stretch,
} from "../../lib/served.ts";
import { history, moreHistory, requestId } from "../../looked.ts";
import { pickedRequest } from "../../looking.ts";
import { runReport } from "../../state.ts";
import { Term } from "../Card.tsx";
import { Copy } from "../Copy.tsx";
import { Plot } from "../verdict/Plot.tsx";
import { CycleLink } from "./CycleLink.tsx";
import { DetailHead, DetailState } from "./DetailHead.tsx";

/** `id` is the request's. */
export function History({ id }: { readonly id: string }) {
  const had = history.of(pickedRequest.value);
  return (
    <aside class="history" aria-label="Request">
      <div class="part">
        <DetailHead of={id} close={close} class="mono wraps">
          {id}
        </DetailHead>
        <Copy text={id} label="Copy id" class="small" />
        <DetailState had={had} />
        {had?.value && <Facts found={had.value} />}
      </div>
      {had?.value && <Life found={had.value} />}
      {had?.value && <Cycles found={had.value} />}
    </aside>
  );
}

function close(): void {
  const link = document.querySelector<HTMLElement>(".requestlist a[aria-current]");
  requestId.value = null;
  link?.focus();
}

function Facts({ found: { request } }: { readonly found: Found }) {
  const facts: readonly (readonly [name: string, value: string])[] = [
    ["began", clock(request.t0Ms, true)],
    ["took", ms(request.lengthMs)],
    ["tokens", whole(request.tokens)],
    ["cycles", whole(request.cycles)],
    ["verifies", whole(request.verifies)],
    ["accept length", length(acceptLength(request))],
  ];
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <b>{value}</b>
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** A step line, for what lies between two stretches was not measured. */
function Life({ found }: { readonly found: Found }) {
  const stretches = overLife(found.cycles);
  const [first] = stretches;
  const last = stretches.at(-1);
  if (!(first && last)) {
    return null;
  }
  const even = breakEven(found.cycles);
  const range = { start: 1, end: Math.max(mostLength(found.cycles), even ?? 0) };
  const along = { start: first.fromMs, end: Math.max(last.toMs, first.fromMs + 1) };
  const each = Math.round(stretches.reduce((sum, one) => sum + one.verifies, 0) / stretches.length);
  return (
    <section class="part" aria-label="Accept length over its life">
      <h3>
        <Term about="(correct drafts + verifies) / verifies, of as many verifies in a row as are named here.">
          Accept length over its life
        </Term>{" "}
        <span class="caption">
          each step {plural(each, "verify", "verifies")}
          {found.before !== null && `, of the newest ${whole(found.cycles.length)} cycles`}
        </span>
      </h3>
      <Plot
        label={`Accept length over the life of the request: ${lifeInWords(stretches)}`}
        height={152}
        range={range}
        at={ticks(range, 5)}
      >
        {(frame) => (
          <>
            {even !== null && (
              <>
                <path
                  class="goal"
                  d={`M${frame.left} ${yOf(frame, range, even)}H${frame.width - frame.right}`}
                />
                <text class="name good" x={frame.left + 4} y={yOf(frame, range, even) - 4}>
                  break-even {length(even)}
                </text>
              </>
            )}
            <polyline
              class="curve"
              fill="none"
              points={through(
                stretches.flatMap(({ fromMs, toMs, length: value }) => [
                  [xOf(frame, along, fromMs), yOf(frame, range, value)] as const,
                  [xOf(frame, along, toMs), yOf(frame, range, value)] as const,
                ]),
              )}
            />
            <Ends
              along={along}
              width={frame.width}
              height={frame.height}
              left={frame.left}
              right={frame.right}
            />
          </>
        )}
      </Plot>
    </section>
  );
}

function Ends(props: {
  readonly along: Range;
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly right: number;
}) {
  const { along, width, height, left, right } = props;
  return (
    <>
      <text class="tick" x={left} y={height - 8}>
        {along.start > 0 ? `${ms(along.start)} after its start` : "its start"}
      </text>
      <text class="tick" x={width - right} y={height - 8} text-anchor="end">
        {ms(along.end)}
      </text>
    </>
  );
}

function lifeInWords(stretches: readonly Stretch[]): string {
  const values = stretches.map((one) => one.length);
  const [first = 1] = values;
  return `${length(first)} at first, ${length(values.at(-1) ?? 1)} at last, from ${length(
    Math.min(...values),
  )} to ${length(Math.max(...values))}`;
}

/** Where speculation begins to pay for most of these cycles; null while no report says so. */
function breakEven(cycles: readonly ServedCycle[]): number | null {
  const report = runReport.value;
  const middle = cycles[Math.floor(cycles.length / 2)];
  const alike = report?.verdict.byBatch.find(
    ({ setting, batch }) => setting.steps === middle?.steps && batch === middle.batch,
  );
  return alike?.breakEven?.value ?? null;
}

function Cycles({ found }: { readonly found: Found }) {
  return (
    <section class="part" aria-label="Cycles of the request">
      <h3>
        Cycles <span class="caption">newest first</span>
      </h3>
      <div class="scrolls tall">
        <table>
          <thead>
            <tr>
              <th scope="col">cycle</th>
              <th scope="col">at</th>
              <th scope="col">cycle, ms</th>
              <th scope="col">batch</th>
              <th scope="col">accepted</th>
              <th scope="col">tokens</th>
            </tr>
          </thead>
          <tbody>
            {found.cycles.map((cycle) => (
              <tr key={cycle.n}>
                <th scope="row">
                  <CycleLink n={cycle.n} />
                </th>
                <td>{ms(cycle.startMs)}</td>
                <td>{msCell(cycle.ms)}</td>
                <td>{whole(cycle.batch)}</td>
                <td>{acceptedInWords(cycle)}</td>
                <td>{whole(cycle.tokens)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {found.before !== null && (
        <button type="button" class="button" disabled={history.asking.value} onClick={moreHistory}>
          Show earlier ones
        </button>
      )}
    </section>
  );
}

function acceptedInWords({ correct, steps, overshoot }: ServedCycle): string {
  if (overshoot) {
    return "overshoot";
  }
  return correct === null ? "–" : `${whole(correct)} of ${whole(steps)}`;
}
