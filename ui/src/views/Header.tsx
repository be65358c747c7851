// The first line: which server this is, what is lost, what tracing costs, and how time is taken.
import { costShare, whole } from "../lib/format.ts";
import { partInWords } from "../lib/notes.ts";
import { address, algorithm, lostInWords, lostTotal, modelName } from "../lib/run.ts";
import { timingInWords } from "../lib/timing.ts";
import type { RunState } from "../lib/wire.ts";
import { chooseRun, figures, run, server, theme, themeOverride, timing } from "../state.ts";
import { Term } from "./Card.tsx";
import { Control, controlOpen } from "./Control.tsx";
import { helping } from "./Help.tsx";
import { ServersButton } from "./Servers.tsx";

/** Mark, run, losses, cost, timing mode, theme. */
export function Header() {
  const current = run.value;
  return (
    <header class="top">
      <h1 class="brand">
        <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
          <rect x="1" y="3" width="6" height="4" fill="var(--phase-draft)" />
          <rect x="5" y="8" width="12" height="4" fill="var(--phase-verify)" />
          <rect x="15" y="13" width="4" height="4" fill="var(--phase-draft_extend)" />
        </svg>
        spectrace
      </h1>
      {current && <Identity current={current} />}
      <div class="grow" />
      {current && <Health current={current} />}
      <ServersButton />
      <ThemeSwitch />
      <HelpButton />
    </header>
  );
}

function Identity({ current }: { readonly current: RunState }) {
  const runs = server.value?.runs ?? [];
  const reporting = current.ranks.filter((rank) => rank.reporting).length;
  const all = current.ranks.length;
  const drafts = algorithm(current, figures.value.summary);
  return (
    <div class="identity">
      {runs.length > 1 ? (
        <select
          aria-label="Run"
          title={`${modelName(current)}, ${address(current)}`}
          value={current.run}
          onChange={(event) => chooseRun(event.currentTarget.value)}
        >
          {runs.map((each) => (
            <option key={each.run} value={each.run}>
              {modelName(each)}, {address(each)}
            </option>
          ))}
        </select>
      ) : (
        <b class="shrinks" title={modelName(current)}>
          {modelName(current)}
        </b>
      )}
      {runs.length < 2 && (
        <span class="roomy shrinks" title={address(current)}>
          {address(current)}
        </span>
      )}
      {current.engine && current.engine !== modelName(current) && (
        <span class="wide shrinks" title={current.engine}>
          {current.engine}
        </span>
      )}
      {drafts && (
        <span class="cut drafts" title={drafts}>
          {drafts}
        </span>
      )}
      {all > 0 && (
        <Term about="One rank is one server process. The number says how many of them report.">
          <span class="ranks">
            ranks{" "}
            <b class={reporting < all ? "bad" : ""}>
              {reporting}/{all}
            </b>
            <span class="ticks roomy" aria-hidden="true">
              {current.ranks.slice(0, 16).map((rank) => (
                <span key={rank.name} class={rank.reporting ? "" : "missing"} />
              ))}
            </span>
          </span>
        </Term>
      )}
    </div>
  );
}

function Health({ current }: { readonly current: RunState }) {
  const lost = lostTotal(current);
  const cost = figures.value.summary?.probe_share ?? null;
  const median = figures.value.summary?.probe_median_us ?? null;
  const which = partInWords(figures.value.share) === null ? "" : " recorded in full";
  return (
    <>
      <Term about={lostInWords(current) || "No record, cycle or export was lost since the start."}>
        <span class="stat">
          lost <b class={lost > 0 ? "bad" : ""}>{whole(lost)}</b>
        </span>
      </Term>
      <Term
        class="roomy"
        about={`The probe's own time in the cycles${which} of the last 10 s, divided by the time of these cycles${
          median === null ? "." : `; ${median.toFixed(0)} µs in the median cycle.`
        }${which && " Cycles that sampling leaves out take a small part of that."}`}
      >
        <span class="stat">
          tracer cost{" "}
          <b>
            {median !== null && <span class="wide">{median.toFixed(0)} µs, </span>}
            {costShare(cost)}
          </b>
          {which && " in full"}
        </span>
      </Term>
      <Mode current={current} />
    </>
  );
}

/** How time is taken now, and what was asked for where that is something else. */
function Mode({ current }: { readonly current: RunState }) {
  const { modes, asked, slows } = timing.value;
  if (modes.length === 0) {
    return null;
  }
  const said = (
    <>
      <span class="dim">timing</span>
      <b>
        {slows && "▲ "}
        {modes.join(", ")}
      </b>
      {asked.length > 0 && <span class="dim">not {asked.join(", ")}</span>}
    </>
  );
  if (current.steerable || controlOpen.value) {
    const mode = asked[0] ?? modes[0] ?? "";
    return (
      <Control
        current={current}
        mode={mode}
        slows={slows}
        about={timingInWords(timing.value, current.timing)}
      >
        {said}
      </Control>
    );
  }
  return (
    <Term about={timingInWords(timing.value, current.timing)}>
      <span class={slows ? "badge warn" : "badge"}>{said}</span>
    </Term>
  );
}

function HelpButton() {
  return (
    <button
      type="button"
      class="button plain icon roomy"
      aria-label="All keys"
      title="All keys (?)"
      onClick={() => {
        helping.value = true;
      }}
    >
      ?
    </button>
  );
}

function ThemeSwitch() {
  const other = theme.value === "dark" ? "light" : "dark";
  return (
    <button
      type="button"
      class="button plain icon"
      aria-label={`Switch to ${other} colours`}
      title={`Switch to ${other} colours`}
      onClick={() => {
        themeOverride.value = other;
      }}
    >
      <svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true">
        <circle cx="7" cy="7" r="6" fill="none" stroke="currentColor" stroke-width="1.5" />
        <path d="M7 1a6 6 0 0 1 0 12z" fill="currentColor" />
      </svg>
    </button>
  );
}
