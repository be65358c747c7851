// The figures of the last seconds: what a cycle gives, accept length, and where its time goes.
import { clock, length, ms, msCell, plural, rate, share, whole } from "../lib/format.ts";
import { definition, phaseLabel } from "../lib/phases.ts";
import { phaseProperty } from "../lib/tokens.ts";
import type { CycleTimes, PhaseSummary, Summary } from "../lib/wire.ts";
import { type Figures, figures, rankNames, SUMMARY_S } from "../state.ts";
import { Term } from "./Card.tsx";
import { Swatch } from "./Swatch.tsx";

/** Narrower shares of the bar are drawn solid. */
const THIN = 0.008;

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
          </Term>
        </div>
        <div>
          <h2 class="sentence">{sentence(shown, times)}</h2>
          <dl class="facts">
            <Fact
              name="cycle time"
              about="How long a cycle takes, from its start to the start of the next one or to the first idle call, on the first rank. Half of the cycles take at most p50, 95 % at most p95, 99 % at most p99."
              value={percentiles(times)}
            />
          </dl>
          <dl class="facts">
            <Fact
              name="cycles/s"
              about="A cycle is one pass of the decode loop."
              value={rate(shown.current ? (summary?.cycles_per_s ?? null) : null)}
            />
            <Fact
              name="batch"
              about="Requests in the median cycle that decodes."
              value={trimmed(summary?.batch_size_median ?? null)}
            />
            <Plain summary={summary} />
          </dl>
        </div>
      </div>
    </div>
  );
}

function Fact(props: { readonly name: string; readonly about: string; readonly value: string }) {
  return (
    <div class="nowrap">
      <dt>
        <Term about={props.about}>{props.name}</Term>
      </dt>
      <dd>
        <b>{props.value}</b>
      </dd>
    </div>
  );
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

function percentiles(times: CycleTimes | null): string {
  if (!times?.time) {
    return "–";
  }
  const { p50_ms, p95_ms, p99_ms } = times.time;
  return `p50 ${msCell(p50_ms)}, p95 ${msCell(p95_ms)}, p99 ${msCell(p99_ms)} ms`;
}

function AcceptLength({ summary }: { readonly summary: Summary | null }) {
  const value = summary?.accept_length ?? null;
  const most = Math.max(1, ...(summary?.steps_seen ?? [])) + 1;
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
        <Bullet value={value} most={most} />
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

function Bullet({ value, most }: { readonly value: number; readonly most: number }) {
  const at = (tokens: number) => `${Math.min(100, ((tokens - 1) / (most - 1)) * 100)}%`;
  const step = Math.ceil((most - 1) / 7);
  const marks = Array.from({ length: most }, (_, place) => place + 1).filter(
    (mark) => mark === most || ((mark - 1) % step === 0 && most - mark >= step),
  );
  return (
    <div
      class="bullet"
      role="img"
      aria-label={`accept length ${length(value)} on a scale of 1 to ${most}`}
    >
      <div class="bullet-track">
        <div class="bullet-bar" style={{ width: at(value) }} />
      </div>
      <div class="bullet-scale caption">
        {marks.map((mark) => (
          <span key={mark} style={{ left: at(mark) }}>
            {mark}
          </span>
        ))}
      </div>
    </div>
  );
}

function Shares(props: { readonly shown: Figures; readonly times: CycleTimes | null }) {
  const { shown, times } = props;
  const phases = times?.phases ?? [];
  const top = phases.filter((phase) => !phase.name.includes("."));
  return (
    <div class="cell">
      <div class="between">
        <Term
          about={`Shares of the time of ${kindOf(shown.summary)} cycles on ${rankNames.value[0] ?? "the first rank"} by host clock: when the CPU did it.`}
        >
          <span class="soft">Where a cycle goes</span>
        </Term>
        {top.length > 0 && <span class="caption nowrap">{caption(shown)}</span>}
      </div>
      {top.length === 0 ? (
        <p class="caption">
          {times ? "This timing does not divide cycles into phases." : "No cycle to divide."}
        </p>
      ) : (
        <>
          <div class="sharebar" role="img" aria-label={sharesInWords(top)}>
            {top.map((phase) => (
              <i
                key={phase.name}
                class={phase.share < THIN ? "thin" : ""}
                style={{
                  flex: phase.share,
                  "--c": `var(${phaseProperty(phase.name)})`,
                  "--pale": `var(${phaseProperty(phase.name)}-pale)`,
                }}
              />
            ))}
          </div>
          <div class="legend">
            {phases.map((phase) => (
              <Entry key={phase.name} phase={phase} />
            ))}
          </div>
        </>
      )}
    </div>
  );
}

function Entry({ phase }: { readonly phase: PhaseSummary }) {
  const lag =
    phase.max_lag > 0 ? " With the overlap scheduler it works for an earlier cycle's batch." : "";
  return (
    <div class="nowrap">
      <Term
        about={`${definition(phase.name)}${lag} Median ${ms(phase.time.p50_ms)}, p95 ${ms(phase.time.p95_ms)}; ${share(phase.share)} of the time, in ${plural(phase.cycles, "cycle")}.`}
      >
        <Swatch phase={phase.name} />
        <span class={phase.name.includes(".") ? "soft" : ""}>
          {phaseLabel(phase.name).replace(/^.*\./, "")}
        </span>
        {phase.max_lag > 0 && <span class="dim"> ◂</span>}
      </Term>
      <b>{msCell(phase.time.p50_ms)}</b>
    </div>
  );
}

function kindOf(summary: Summary | null): string {
  return summary?.speculative ? "speculative" : "plain decode";
}

function caption(shown: Figures): string {
  const over = shown.current ? `${SUMMARY_S} s` : "the last cycles";
  return `by host clock, median of ${over}, ms`;
}

function sharesInWords(phases: readonly PhaseSummary[]): string {
  return phases.map((phase) => `${phaseLabel(phase.name)} ${share(phase.share)}`).join(", ");
}

function trimmed(value: number | null): string {
  return value === null || Number.isInteger(value) ? whole(value) : value.toFixed(1);
}
