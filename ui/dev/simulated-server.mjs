// A simulated spectrace server for work on the page: synthetic cycles, the real contract.
//
//   node dev/simulated-server.mjs [--port 8765] [--scenario overlap] [--rate 30] [--fill 900]
//
// Nothing here was measured. Scenarios: see SCENARIOS. It serves the built page too, with the
// Content-Security-Policy that the real server sends. It has no analysis: the verdict is a
// recording's.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { keep, kernels, look, looks } from "./kernel-answers.mjs";
import {
  barCycles,
  compare,
  distribution,
  request as oneRequest,
  overview,
  requests,
} from "./stored-answers.mjs";

const PAGE = fileURLToPath(new URL("../../spectrace/server/page/", import.meta.url));
const CSP = [
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'",
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
].join("; ");
const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};
const KEPT = 5000;
const MODES = ["off", "host", "device", "sync"];
const MOST_LOOKED_AT = 1000;
/** The look that is there from the start: it began so many cycles ago. */
const LOOK = { ago: 60, cycles: 20 };
/** A wish holds from so many cycles later on. */
const AHEAD = 50;
const NO_RUN = { detail: "Nothing of this run is here." };

const BASE = {
  ranks: 1,
  batch: 1,
  steps: 5,
  overlap: true,
  verifyMs: 6.4,
  mode: "host",
  kind: "speculative",
};
const SCENARIOS = {
  overlap: BASE,
  plain: { ...BASE, overlap: false },
  batch: { ...BASE, batch: 4 },
  large: { ...BASE, batch: 96, verifyMs: 14 },
  eight: { ...BASE, ranks: 8, batch: 2, verifyMs: 26 },
  // The device has lanes of its own: the host runs ahead of it, and waits for the cycle before.
  device: { ...BASE, mode: "device", verifyMs: 26 },
  eightdevices: { ...BASE, mode: "device", ranks: 8, batch: 3, padded: 4, verifyMs: 26 },
  // No way to look at kernels; one that turns out to be closed; and two looks that are stored.
  nokernels: {
    ...BASE,
    mode: "device",
    verifyMs: 26,
    prospect: {
      open: false,
      why: "The server has CUDA 12, and CUPTI's records are those of CUDA 13.",
      mend: "Use a server with a torch built for CUDA 13, or SGLang's own profiler and `spectrace import`.",
    },
  },
  refusedlook: {
    ...BASE,
    mode: "device",
    verifyMs: 26,
    refused: {
      why: "TP0: another tool uses CUPTI in this server.",
      mend: "End that tool, or restart the server without it, and ask again.",
    },
  },
  looked: { ...BASE, mode: "device", ranks: 2, verifyMs: 26, looks: 2 },
  // As fast as they get: --rate 90.
  eightfast: { ...BASE, mode: "device", ranks: 8, batch: 2 },
  // The same with lanes that are incomplete or missing.
  devholes: { ...BASE, mode: "device", ranks: 2, verifyMs: 26, devholes: true },
  // Another mode every five cycles, one of them switched late; and device asked for in vain.
  modes: { ...BASE, mode: "device", verifyMs: 26, modes: ["device", "host", "sync", "off"] },
  untimed: {
    ...BASE,
    asked: "device",
    timing: "The server runs on the CPU, which has no timing events.",
  },
  sampled: { ...BASE, every: 10 },
  decode: { ...BASE, kind: "decode", steps: 0, verifyMs: 9 },
  sync: { ...BASE, mode: "sync" },
  off: { ...BASE, mode: "off" },
  long: { ...BASE, steps: 16 },
  lost: { ...BASE, ranks: 2, lost: { records: 214, missing: 3, export: 0, stored: 2 }, silent: 1 },
  holes: { ...BASE, ranks: 2, holes: true },
  two: { ...BASE, runs: 2 },
  empty: { ...BASE, runs: 0 },
  idle: { ...BASE, state: "idle" },
  waiting: { ...BASE, state: "idle", none: true },
  gone: {
    ...BASE,
    state: "server_gone",
    message: "The server has ended; what was measured is still here.",
  },
  // Names that nobody would choose, without a place to break.
  names: { ...BASE, name: "n".repeat(900) },
  namedranks: { ...BASE, ranks: 2, runs: 2, silent: 1, name: "w".repeat(900) },
  // Every 100th cycle says that it began three hours from now.
  future: { ...BASE, future: 3 * 3600 },
  giant: { ...BASE, verifyMs: 1.6e10 },
};

