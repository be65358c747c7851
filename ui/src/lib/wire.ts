// What the server sends, checked and turned into the values that the page works with.

import {
  flag,
  list,
  maybeFlag,
  maybeNumber,
  maybeText,
  maybeTexts,
  number,
  numbers,
  object,
  text,
  WireError,
} from "./json.ts";
import { decodeRecording, type Recording } from "./recording.ts";

/** A part of a cycle on one lane of one rank; times in ns from the cycle's start. */
export interface Phase {
  readonly name: string;
  readonly lane: string;
  readonly start: number;
  readonly end: number;
  /** The cycle whose batch was worked on; an earlier one with the overlap scheduler. */
  readonly ofCycle: number;
  /** Whether its forward ran as a CUDA graph; null where that is not known. */
  readonly graph: boolean | null;
}

/** One rank's share of a cycle; times in ns from the cycle's start. */
export interface RankCycle {
  readonly rank: string;
  readonly start: number;
  readonly end: number;
  readonly mode: string;
  /** The timing mode that was asked for; null where it is the one that was taken. */
  readonly askedMode: string | null;
  /** The mode changed with this cycle, later than it was asked for. */
  readonly lateSwitch: boolean;
  readonly probeNs: number;
  readonly endedIdle: boolean;
  readonly incomplete: boolean;
  /** By how much the whole device lane may be shifted; null without one. */
  readonly clockErrorNs: number | null;
  readonly deviceIncomplete: boolean;
  readonly phases: readonly Phase[];
}

/** What one request got out of a cycle. */
export interface RequestRow {
  readonly id: string;
  readonly correct: number | null;
  readonly tokens: number;
  readonly overshoot: boolean;
  readonly health: boolean;
}

/** One pass of the decode loop. */
export interface Cycle {
  readonly run: string;
  readonly group: string;
  readonly n: number;
  readonly kind: string;
  readonly batch: number;
  /** The batch size that the target's graph was made for; null where none ran. */
  readonly padded: number | null;
  readonly steps: number;
  readonly topk: number;
  readonly draftTokens: number;
  /** UNIX time of the start in ms; a double keeps it to a quarter of a µs. */
  readonly t0Ms: number;
  readonly ranks: readonly RankCycle[];
  readonly requests: readonly RequestRow[] | null;
  /** Tokens of all requests before the cycle; null until known, like the next three. */
  readonly contextSum: number | null;
  /** The most tokens of one request. */
  readonly contextMax: number | null;
  readonly queued: number | null;
  readonly running: number | null;
}

/** Percentiles of a time in ms. */
export interface Percentiles {
  readonly p50_ms: number;
  readonly p95_ms: number;
  readonly p99_ms: number;
}

/** One phase over a stretch of cycles; `share` is from 0 to 1. */
export interface PhaseSummary {
  readonly name: string;
  readonly time: Percentiles;
  readonly share: number;
  readonly cycles: number;
  readonly max_lag: number;
}

/** The times of cycles of one kind. */
export interface CycleTimes {
  readonly cycles: number;
  readonly incomplete: number;
  readonly time: Percentiles | null;
  readonly phases: readonly PhaseSummary[];
  /** Cycles with a whole device lane. */
  readonly device_cycles: number;
  /** On the device, in these cycles; shares are of the cycles' time on the host. */
  readonly device: readonly PhaseSummary[];
}

/** What a stretch of cycles shows; the fields of `spectrace.analysis.summary.Summary` used here. */
export interface Summary {
  readonly window_s: number;
  readonly cycles: number;
  readonly cycles_per_s: number;
  readonly tokens_per_s: number;
  readonly speculative: CycleTimes | null;
  readonly decode: CycleTimes | null;
  readonly verifies: number;
  readonly accept_length: number | null;
  readonly server_accept_length: number | null;
  readonly batch_size_median: number | null;
  readonly steps_seen: readonly number[];
  readonly draft_tokens_seen: readonly number[];
  readonly probe_median_us: number | null;
  readonly probe_share: number | null;
}

