// The border to the server: the live stream, and stored cycles on demand.
import { batch, effect } from "@preact/signals";
import { failed, heard, isSilent, secondsToRetry } from "./lib/connection.ts";
import { type CycleId, cycleKey } from "./lib/cycle.ts";
import { WireError } from "./lib/json.ts";
import { decodeRequests } from "./lib/requests.ts";
import { findCycle } from "./lib/ring.ts";
import { decodeCycle, decodeCycles, decodeState } from "./lib/wire.ts";
import { stretch } from "./pointing.ts";
import {
  beat,
  clockMs,
  connection,
  cycles,
  misunderstood,
  notFound,
  pause,
  paused,
  run,
  selected,
  selectedCycle,
  skipped,
  takeCycles,
  takeOutage,
  takePast,
  takeRequests,
  takeState,
  takeStored,
  unknownRun,
} from "./state.ts";

const BEAT_MS = 250;
const AROUND = 20;
const PAGE = 200;
/** Pages that are loaded once for a run in view, so that its past does not begin at the reload. */
const PAST_PAGES = 10;
const PAST_AGAIN_MS = 3000;

let source: EventSource | null = null;
let lastHeardMs = 0;
let waiting = false;
let loadingOlder = false;
let loadingAround = "";
/** When the past of a run may be asked for, UNIX ms: again where that failed, else once. */
const pastAtMs = new Map<string, number>();

/** Connects, and keeps the page's clocks going. */
export function start(): void {
  connect();
  setInterval(tick, 1000);
  setInterval(() => {
    if (waiting) {
      waiting = false;
      beat.value += 1;
    }
  }, BEAT_MS);
  effect(() => {
    const current = run.value?.run;
    const due = current !== undefined && clockMs.value >= (pastAtMs.get(current) ?? 0);
    if (due && beat.value > 0) {
      pastAtMs.set(current, Number.POSITIVE_INFINITY);
      loadPast(current).catch(() => pastAtMs.set(current, Date.now() + PAST_AGAIN_MS));
    }
  });
  effect(() => {
    const id = selected.value;
    const current = run.value;
    if (id && current && unknownRun.value === null && !selectedCycle.value) {
      void loadAround(current.run, id);
    }
  });
  effect(() => {
    const at = stretch.value;
    const current = run.value;
    if (!(at && current && unknownRun.value === null)) {
      return;
    }
    if (!findCycle(cycles.value, at.group, at.n)) {
      void loadAround(current.run, at);
    } else if (!paused.value) {
      pause();
    }
  });
}

/** Tries to connect at once. */
export function connect(): void {
  source?.close();
  const stream = new EventSource("api/live");
  source = stream;
  const on = (name: string, take: (data: string) => void) =>
    stream.addEventListener(name, (event: MessageEvent<string>) => {
      if (source === stream) {
        batch(() => arrived(() => take(event.data)));
      }
    });
  on("cycles", (data) => {
    takeCycles(decodeCycles(data), Date.now());
    waiting = true;
  });
  on("requests", (data) => takeRequests(decodeRequests(data)));
  on("state", (data) => takeState(decodeState(data)));
  on("skipped", (data) => {
    const count = (JSON.parse(data) as { cycles?: number }).cycles ?? 0;
    skipped.value += count;
    takeOutage(lastHeardMs - 1000, Date.now());
  });
  stream.addEventListener("error", () => {
    if (source === stream) {
      lose();
    }
  });
}

/** Loads stored cycles before the oldest one in view; nothing while that is under way. */
export async function loadOlder(): Promise<void> {
  const oldest = cycles.value[0];
  if (oldest) {
    await loadBefore(oldest.group, oldest.n);
  }
}

/** Loads stored cycles with numbers below one; nothing while that is under way. */
export async function loadBefore(group: string, n: number): Promise<void> {
  const id = run.value?.run;
  if (loadingOlder || !(paused.value && id)) {
    return;
  }
  loadingOlder = true;
  try {
    takeStored(await storedCycles(id, group, n));
  } catch {
    // The connection's own line says that the server is away.
  } finally {
    loadingOlder = false;
  }
}

function arrived(take: () => void): void {
  const now = Date.now();
  if (connection.value.kind === "lost") {
    takeOutage(lastHeardMs, now);
  }
  lastHeardMs = now;
  connection.value = heard(now);
  try {
    take();
  } catch (error) {
    if (!(error instanceof WireError || error instanceof SyntaxError)) {
      throw error;
    }
    misunderstood.value = true;
  }
}

function tick(): void {
  const now = Date.now();
  clockMs.value = now;
  if (isSilent(connection.value, now)) {
    lose();
  }
  if (connection.value.kind === "lost") {
    takeOutage(lastHeardMs, now);
  }
  if (connection.value.kind === "lost" && !source && secondsToRetry(connection.value, now) === 0) {
    connect();
  }
}

function lose(): void {
  source?.close();
  source = null;
  connection.value = failed(connection.value, Date.now());
}

async function loadPast(id: string): Promise<void> {
  const groups = new Map(cycles.peek().map((cycle) => [cycle.group, cycle] as const));
  for (const group of groups.keys()) {
    let before = cycles.peek().find((cycle) => cycle.group === group)?.n ?? 0;
    for (let page = 0; page < PAST_PAGES && before > 0; page += 1) {
      const stored = await storedCycles(id, group, before);
      if (stored.length === 0) {
        break;
      }
      before = Math.min(...stored.map((cycle) => cycle.n));
      takePast(stored);
      waiting = true;
    }
  }
}

async function loadAround(runId: string, id: CycleId): Promise<void> {
  const key = `${runId}/${cycleKey(id)}`;
  if (loadingAround === key) {
    return;
  }
  loadingAround = key;
  try {
    await takeAround(runId, id);
  } finally {
    loadingAround = "";
  }
}

async function takeAround(runId: string, id: CycleId): Promise<void> {
  const response = await fetch(
    `api/runs/${encodeURIComponent(runId)}/cycles/${id.n}?group=${encodeURIComponent(id.group)}`,
  ).catch(() => null);
  if (response?.status === 404) {
    batch(() => {
      notFound.value = { n: id.n };
      selected.value = isSame(selected.value, id) ? null : selected.value;
      stretch.value = isSame(stretch.value, id) ? null : stretch.value;
    });
  }
  if (response?.ok) {
    const cycle = decodeCycle(await response.json());
    const around = await storedCycles(runId, id.group, id.n + AROUND).catch(() => []);
    batch(() => takeStored([...around.filter((each) => each.n !== cycle.n), cycle]));
  }
}

function isSame(one: CycleId | null, other: CycleId): boolean {
  return one !== null && cycleKey(one) === cycleKey(other);
}

async function storedCycles(runId: string, group: string, before: number) {
  const query = new URLSearchParams({ group, before: String(before), limit: String(PAGE) });
  const response = await fetch(`api/runs/${encodeURIComponent(runId)}/cycles?${query}`);
  if (!response.ok) {
    throw new WireError(`the server answered ${response.status}`);
  }
  const { cycles: stored } = (await response.json()) as { cycles: unknown[] };
  return stored.map(decodeCycle);
}