const { values: options } = parseArgs({
  options: {
    port: { type: "string", default: "8765" },
    scenario: { type: "string", default: "overlap" },
    rate: { type: "string", default: "30" },
    fill: { type: "string", default: "900" },
  },
});
const scenario = SCENARIOS[options.scenario];
if (!scenario) {
  console.error(`No scenario ${options.scenario}. There are: ${Object.keys(SCENARIOS).join(", ")}`);
  process.exit(2);
}

let seed = 7;
const random = () => {
  seed = (seed * 16_807) % 2_147_483_647;
  return seed / 2_147_483_647;
};
const spread = (value, by) => value * (1 + by * (random() + random() + random() - 1.5));
const us = (value) => Math.round(value * 1000);

class SimulatedRun {
  constructor(place) {
    this.id = `${place}`.repeat(32).replaceAll("0", "a");
    this.place = place;
    this.cycles = [];
    this.n = 4000;
    this.firstN = this.n + 1;
    this.model = `Simulated-8B${place > 1 ? "-b" : ""}${scenario.name ?? ""}`;
    // What was asked for: the mode of cycles from a number on; and whether tracing goes on.
    this.wish = { mode: scenario.mode, from: 0 };
    this.mode = scenario.mode;
    this.traced = true;
    this.looking = null;
    this.looks = [];
    this.endNs = BigInt(Date.now()) * 1_000_000n;
    // By rank: when its device has done all that it was given, in ns from `zero`.
    this.zero = this.endNs;
    this.deviceFree = [];
  }

  next() {
    this.n += scenario.every ?? 1;
    this.mode = this.n >= this.wish.from ? this.wish.mode : this.mode;
    const extend = this.n % 97 === 0;
    const kind = extend ? "extend" : scenario.kind;
    const verifies = kind === "speculative";
    const ranks = Array.from({ length: scenario.ranks }, (_, rank) => this.rank(kind, rank)).filter(
      (_, rank) => rank !== scenario.silent,
    );
    const cycle = {
      run: this.id,
      group: "",
      n: this.n,
      kind,
      batch: extend ? 1 : scenario.batch,
      padded: scenario.padded ?? null,
      steps: verifies ? scenario.steps : 0,
      topk: verifies ? 1 : 0,
      draft_tokens: verifies ? scenario.steps + 1 : 0,
      t0: String(
        this.endNs + BigInt(this.n % 100 === 0 ? (scenario.future ?? 0) : 0) * 1_000_000_000n,
      ),
      ranks,
      requests: scenario.overlap ? null : this.rows(kind),
      context_sum: scenario.batch * (1000 + (this.n % 4000)),
      context_max: 1200 + (this.n % 4000),
      queued: 0,
      running: scenario.batch,
    };
    this.endNs += BigInt(ranks[0].end);
    const before = this.cycles.at(-1);
    const amended = [];
    if (before && before.requests === null) {
      const whole = { ...before, requests: this.rows(before.kind) };
      this.cycles[this.cycles.length - 1] = whole;
      amended.push(whole);
    }
    this.cycles.push(cycle);
    this.cycles.splice(0, Math.max(0, this.cycles.length - KEPT));
    return [...amended, cycle];
  }