/** What did not arrive. */
export interface Lost {
  readonly records: number;
  readonly missing: number;
  readonly export: number;
  readonly stored: number;
}

/** Sums of the cycles that sampling left out, since the start. */
export interface Skipped {
  readonly cycles: number;
  readonly total_ns: number;
  readonly verifies: number;
  readonly correct_drafts: number;
  readonly output_tokens: number;
}

/** A look at kernels that goes on, or the last one. */
export interface Looking {
  /** One of asked, open, reading, done, refused. */
  readonly stage: string;
  /** How many were asked for. */
  readonly cycles: number;
  /** Why there was none, a sentence; empty but where it was refused. */
  readonly why: string;
  /** What to do about it. */
  readonly mend: string;
}

/** One server, from its start to its end. */
export interface RunState {
  readonly run: string;
  readonly host: string;
  readonly server_pid: number;
  readonly command: readonly string[];
  readonly engine: string;
  readonly source: string;
  readonly state: string;
  readonly message: string;
  readonly ranks: readonly {
    readonly name: string;
    readonly pid: number;
    readonly reporting: boolean;
  }[];
  readonly modes: readonly string[];
  /** It is traced from here: another mode can be asked for, and the end. */
  readonly steerable: boolean;
  readonly worker: string;
  readonly algorithm: string;
  /** Null where it is not known. */
  readonly overlap: boolean | null;
  readonly device: string;
  readonly lost: Lost;
  /** Why the device is not timed; empty where it is, or that is not known. */
  readonly timing: string;
  /** One of so many cycles is recorded in full. */
  readonly sample_every: number;
  readonly skipped: Skipped;
  /** Sentences on how the run is traced. */
  readonly notes: readonly string[];
  readonly summary: Summary | null;
  readonly stored: {
    readonly cycles: number;
    readonly bytes: number;
    readonly retain_s: number;
    readonly first_n: number | null;
    readonly last_n: number | null;
  };
  /** The one that goes on, or the last; null where there was none. */
  readonly recording: Recording | null;
  /** Null before there was any. */
  readonly looking: Looking | null;
  /** How many looks at kernels are stored. */
  readonly looks: number;
}

/** Spans that were sent to the server and are not stored. */
export interface LostSpans {
  /** Spans of others that could not be stored. */
  readonly stored: number;
  /** Why the last of them could not be written; empty where they could. */
  readonly problem: string;
  readonly refused: number;
  /** Why; empty where none was. */
  readonly reasons: string;
  /** Cycles whose root or all of whose ranks never came. */
  readonly unjoined: number;
  /** Cycles that were put together no further, because too many spans waited. */
  readonly evicted: number;
  /** Times that a cycle was stored of which spans were late or never came. */
  readonly partial: number;
}

/** Everything the server knows about itself. */
export interface ServerState {
  readonly version: string;
  readonly runs: readonly RunState[];
  readonly otlp_endpoint: string | null;
  readonly grpc_endpoint: string | null;
  readonly lostSpans: LostSpans;
  /** The page may have servers of this machine attached to. */
  readonly attaches: boolean;
}

/** Reads a list of cycles from the JSON text of an event. */
export function decodeCycles(json: string): Cycle[] {
  return list(JSON.parse(json), "cycles").map(decodeCycle);
}

/** Reads one cycle from parsed JSON. */
export function decodeCycle(value: unknown): Cycle {
  const cycle = object(value, "cycle");
  const requests = cycle["requests"] ?? null;
  return {
    run: text(cycle, "run"),
    group: text(cycle, "group", ""),
    n: number(cycle, "n"),
    kind: text(cycle, "kind"),
    batch: number(cycle, "batch"),
    padded: maybeNumber(cycle, "padded"),
    steps: number(cycle, "steps", 0),
    topk: number(cycle, "topk", 0),
    draftTokens: number(cycle, "draft_tokens", 0),
    t0Ms: unixMs(text(cycle, "t0")),
    ranks: list(cycle["ranks"], "ranks").map(decodeRank),
    requests: requests === null ? null : list(requests, "requests").map(decodeRequest),
    contextSum: maybeNumber(cycle, "context_sum"),
    contextMax: maybeNumber(cycle, "context_max"),
    queued: maybeNumber(cycle, "queued"),
    running: maybeNumber(cycle, "running"),
  };
}

