// Ways of timing side by side: a report of `spectrace compare-timing --json`, opened from a file.
import { type Signal, signal } from "@preact/signals";
import { estimateText } from "../../lib/estimate.ts";
import { ms } from "../../lib/format.ts";
import { phaseLabel } from "../../lib/phases.ts";
import {
  costText,
  decodeTimingReport,
  differenceText,
  groundOf,
  laneOf,
  MOST_BYTES,
  type ModeFigures,
  phaseNames,
  phasesOf,
  piecesOf,
  type TimingReport,
} from "../../lib/timingReport.ts";
import { run } from "../../state.ts";
import { Failure } from "../AsOf.tsx";
import { Copy } from "../Copy.tsx";
import { Swatch } from "../Swatch.tsx";
import { Sideways } from "../verdict/Sideways.tsx";
import { StackedBars } from "./StackedBars.tsx";

const ABOUT: Readonly<Record<string, string>> = {
  off: "one host stamp per cycle",
  host: "the host's clock alone",
  device: "events on the device, nothing waits",
  sync: "a synchronize at every boundary",
};

/** What the last file was, and the last report; both stay in this page and go nowhere. */
const opened: Signal<{
  readonly name: string;
  readonly report: TimingReport | null;
  readonly failure: string | null;
} | null> = signal(null);

/** The report, or how to get one. */
export function Timing() {
  const now = opened.value;
  return (
    <section class="served runs" aria-label="Timing">
      <div class="freshness">
        <label class="pick">
          <span class="caption">report</span>
          <input
            type="file"
            accept=".json,application/json"
            onChange={({ currentTarget }) => void open(currentTarget.files?.[0])}
          />
        </label>
      </div>
      <Failure what={`${now?.name} is no such report.`} why={now?.failure} />
      {now?.report ? <Found report={now.report} /> : <HowTo />}
    </section>
  );
}

async function open(file: File | undefined): Promise<void> {
  if (!file) {
    return;
  }
  const { name } = file;
  try {
    if (file.size > MOST_BYTES) {
      throw new RangeError("too large");
    }
    opened.value = { name, report: decodeTimingReport(await file.text()), failure: null };
  } catch {
    opened.value = {
      name,
      report: opened.value?.report ?? null,
      failure: "Choose what spectrace compare-timing --json wrote.",
    };
  }
}

function HowTo() {
  const pid = run.value?.server_pid;
  const command = `spectrace compare-timing ${pid || "PID"} --json > timing.json`;
  return (
    <div class="part">
      <p class="sentence">No report is open.</p>
      <p class="soft">
        How far the host's clock, events and a synchronize lie from each other is measured on the
        running server by turns. The command says what the blocks of sync will cost it, and asks;
        then open its file here. It stays in this page.
      </p>
      <div class="command">
        <code class="mono">{command}</code>
        <Copy text={command} label="Copy" />
      </div>
    </div>
  );
}

function Found({ report }: { readonly report: TimingReport }) {
  const [first, ...rest] = report.sentences;
  return (
    <>
      <div class="part">
        <h2 class="sentence">{first ?? "What each mode shows"}</h2>
        {rest.map((sentence) => (
          <p key={sentence} class="soft">
            {sentence}
          </p>
        ))}
      </div>
      <section class="part" aria-label="Cycles in each mode">
        <h3>
          A cycle in each mode <span class="caption">medians; grey is in no phase</span>
        </h3>
        <Bars modes={report.modes} />
        <Cycles report={report} />
      </section>
      <section class="part" aria-label="Phases in each mode">
        <h3>
          Phases{" "}
          {report.reference && (
            <span class="caption">differences are against {report.reference} timing</span>
          )}
        </h3>
        <Phases report={report} />
      </section>
      <p class="part caption">{groundOf(report)}</p>
    </>
  );
}

/** One bar a mode, on one axis from 0. */
function Bars({ modes }: { readonly modes: readonly ModeFigures[] }) {
  const said = modes.map((each) => `${each.mode} ${ms(each.cycleMs.value)}`).join(", ");
  return (
    <StackedBars
      label={`Median cycles: ${said}`}
      bars={modes.map((each) => ({
        name: each.mode,
        pieces: piecesOf(each),
        filled: laneOf(each) === "device",
        words: ms(each.cycleMs.value),
      }))}
      named={true}
      left={64}
      right={72}
      row={34}
      free={6}
    />
  );
}

function Cycles({ report }: { readonly report: TimingReport }) {
  return (
    <Sideways label="Whole cycles">
      <table>
        <thead>
          <tr>
            <th scope="col">mode</th>
            <th scope="col">how</th>
            <th scope="col">cycle, ms</th>
            <th scope="col">tokens/s</th>
            <th scope="col">what it costs</th>
          </tr>
        </thead>
        <tbody>
          {report.modes.map((each) => (
            <tr key={each.mode}>
              <th scope="row">
                {each.mode === "sync" ? <span class="badge warn">sync</span> : each.mode}
              </th>
              <td class="soft">{ABOUT[each.mode] ?? ""}</td>
              <td>{estimateText(each.cycleMs)}</td>
              <td>{estimateText(each.tokensPerS, 1)}</td>
              <td>{costText(report.costs.get(each.mode))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Sideways>
  );
}

function Phases({ report }: { readonly report: TimingReport }) {
  const divided = report.modes.filter((each) => laneOf(each) !== null);
  const against = divided.filter((each) => report.differences.has(each.mode));
  return (
    <Sideways label="Phases by mode">
      <table>
        <thead>
          <tr>
            <th scope="col">phase, ms</th>
            {divided.map((each) => (
              <th key={each.mode} scope="col">
                {each.mode}
              </th>
            ))}
            {against.map((each) => (
              <th key={each.mode} scope="col">
                {each.mode} − {report.reference}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {phaseNames(report).map((name) => (
            <tr key={name}>
              <th scope="row">
                <Swatch phase={name} lane="device" />
                {phaseLabel(name)}
              </th>
              {divided.map((each) => (
                <td key={each.mode}>
                  {estimateText(phasesOf(each).find((phase) => phase.name === name)?.ms ?? null)}
                </td>
              ))}
              {against.map((each) => (
                <td key={each.mode}>
                  {differenceText(report.differences.get(each.mode)?.get(name))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Sideways>
  );
}
