// The figures of the last seconds: what a cycle gives, accept length, and where its time goes.
import { clock, length, ms, msCell, rate, whole } from "../lib/format.ts";
import { graphsInWords, type Load } from "../lib/load.ts";
import { partInWords } from "../lib/notes.ts";
import type { CycleTimes, Summary } from "../lib/wire.ts";
import { type Figures, figures, goals, load, SUMMARY_S } from "../state.ts";
import { Bullet } from "./Bullet.tsx";
import { Term } from "./Card.tsx";
import { EvenMark } from "./EvenMark.tsx";
import { Shares } from "./Shares.tsx";

/** Three cells beside each other. */
export function Band() {
  const shown = figures.value;
  const times = primary(shown.summary);
  return (
    <section class="band" aria-label="Figures">
      <Answer shown={shown} times={times} />
      <AcceptLength summary={shown.summary} />
      <Shares shown={shown} times={times} />
    </section>
  );
}

/** The times that speak for a stretch: of speculative cycles where there are any. */
function primary(summary: Summary | null): CycleTimes | null {
  return summary?.speculative ?? summary?.decode ?? null;
}

function Answer(props: { readonly shown: Figures; readonly times: CycleTimes | null }) {
  const { shown, times } = props;
  const { summary } = shown;
  const part = partInWords(shown.share);
  return (
    <div class="cell">
      <div class="answer">
        <div>
          <div class="factor">{rate(shown.current ? (summary?.tokens_per_s ?? null) : null)}</div>
          <Term
            class="caption"
            about={`Tokens that all requests together got per second, over the last ${SUMMARY_S} s.`}
          >
            tok/s{shown.untilMs !== null && ` until ${clock(shown.untilMs)}`}
            {part && `, ${part}`}
          </Term>
        </div>
        <div>
          <h2 class="sentence">{sentence(shown, times)}</h2>
          <dl class="facts">
            <Fact
              name="cycle time"
              about="How long a cycle takes, from its start to the start of the next one or to the first idle call, on the first rank. Half of the cycles take at most p50, 95 % at most p95, 99 % at most p99."
              value={percentiles(times)}
              wraps={true}
            />
          </dl>
          <dl class="facts">
            <Fact
              name="cycles/s"
              about={`A cycle is one pass of the decode loop.${part ? " Those recorded in full are counted." : ""}`}
              value={`${rate(shown.current ? (summary?.cycles_per_s ?? null) : null)}${part ? " in full" : ""}`}
            />
            <Fact
              name="batch"
              about="Requests in the median cycle that decodes."
              value={batch(summary, load.value)}
            />
            <Plain summary={summary} />
          </dl>
          <Loaded load={load.value} />
        </div>
      </div>
    </div>
  );
}

function Fact(props: {
  readonly name: string;
  readonly about: string;
  readonly value: string;
  readonly wraps?: boolean;
}) {
  return (
    <div class={props.wraps ? "" : "nowrap"}>
      <dt>
        <Term about={props.about}>{props.name}</Term>
      </dt>
      <dd>
        <b>{props.value}</b>
      </dd>
    </div>
  );
}

/** What the cycles had to do, as far as it is known. */
function Loaded({ load: { contextSum, contextMax, queued, running, ...graphs } }: LoadedProps) {
  const forwards = graphsInWords(graphs);
  const longest = contextMax === null ? "" : `, longest ${whole(contextMax)}`;
  return (
    <dl class="facts">
      {contextSum !== null && (
        <Fact
          name="context"
          about="Tokens of all requests of the batch before its newest cycle, prompt and output; and those of the longest request."
          value={`${whole(contextSum)}${longest}`}
        />
      )}
      {running !== null && (
        <Fact
          name="running"
          about="Requests that the scheduler was serving when the newest results were processed."
          value={whole(running)}
        />
      )}
      {queued !== null && (
        <Fact
          name="queued"
          about="Requests that waited for a place in the batch when the newest results were processed."
          value={whole(queued)}
        />
      )}
      {forwards !== null && (
        <Fact
          name="CUDA graphs"
          about="Which phases replayed a CUDA graph in the last seconds, and which launched their kernels one by one."
          value={forwards}
          wraps={true}
        />
      )}
    </dl>
  );
}

interface LoadedProps {
  readonly load: Load;
}

/** Plain decode beside speculation, where both were seen. */
function Plain({ summary }: { readonly summary: Summary | null }) {
  const time = summary?.speculative ? summary.decode?.time : null;
  return time ? (
    <Fact
      name="plain decode"
      about="The median time of cycles without drafts: what speculation is measured against."
      value={ms(time.p50_ms)}
    />
  ) : null;
}

function sentence(shown: Figures, times: CycleTimes | null): string {
  const { summary, current, lastEndMs } = shown;
  if (!current && lastEndMs !== null) {
    return `No cycle since ${clock(lastEndMs)}`;
  }
  if (!(summary && times?.time)) {
    return lastEndMs === null ? "No cycle yet" : "Nothing was decoded in the last 10 s";
  }
  const took = `A cycle of ${ms(times.time.p50_ms)}`;
  if (!summary.speculative) {
    return `${took} gives each request one token, without drafts`;
  }
  return summary.accept_length === null
    ? `${took}, accepted drafts not counted yet`
    : `${took} gives a request ${length(summary.accept_length)} tokens`;
}

function batch(summary: Summary | null, { padded }: Load): string {
  const size = summary?.batch_size_median ?? null;
  const to = padded === null || padded === size ? "" : `, padded to ${trimmed(padded)}`;
  return `${trimmed(size)}${to}`;
}

function percentiles(times: CycleTimes | null): string {
  if (!times?.time) {
    return "–";
  }
  const { p50_ms, p95_ms, p99_ms } = times.time;
  return `p50 ${msCell(p50_ms)}, p95 ${msCell(p95_ms)}, p99 ${msCell(p99_ms)} ms`;
}

function AcceptLength({ summary }: { readonly summary: Summary | null }) {
  const value = summary?.accept_length ?? null;
  const even = goals.value?.breakEven ?? null;
  const most = Math.max(1, ...(summary?.steps_seen ?? []), Math.ceil(even?.value ?? 0) - 1) + 1;
  return (
    <div class="cell">
      <div class="between">
        <Term about="Accept length: (correct drafts + verifies) / verifies. How many tokens a request gets from one verify, the bonus token among them.">
          <span class="soft">Accept length</span>
        </Term>
        <span class="nowrap">
          <b>{length(value)}</b> <span class="dim">tokens</span>
        </span>
      </div>
      {value === null ? (
        <p class="caption">Nothing was verified.</p>
      ) : (
        <Bullet value={value} most={most} even={even} />
      )}
      {value !== null && even && (
        <div>
          <EvenMark even={even} />
        </div>
      )}
      <Term
        class="caption"
        about="SGLang's spec_accept_length: output tokens / verifies. It counts the token of the prefill and the cut at the token limit, so it differs from the accept length."
      >
        by SGLang's count {length(summary?.server_accept_length ?? null)}
      </Term>
    </div>
  );
}

function trimmed(value: number | null): string {
  return value === null || Number.isInteger(value) ? whole(value) : value.toFixed(1);
}