  rank(kind, place) {
    let now = place === 0 ? 0 : us(20 + 300 * random() ** 6);
    const start = now;
    const phases = [];
    const add = (name, length, ofCycle = this.n) => {
      const end = now + us(length);
      phases.push([name, "host", now, end, ofCycle]);
      now = end;
    };
    const of = scenario.overlap ? this.n - 1 : this.n;
    add("resolve", spread(98, 0.3));
    if (kind === "speculative") {
      add("draft", spread(870, 0.1) * (scenario.steps / 5));
      add("verify.prepare", spread(340, 0.1));
      const asynchronous = this.mode === "device" ? 0.04 : 0.85;
      add(
        "verify.forward",
        spread(scenario.verifyMs * 1000 * asynchronous, 0.03) + (random() < 0.02 ? 2400 : 0),
      );
      add("verify.sample", spread(scenario.verifyMs * 150, 0.1));
      add("verify.commit", spread(120, 0.2));
      add("draft_extend", spread(620, 0.1));
    } else {
      add("forward", spread(kind === "extend" ? 21_000 : scenario.verifyMs * 1000, 0.04));
      if (scenario.kind === "speculative") {
        add("draft_extend", spread(900, 0.1));
      }
    }
    add("schedule", spread(120, 0.3));
    add("wait", this.mode === "device" ? scenario.verifyMs * 1000 : spread(260, 0.6), of);
    add("result", spread(180, 0.2) + 9 * scenario.batch, of);
    add("schedule", spread(150, 0.3));
    const mode = scenario.modes
      ? scenario.modes[Math.floor(this.n / 5) % scenario.modes.length]
      : this.mode;
    const hole = scenario.holes && place === 1 && this.n % 5 === 0;
    const reported = mode === "off" ? 0 : phases.length - (hole ? 4 : 0);
    const timed = mode === "device" && kind === "speculative";
    const device = timed ? this.device(place, phases) : [];
    const lacking = scenario.devholes && place === 0 ? this.n % 4 : 3;
    return {
      rank: `TP${place}${scenario.name ?? ""}`,
      start,
      end: now,
      mode,
      asked_mode: scenario.asked ?? null,
      late_switch: Boolean(scenario.modes) && this.n % 20 === 5,
      probe_ns: us(spread(49, 0.2)),
      ended_idle: this.n % 61 === 0,
      incomplete: Boolean(hole),
      clock_error_ns: device.length > 0 ? us(spread(12, 0.5)) : null,
      device_incomplete: timed && lacking < 2,
      phases: [
        ...phases.slice(0, reported),
        ...device.slice(0, lacking === 0 ? 0 : lacking === 1 ? 2 : device.length),
      ],
    };
  }

  /** What the device makes of a cycle that the host has launched. */
  device(place, host) {
    const began = Number(this.endNs - this.zero);
    let free = (this.deviceFree[place] ?? began) - began;
    const lane = [];
    const run = (name, length, graph) => {
      const launched = host.find((phase) => phase[0] === name)?.[2] ?? 0;
      const start = Math.max(free, launched);
      free = start + us(length);
      lane.push([name, "device", start, free, this.n, graph]);
    };
    run("draft", spread(2180, 0.02), true);
    run("verify.prepare", spread(110, 0.1), null);
    run("verify.forward", spread(scenario.verifyMs * 1000, 0.02), true);
    run("verify.sample", spread(170, 0.1), null);
    run("draft_extend", spread(710, 0.05), false);
    this.deviceFree[place] = began + free;
    return lane;
  }

  rows(kind) {
    const count = kind === "extend" ? 1 : scenario.batch;
    return Array.from({ length: count }, (_, place) => {
      const overshoot = this.n % 53 === 0 && place === 0;
      if (kind !== "speculative") {
        return {
          id: `chatcmpl-${place}7c1e93d2b8f0`,
          correct: null,
          tokens: 1,
          overshoot: false,
          health: false,
        };
      }
      let correct = 0;
      while (correct < scenario.steps && random() < 0.62 - 0.06 * correct) {
        correct += 1;
      }
      return {
        id: `chatcmpl-${place}7c1e93d2b8f04e61a${place}4`,
        correct,
        tokens: overshoot ? 0 : correct + 1,
        overshoot,
        health: false,
      };
    });
  }

