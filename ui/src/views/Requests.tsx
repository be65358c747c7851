// Requests as others traced them, beside the cycles: a track of bars, and a list behind a button.
import { clock, ms, plural, shortId, whole } from "../lib/format.ts";
import { type Bar, idOf, packed, type RequestSpan, type TracedRequest } from "../lib/requests.ts";
import { columns, cycles, requests } from "../state.ts";
import { Term } from "./Card.tsx";
import { Copy } from "./Copy.tsx";
import { Panel } from "./Panel.tsx";

const ROWS = 5;
const LISTED = 50;
const DRAWN_SPANS = 60;
const DEEPEST = 3;
const ABOUT =
  "Spans of others that were sent here, such as SGLang's own (--enable-trace): a bar for each " +
  "request, from its first span to its last.";

/** A track below those of the strip chart, on the same axis; nothing where there are none. */
export function RequestTrack() {
  const { time } = columns.value;
  const first = time[0];
  const last = time.at(-1);
  if (requests.value.length === 0 || first === undefined || last === undefined) {
    return null;
  }
  // The last second begins one before "now", as in the tracks above.
  const bars = packed(requests.value, first * 1000, (last + 1) * 1000, ROWS);
  return (
    <div class="track requesttrack">
      <div class="gutter">
        <Term class="caption" about={ABOUT}>
          requests
        </Term>
        <b>{whole(bars.length)}</b>
      </div>
      <div
        class="plot"
        role="img"
        aria-label={`${plural(bars.length, "traced request")} in the last five minutes`}
      >
        {bars.map((bar) => (
          <RequestBar key={bar.request.trace} bar={bar} />
        ))}
      </div>
      <div class="ylimits" />
    </div>
  );
}

function RequestBar({ bar }: { readonly bar: Bar }) {
  const { request, row, left, width } = bar;
  return (
    <i
      class={request.failed ? "failed" : ""}
      title={`${idOf(request)}, ${ms(request.lengthMs)}${request.failed ? ", failed" : ""}`}
      style={{
        left: `${left * 100}%`,
        width: `${width * 100}%`,
        top: `${(row / ROWS) * 100}%`,
      }}
    />
  );
}

/** The button and its list; nothing where there are none. */
export function Requests() {
  const count = requests.value.length;
  return count > 0 ? (
    <Panel label={`Requests ${whole(count)}`} class="button">
      <RequestList />
    </Panel>
  ) : null;
}

/** The newest requests as a table. */
export function RequestList() {
  return <TracedTable shown={requests.value.slice(-LISTED).toReversed()} />;
}

/** Some requests as a table, in their order. */
export function TracedTable({ shown }: { readonly shown: readonly TracedRequest[] }) {
  const served = cyclesByRequest();
  return (
    <table class="traced">
      <caption class="unseen">Traced requests, newest first</caption>
      <thead>
        <tr>
          <th scope="col">request</th>
          <th scope="col">began</th>
          <th scope="col">took</th>
          <th scope="col">spans</th>
          <th scope="col" title="Cycles in view that worked for it">
            cycles
          </th>
          <th scope="col">
            <span class="unseen">copy</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {shown.map((request) => (
          <tr key={request.trace}>
            <th scope="row">
              <span class="mono" title={`${request.name}, ${request.service}`}>
                {shortId(idOf(request), 14)}
              </span>
              {request.failed && <span class="bad"> failed</span>}
            </th>
            <td>{clock(request.t0Ms, true)}</td>
            <td>{ms(request.lengthMs)}</td>
            <td>
              <Spans request={request} />
            </td>
            <td>{whole(request.ids.reduce((sum, id) => sum + (served.get(id) ?? 0), 0))}</td>
            <td>
              <Copy text={idOf(request)} label="Copy" class="small" />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** What became of the request's time: its spans, each below the one that it is a part of. */
function Spans({ request }: { readonly request: TracedRequest }) {
  const drawn = request.spans.filter((span) => span.depth <= DEEPEST).slice(0, DRAWN_SPANS);
  const words = drawn.map((span) => `${span.name} ${ms(span.endMs - span.startMs)}`);
  const count = request.spans.length + request.more;
  return (
    <div class="spans" role="img" aria-label={`${plural(count, "span")}: ${words.join(", ")}`}>
      {drawn.map((span, place) => (
        <i
          // biome-ignore lint/suspicious/noArrayIndexKey: spans have no other name here
          key={place}
          class={span.failed ? "failed" : ""}
          title={words[place]}
          style={spanStyle(span, request.lengthMs)}
        />
      ))}
    </div>
  );
}

function spanStyle(span: RequestSpan, lengthMs: number) {
  const share = (value: number) => `${(value / Math.max(lengthMs, 1e-6)) * 100}%`;
  return {
    left: share(span.startMs),
    width: share(span.endMs - span.startMs),
    top: `${(span.depth / (DEEPEST + 1)) * 100}%`,
  };
}

function cyclesByRequest(): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const cycle of cycles.value) {
    for (const row of cycle.requests ?? []) {
      counts.set(row.id, (counts.get(row.id) ?? 0) + 1);
    }
  }
  return counts;
}
