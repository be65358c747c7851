// A report of `spectrace compare-timing --json`: the same server timed in several modes.
import { decodeEstimate, type Estimate, maybeEstimate, signedText } from "./estimate.ts";
import { MISSING, plural, whole } from "./format.ts";
import {
  type Json,
  list,
  maybeNumber,
  maybeText,
  maybeTexts,
  number,
  object,
  objects,
  text,
} from "./json.ts";
import { phaseOrder } from "./phases.ts";
import { endOf, type Piece, piled } from "./stack.ts";

/** A report is a few kB; what is larger is none. */
export const MOST_BYTES = 5_000_000;

/** A phase in one mode. */
interface PhaseFigures {
  readonly name: string;
  readonly ms: Estimate;
}

/** What one mode shows. */
export interface ModeFigures {
  readonly mode: string;
  readonly cycles: number;
  readonly cycleMs: Estimate;
  readonly cyclesPerS: Estimate;
  readonly tokensPerS: Estimate | null;
  readonly acceptLength: number | null;
  readonly breakEven: number | null;
  readonly host: readonly PhaseFigures[];
  readonly device: readonly PhaseFigures[];
}

/** What a verdict of an interval is: it is not 0, less than the margin, or neither can be said. */
interface Said {
  readonly value: Estimate | null;
  readonly verdict: string;
}

/** The whole report. */
export interface TimingReport {
  /** What was timed: engine, worker, device, process. */
  readonly server: string;
  readonly durationS: number;
  readonly modes: readonly ModeFigures[];
  /** What the phases of other modes are held against, such as "device"; null for none. */
  readonly reference: string | null;
  /** By mode, then by phase, ms longer than in the reference. */
  readonly differences: ReadonlyMap<string, ReadonlyMap<string, Said>>;
  /** By mode: how much slower the server is, as a ratio. */
  readonly costs: ReadonlyMap<string, Said>;
  readonly sentences: readonly string[];
  readonly rounds: number;
  readonly blocks: number;
  readonly confidence: number;
}

/** Reads the text of a file; throws where it is no such report. */
export function decodeTimingReport(json: string): TimingReport {
  const result = object(JSON.parse(json), "report");
  const found = object(result["comparison"], "comparison");
  const reference = found["reference"] ?? null;
  return {
    server: [
      text(result, "engine", ""),
      text(result, "worker", ""),
      text(result, "device", ""),
      `process ${number(result, "server_pid")}`,
    ]
      .filter(Boolean)
      .join(", "),
    durationS: number(result, "duration_s"),
    modes: list(found["modes"], "modes").map(decodeMode),
    reference: reference === null ? null : text(object(reference, "reference"), "mode"),
    differences: byMode(objects(found, "differences")),
    costs: new Map(
      objects(found, "costs").map((cost) => [text(cost, "mode"), said(cost, "throughput_ratio")]),
    ),
    sentences: maybeTexts(found, "sentences"),
    rounds: number(found, "rounds"),
    blocks: number(found, "blocks"),
    confidence: number(found, "confidence"),
  };
}

function decodeMode(value: unknown): ModeFigures {
  const mode = object(value, "mode");
  const phases = (key: string) =>
    list(mode[key] ?? [], key)
      .map((each) => {
        const phase = object(each, "phase");
        return { name: text(phase, "name"), ms: decodeEstimate(phase["time_ms"]) };
      })
      .toSorted((one, other) => phaseOrder(one.name) - phaseOrder(other.name));
  return {
    mode: text(mode, "mode"),
    cycles: number(mode, "cycles"),
    cycleMs: decodeEstimate(mode["cycle_p50_ms"]),
    cyclesPerS: decodeEstimate(mode["cycles_per_s"]),
    tokensPerS: maybeEstimate(mode, "tokens_per_s"),
    acceptLength: maybeNumber(mode, "accept_length"),
    breakEven: maybeNumber(mode, "break_even_accept_length"),
    host: phases("host"),
    device: phases("device"),
  };
}

function byMode(rows: readonly Json[]): ReadonlyMap<string, ReadonlyMap<string, Said>> {
  const found = new Map<string, Map<string, Said>>();
  for (const row of rows) {
    const mode = text(row, "mode");
    const phases = found.get(mode) ?? new Map<string, Said>();
    found.set(mode, phases.set(text(row, "phase"), said(row, "difference_ms")));
  }
  return found;
}

function said(from: Json, key: string): Said {
  return { value: maybeEstimate(from, key), verdict: maybeText(from, "verdict") ?? "open" };
}

/** The lane that a mode divides its cycles by; `off` has none. */
export function laneOf({ device, host }: ModeFigures): "device" | "host" | null {
  if (device.length > 0) {
    return "device";
  }
  return host.length > 0 ? "host" : null;
}

/** The phases of that lane. */
export function phasesOf(figures: ModeFigures): readonly PhaseFigures[] {
  return figures.device.length > 0 ? figures.device : figures.host;
}

/** The bar of a mode in ms from the cycle's start: its phases one after the other, and the rest of the median cycle. */
export function piecesOf(figures: ModeFigures): readonly Piece[] {
  const pieces = piled(phasesOf(figures).map(({ name, ms }) => ({ name, size: ms.value })));
  const end = endOf(pieces);
  const rest = figures.cycleMs.value - end;
  return rest > 0 ? [...pieces, { name: null, from: end, to: end + rest }] : pieces;
}

/** Names of all phases of all modes, in the order of a cycle. */
export function phaseNames({ modes }: TimingReport): readonly string[] {
  const names = new Set(modes.flatMap((each) => phasesOf(each).map(({ name }) => name)));
  return [...names].toSorted((one, other) => phaseOrder(one) - phaseOrder(other));
}

/** "+1.31 (+1.30 to +1.32)", "none", or with a mark where the data do not allow a statement. */
export function differenceText(difference: Said | undefined): string {
  if (!difference?.value) {
    return MISSING;
  }
  if (difference.verdict === "same") {
    return "none";
  }
  const words = signedText(difference.value);
  return difference.verdict === "open" ? `${words} ?` : words;
}

/** "3.9 % slower", "none". */
export function costText(cost: Said | undefined): string {
  if (!cost?.value) {
    return MISSING;
  }
  if (cost.verdict === "same") {
    return "none that matters";
  }
  const by = (cost.value.value - 1) * 100;
  const words = `${Math.abs(by).toFixed(1)} % ${by < 0 ? "faster" : "slower"}`;
  return cost.verdict === "open" ? `${words} ?` : words;
}

/** What the figures rest on. */
export function groundOf({
  blocks,
  rounds,
  durationS,
  server,
  confidence,
  modes,
}: TimingReport): string {
  const cycles = modes.map((each) => `${each.mode} ${whole(each.cycles)}`).join(", ");
  return (
    `${server}; ${plural(blocks, "block")} in ${plural(rounds, "round")}, ${whole(durationS)} s. Cycles: ${cycles}. ` +
    `Medians; intervals hold in ${whole(confidence * 100)} % of cases.`
  );
}