/** Reads the state of the server from the JSON text of an event. */
export function decodeState(json: string): ServerState {
  const state = object(JSON.parse(json), "state");
  const lost = object(state["lost_spans"] ?? {}, "lost_spans");
  return {
    version: text(state, "version", ""),
    runs: list(state["runs"], "runs").map(decodeRun),
    otlp_endpoint: maybeText(state, "otlp_endpoint"),
    grpc_endpoint: maybeText(state, "grpc_endpoint"),
    lostSpans: {
      stored: number(lost, "stored", 0),
      problem: text(lost, "problem", ""),
      refused: number(lost, "refused", 0),
      reasons: text(lost, "reasons", ""),
      unjoined: number(lost, "unjoined", 0),
      evicted: number(lost, "evicted", 0),
      partial: number(lost, "partial", 0),
    },
    attaches: flag(state, "attaches"),
  };
}

/** UNIX ns in decimal digits as ms. */
export function unixMs(ns: string): number {
  if (!/^-?\d+$/.test(ns)) {
    throw new WireError(`t0 "${ns}" is no whole number`);
  }
  const value = BigInt(ns);
  return Number(value / 1_000_000n) + Number(value % 1_000_000n) / 1e6;
}

function decodeRank(value: unknown): RankCycle {
  const rank = object(value, "rank");
  return {
    rank: text(rank, "rank"),
    start: number(rank, "start"),
    end: number(rank, "end"),
    mode: text(rank, "mode", ""),
    askedMode: maybeText(rank, "asked_mode"),
    lateSwitch: flag(rank, "late_switch"),
    probeNs: number(rank, "probe_ns", 0),
    endedIdle: flag(rank, "ended_idle"),
    incomplete: flag(rank, "incomplete"),
    clockErrorNs: maybeNumber(rank, "clock_error_ns"),
    deviceIncomplete: flag(rank, "device_incomplete"),
    phases: list(rank["phases"], "phases").map(decodePhase),
  };
}

function decodePhase(value: unknown): Phase {
  const [name, lane, start, end, ofCycle, graph = null] = list(value, "phase");
  if (
    typeof name !== "string" ||
    typeof lane !== "string" ||
    typeof start !== "number" ||
    typeof end !== "number" ||
    typeof ofCycle !== "number" ||
    !(graph === null || typeof graph === "boolean")
  ) {
    throw new WireError("a phase is not [name, lane, start, end, of_cycle, graph]");
  }
  return { name, lane, start, end, ofCycle, graph };
}

function decodeRequest(value: unknown): RequestRow {
  const row = object(value, "request");
  return {
    id: text(row, "id"),
    correct: maybeNumber(row, "correct"),
    tokens: number(row, "tokens", 0),
    overshoot: flag(row, "overshoot"),
    health: flag(row, "health"),
  };
}