  state() {
    const last = this.cycles.at(-1);
    return {
      run: this.id,
      host: `gpu-0${this.place + 6}${scenario.name ?? ""}`,
      server_pid: 41_207 + this.place,
      command: ["python", "-m", "sglang.launch_server", "--model-path", `/models/${this.model}`],
      engine: `sglang 0.5.23${scenario.name ?? ""}`,
      source: "attached",
      state: this.traced ? (scenario.state ?? "tracing") : "detached",
      message: scenario.message ?? "",
      ranks: Array.from({ length: scenario.ranks }, (_, rank) => ({
        name: `TP${rank}${scenario.name ?? ""}`,
        pid: 41_300 + rank,
        reporting: rank !== scenario.silent,
      })),
      modes: [this.mode],
      steerable: this.traced && !scenario.state,
      worker: "EAGLEWorkerV2",
      algorithm: scenario.kind === "speculative" ? "EAGLE3" : "",
      overlap: scenario.overlap,
      device: "cuda",
      lost: scenario.lost ?? { records: 0, missing: 0, export: 0, stored: 0 },
      timing: scenario.timing ?? "",
      sample_every: scenario.every ?? 1,
      skipped: {
        cycles: this.cycles.length * ((scenario.every ?? 1) - 1),
        total_ns: this.cycles.length * ((scenario.every ?? 1) - 1) * us(9900),
        verifies: this.cycles.length * ((scenario.every ?? 1) - 1),
        correct_drafts: this.cycles.length * ((scenario.every ?? 1) - 1),
        output_tokens: this.cycles.length * ((scenario.every ?? 1) - 1) * 2,
      },
      notes: [
        "Not seen in this release: eagle_worker_common.eagle_sample.",
        "Attaching held up TP0 for 1.73 ms.",
      ],
      summary: null,
      stored: {
        cycles: this.cycles.length,
        bytes: this.cycles.length * 2300,
        retain_s: 600,
        first_n: this.cycles[0]?.n ?? null,
        last_n: last?.n ?? null,
      },
      looking: this.looking,
      looks: this.looks.length,
    };
  }
}

const runs = Array.from({ length: scenario.runs ?? 1 }, (_, place) => new SimulatedRun(place + 1));
for (const run of runs) {
  const fill = scenario.none ? 0 : Number(options.fill);
  run.endNs -= BigInt(Math.round((fill / Number(options.rate)) * 1e9));
  for (let place = 0; place < fill; place += 1) {
    const began = run.endNs;
    run.next();
    run.endNs = began + BigInt(Math.round(1e9 / Number(options.rate)));
  }
  for (let place = scenario.looks ?? 0; place > 0; place -= 1) {
    keep(run, run.n - place * LOOK.ago, LOOK.cycles);
  }
}

const listeners = new Set();
const send = (response, event, data) =>
  response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
const state = () => ({
  version: "0.1.0",
  runs: runs.map((run) => run.state()),
  otlp_endpoint: "http://127.0.0.1:4318",
});

if (!(scenario.state || scenario.none)) {
  setInterval(() => {
    for (const run of runs.filter((each) => each.traced)) {
      const fresh = new Map();
      for (let place = 0; place < Number(options.rate) / 10; place += 1) {
        const began = run.endNs;
        for (const cycle of run.next()) {
          fresh.set(cycle.n, cycle);
        }
        run.endNs = began + BigInt(Math.round(1e9 / Number(options.rate)));
      }
      for (const response of listeners) {
        send(
          response,
          "cycles",
          [...fresh.values()].sort((a, b) => a.n - b.n),
        );
      }
    }
  }, 100);
}
function sendState() {
  for (const response of listeners) {
    send(response, "state", state());
  }
}
setInterval(sendState, 500);

function json(response, status, body) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

/** What is asked for by a body of JSON; null where there is none. */
async function bodyOf(request) {
  if (request.headers["content-type"]?.split(";")[0] !== "application/json") {
    return null;
  }
  const chunks = [];
  for await (const chunk of request) {
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString() || "{}");
  } catch {
    return null;
  }
}

/** Another mode, or the end of tracing. */
async function control(run, wish, request, response) {
  const body = await bodyOf(request);
  const samples = Number.isInteger(body?.sample_every);
  if (body === null || (wish === "timing" && !(samples || MODES.includes(body.mode)))) {
    json(response, 400, { detail: `Say {"mode": …} with one of ${MODES.join(", ")}.` });
    return;
  }
  if (!run.traced) {
    json(response, 404, { detail: "This run is not traced from here, or not any more." });
    return;
  }
  if (wish === "detach") {
    run.traced = false;
    json(response, 200, { switches: [] });
    return;
  }
  run.wish = samples ? run.wish : { mode: body.mode, from: run.n + AHEAD };
  const ranks = run.cycles.at(-1)?.ranks.map((rank) => rank.rank) ?? [];
  json(response, 200, { switches: [{ ranks, from_cycle: run.n + AHEAD }] });
}

/** A look at kernels. */
async function lookAtKernels(run, request, response) {
  const body = await bodyOf(request);
  const cycles = body?.cycles;
  if (!(Number.isInteger(cycles) && cycles >= 1 && cycles <= MOST_LOOKED_AT)) {
    json(response, 400, { detail: `Say {"cycles": …} with 1 to ${MOST_LOOKED_AT}.` });
    return;
  }
  const why = look(run, cycles, { refused: scenario.refused, changed: sendState });
  json(response, why === null ? 202 : 409, why === null ? {} : { detail: why });
}

function cyclesOf(run, number, query, response) {
  const found = run.cycles.find((cycle) => cycle.n === Number(number));
  if (number && !found) {
    json(response, 404, { detail: "Not found" });
  } else if (found) {
    json(response, 200, found);
  } else {
    const before = Number(query.get("before") ?? Number.POSITIVE_INFINITY);
    const limit = Number(query.get("limit") ?? 200);
    const older = run.cycles.filter((cycle) => cycle.n < before).slice(-limit);
    json(response, 200, { cycles: older.reverse() });
  }
}

/** What is stored of a run, by the rest of the path. */
const STORED = {
  looks,
  "kernels/prospect": () => scenario.prospect ?? { open: true },
  overview,
  distribution,
  "distribution/cycles": barCycles,
  requests,
  request: oneRequest,
};

function ofRun(run, path, query, response) {
  const [, number] = /^cycles(?:\/(\d+))?$/.exec(path) ?? [];
  const [, looked] = /^cycles\/(\d+)\/kernels$/.exec(path) ?? [];
  if (looked) {
    const found = kernels(run, Number(looked));
    json(response, found === null ? 404 : 200, found ?? { detail: "Not found" });
  } else if (path.startsWith("cycles")) {
    cyclesOf(run, number, query, response);
  } else if (path === "report") {
    json(response, 404, { detail: "The simulated server has no analysis: open a recording." });
  } else {
    const found = STORED[path]?.(run, query) ?? null;
    json(response, found === null ? 404 : 200, found ?? { detail: "Not found" });
  }
}

function live(request, response) {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  send(response, "state", state());
  for (const run of runs) {
    send(response, "cycles", run.cycles.slice(-200));
  }
  listeners.add(response);
  request.on("close", () => listeners.delete(response));
}

async function file(path, response) {
  const inside = normalize(path === "/" ? "/index.html" : path);
  try {
    const body = await readFile(join(PAGE, inside));
    response.writeHead(200, {
      "content-type": TYPES[extname(inside)] ?? "application/octet-stream",
      "content-security-policy": CSP,
      "cache-control": inside.startsWith("/assets/") ? "max-age=31536000, immutable" : "no-cache",
    });
    response.end(body);
  } catch {
    json(response, 404, { detail: "Not found" });
  }
}

/** What does not belong to one run, by its path. */
const OF_ALL = {
  "/api/state": () => state(),
  "/api/requests/stored": () => ({ requests: [], before: null }),
  "/api/compare": (query) => {
    const [one, other] = ["one", "other"].map((name) => runOf(query.get(name)));
    return one && other ? compare(one, other) : null;
  },
};

function runOf(id) {
  return runs.find((each) => each.id === id);
}

/** What the API answers; false where the path is none of its. */
function api(request, response, { pathname, searchParams: query }) {
  const [, id, path] = /^\/api\/runs\/([^/]+)\/(.+)$/.exec(pathname) ?? [];
  const run = runOf(id);
  if (pathname === "/api/live") {
    live(request, response);
  } else if (run && request.method === "POST" && ["timing", "detach"].includes(path)) {
    void control(run, path, request, response);
  } else if (run && request.method === "POST" && path === "kernels") {
    void lookAtKernels(run, request, response);
  } else if (run) {
    ofRun(run, path, query, response);
  } else if (id || pathname in OF_ALL) {
    const found = OF_ALL[pathname]?.(query) ?? null;
    json(response, found === null ? 404 : 200, found ?? NO_RUN);
  } else {
    return false;
  }
  return true;
}

createServer((request, response) => {
  const url = new URL(request.url, "http://localhost");
  if (!api(request, response, url)) {
    void file(url.pathname, response);
  }
}).listen(Number(options.port), "127.0.0.1", () => {
  console.log(`Simulated (${options.scenario}): http://127.0.0.1:${options.port}/`);
});