function decodeRun(value: unknown): RunState {
  const run = object(value, "run");
  const lost = object(run["lost"] ?? {}, "lost");
  const stored = object(run["stored"] ?? {}, "stored");
  const skipped = object(run["skipped"] ?? {}, "skipped");
  return {
    run: text(run, "run"),
    host: text(run, "host", ""),
    server_pid: number(run, "server_pid", 0),
    command: maybeTexts(run, "command"),
    engine: text(run, "engine", ""),
    source: text(run, "source", ""),
    state: text(run, "state", "tracing"),
    message: text(run, "message", ""),
    ranks: list(run["ranks"] ?? [], "ranks").map((entry) => {
      const rank = object(entry, "rank");
      return {
        name: text(rank, "name"),
        pid: number(rank, "pid", 0),
        reporting: flag(rank, "reporting"),
      };
    }),
    modes: maybeTexts(run, "modes"),
    steerable: run["steerable"] === true,
    worker: text(run, "worker", ""),
    algorithm: text(run, "algorithm", ""),
    overlap: maybeFlag(run, "overlap"),
    device: text(run, "device", ""),
    lost: {
      records: number(lost, "records", 0),
      missing: number(lost, "missing", 0),
      export: number(lost, "export", 0),
      stored: number(lost, "stored", 0),
    },
    timing: text(run, "timing", ""),
    sample_every: number(run, "sample_every", 1),
    skipped: {
      cycles: number(skipped, "cycles", 0),
      total_ns: number(skipped, "total_ns", 0),
      verifies: number(skipped, "verifies", 0),
      correct_drafts: number(skipped, "correct_drafts", 0),
      output_tokens: number(skipped, "output_tokens", 0),
    },
    notes: maybeTexts(run, "notes"),
    summary: decodeSummary(run["summary"]),
    stored: {
      cycles: number(stored, "cycles", 0),
      bytes: number(stored, "bytes", 0),
      retain_s: number(stored, "retain_s", 0),
      first_n: maybeNumber(stored, "first_n"),
      last_n: maybeNumber(stored, "last_n"),
    },
    recording: decodeRecording(run["recording"]),
    looking: decodeLooking(run["looking"]),
    looks: number(run, "looks", 0),
  };
}

function decodeLooking(value: unknown): Looking | null {
  if (value === null || value === undefined) {
    return null;
  }
  const looking = object(value, "looking");
  return {
    stage: text(looking, "stage"),
    cycles: number(looking, "cycles", 0),
    why: text(looking, "why", ""),
    mend: text(looking, "mend", ""),
  };
}

/** A summary that lacks what the page needs counts as none: the page then sums up itself. */
function decodeSummary(value: unknown): Summary | null {
  if (typeof value !== "object" || value === null) {
    return null;
  }
  try {
    const summary = object(value, "summary");
    return {
      window_s: number(summary, "window_s"),
      cycles: number(summary, "cycles"),
      cycles_per_s: number(summary, "cycles_per_s"),
      tokens_per_s: number(summary, "tokens_per_s"),
      speculative: decodeTimes(summary["speculative"]),
      decode: decodeTimes(summary["decode"]),
      verifies: number(summary, "verifies"),
      accept_length: maybeNumber(summary, "accept_length"),
      server_accept_length: maybeNumber(summary, "server_accept_length"),
      batch_size_median: maybeNumber(summary, "batch_size_median"),
      steps_seen: numbers(summary, "steps_seen"),
      draft_tokens_seen: numbers(summary, "draft_tokens_seen"),
      probe_median_us: maybeNumber(summary, "probe_median_us"),
      probe_share: maybeNumber(summary, "probe_share"),
    };
  } catch {
    return null;
  }
}

function decodeTimes(value: unknown): CycleTimes | null {
  if (value === null || value === undefined) {
    return null;
  }
  const times = object(value, "times");
  const time = times["time"];
  return {
    cycles: number(times, "cycles"),
    incomplete: number(times, "incomplete", 0),
    time: time === null || time === undefined ? null : decodePercentiles(time),
    phases: list(times["phases"], "phases").map(decodePhaseSummary),
    device_cycles: number(times, "device_cycles", 0),
    device: list(times["device"] ?? [], "device").map(decodePhaseSummary),
  };
}

function decodePhaseSummary(value: unknown): PhaseSummary {
  const phase = object(value, "phase");
  return {
    name: text(phase, "name"),
    time: decodePercentiles(phase["time"]),
    share: number(phase, "share"),
    cycles: number(phase, "cycles"),
    max_lag: number(phase, "max_lag", 0),
  };
}

function decodePercentiles(value: unknown): Percentiles {
  const time = object(value, "percentiles");
  return {
    p50_ms: number(time, "p50_ms"),
    p95_ms: number(time, "p95_ms"),
    p99_ms: number(time, "p99_ms"),
  };
}
