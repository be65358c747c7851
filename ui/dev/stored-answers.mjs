// What the simulated server answers about stored cycles: distributions, requests, two runs compared.
//
// The contract is the real server's; the statistics are plain ones, of cycles that nobody measured.
const DECODING = ["speculative", "decode"];
const WARM_UP = 10;
const BARS = 60;
const LISTED = 100;
const SLOWEST = 20;
const BLOCKS = 10;
/** Of a normal distribution: the interval of a mean. */
const Z = 1.96;
const NS_PER_S = 1e9;

/** Cycles as they are picked by the query of an address, oldest first. */
function picked(run, query) {
  const cycles = run.cycles.filter((cycle) => cycle.group === (query.get("group") ?? ""));
  const kind = query.get("kind") ?? most(cycles.map((cycle) => cycle.kind)) ?? "speculative";
  const ofKind = cycles.filter((cycle) => cycle.kind === kind && cycle.n >= run.firstN + WARM_UP);
  const mode = query.get("mode") ?? most(ofKind.map((cycle) => modeOf(cycle, query))) ?? "host";
  const lastS = Number(query.get("last_s") ?? Number.POSITIVE_INFINITY);
  const end = cycles.length > 0 ? Number(BigInt(cycles.at(-1).t0) / 1_000_000n) : 0;
  const wanted = (name, value) => query.get(name) === null || Number(query.get(name)) === value;
  const found = ofKind.filter(
    (cycle) =>
      modeOf(cycle, query) === mode &&
      wanted("batch", cycle.batch) &&
      wanted("steps", cycle.steps) &&
      end - Number(BigInt(cycle.t0) / 1_000_000n) <= lastS * 1000,
  );
  return { cycles, kind, mode, ofKind, found };
}

function rankOf(cycle, query) {
  return cycle.ranks.find((rank) => rank.rank === query.get("rank")) ?? cycle.ranks[0];
}

function modeOf(cycle, query) {
  return rankOf(cycle, query).mode;
}

/** The times of a cycle's phases on one rank in ns, by name and lane; the whole pass is "cycle". */
function timesOf(cycle, query) {
  const rank = rankOf(cycle, query);
  const times = new Map([["cycle host", rank.end - rank.start]]);
  for (const [name, lane, start, end] of rank.phases) {
    for (const each of new Set([name.split(".")[0], name])) {
      const key = `${each} ${lane}`;
      times.set(key, (times.get(key) ?? 0) + end - start);
    }
  }
  return times;
}

function most(values) {
  return Object.entries(counted(values)).toSorted((one, other) => other[1] - one[1])[0]?.[0];
}

function counted(values) {
  const counts = {};
  for (const value of values) {
    counts[value] = (counts[value] ?? 0) + 1;
  }
  return counts;
}

function grouped(values, keyOf) {
  const groups = new Map();
  for (const value of values) {
    const key = keyOf(value);
    groups.set(key, groups.get(key) ?? []);
    groups.get(key).push(value);
  }
  return groups;
}

function at(sorted, percent) {
  return sorted[Math.min(sorted.length - 1, Math.floor((percent / 100) * sorted.length))];
}

function percentiles(values) {
  const sorted = values.toSorted((one, other) => one - other);
  const [p50_ns, p95_ns, p99_ns] = [50, 95, 99].map((percent) => at(sorted, percent));
  return { cycles: sorted.length, p50_ns, p95_ns, p99_ns };
}

/** The times of each phase as bars between the 0.1th and the 99.6th percentile. */
function spreads(times) {
  const byPhase = new Map();
  for (const each of times) {
    for (const [key, ns] of each) {
      const [name, lane] = key.split(" ");
      const lanes = byPhase.get(name) ?? new Map();
      byPhase.set(name, lanes.set(lane, [...(lanes.get(lane) ?? []), ns]));
    }
  }
  return [...byPhase].map(([name, lanes]) => spreadOf(name, lanes));
}

function spreadOf(name, lanes) {
  const all = [...lanes.values()].flat().toSorted((one, other) => one - other);
  const low = at(all, 0.1);
  const step = Math.max(1, Math.ceil((at(all, 99.6) + 1 - low) / BARS));
  const laneOf = ([lane, values]) => {
    const bars = Array.from({ length: BARS }, () => 0);
    const places = values.map((ns) => Math.floor((ns - low) / step));
    for (const place of places.filter((each) => each >= 0 && each < BARS)) {
      bars[place] += 1;
    }
    return {
      lane,
      ...percentiles(values),
      least_ns: Math.min(...values),
      most_ns: Math.max(...values),
      below: places.filter((place) => place < 0).length,
      bars,
      beyond: places.filter((place) => place >= BARS).length,
    };
  };
  const order = [...lanes].toSorted(([one]) => (one === "device" ? -1 : 1));
  return { name, low_ns: low, step_ns: step, lanes: order.map(laneOf) };
}

/** What `GET runs/…/distribution` answers. */
export function distribution(run, query) {
  const { cycles, kind, mode, ofKind, found } = picked(run, query);
  const times = found.map((cycle) => timesOf(cycle, query));
  const number = (name) => (query.get(name) === null ? null : Number(query.get(name)));
  return {
    groups: [...new Set(run.cycles.map((cycle) => cycle.group))],
    choice: {
      group: query.get("group") ?? "",
      rank: query.get("rank"),
      kind,
      mode,
      batch: number("batch"),
      steps: number("steps"),
      last_s: number("last_s"),
    },
    seen: {
      kinds: counted(cycles.map((cycle) => cycle.kind).filter((each) => DECODING.includes(each))),
      modes: counted(ofKind.map((cycle) => modeOf(cycle, query))),
      batches: counted(ofKind.map((cycle) => cycle.batch)),
      steps: counted(ofKind.map((cycle) => cycle.steps)),
      ranks: cycles.at(-1)?.ranks.map((rank) => rank.rank) ?? [],
    },
    stored: cycles.length,
    looked_at: cycles.length,
    whole: true,
    warm_up: Math.min(WARM_UP, cycles.length),
    untimed: 0,
    cycles: found.length,
    alike: alike(found, query),
    phases: spreads(times),
    slowest: slowest(found, times, query),
    acceptance: acceptance(found),
  };
}

/** What `GET runs/…/overview` answers. */
export function overview(run, query) {
  const cycles = run.cycles.filter((cycle) => cycle.group === (query.get("group") ?? ""));
  const [first, last] = [cycles[0], cycles.at(-1)];
  const ended = last ? BigInt(last.t0) + BigInt(last.ranks[0].end) : 0n;
  const begin = BigInt(query.get("from_ns") ?? first?.t0 ?? 0);
  const length = Number(BigInt(query.get("to_ns") ?? ended) - begin);
  const count = Number(query.get("columns") ?? 1024);
  const step = Math.max(1, Math.ceil(length / count));
  const placed = grouped(cycles, (cycle) => Math.floor(Number(BigInt(cycle.t0) - begin) / step));
  return {
    first: first?.t0 ?? "0",
    last: String(ended),
    since: first?.t0 ?? "0",
    begin: String(begin),
    step_ns: step,
    count,
    columns: [...placed]
      .filter(([place]) => place >= 0 && place < count)
      .map(([place, some]) => {
        const times = some.map((cycle) => timesOf(cycle, query).get("cycle host"));
        const longest = Math.max(...times);
        const worst = some[times.lastIndexOf(longest)].n;
        return [place, some.length, Math.min(...times), longest, worst, some.at(-1).n];
      }),
  };
}

function alike(found, query) {
  const groups = grouped(found, (cycle) => `${cycle.batch} ${cycle.steps}`);
  return [...groups.values()].map((group) => ({
    batch: group[0].batch,
    steps: group[0].steps,
    ...percentiles(group.map((cycle) => timesOf(cycle, query).get("cycle host"))),
  }));
}

function slowest(found, times, query) {
  const usual = new Map(
    [...(times[0]?.keys() ?? [])].map((key) => [
      key,
      at(
        times.map((each) => each.get(key) ?? 0).toSorted((one, other) => one - other),
        50,
      ),
    ]),
  );
  const cause = (cycle) => {
    const own = [...timesOf(cycle, query)].filter(([key]) => !key.startsWith("cycle "));
    const excess = own.map(([key, ns]) => ({ key, ns, over: ns - (usual.get(key) ?? ns) }));
    const [worst] = excess.toSorted((one, other) => other.over - one.over);
    const [name, lane] = worst?.key.split(" ") ?? [];
    return worst?.over > 0
      ? { name, lane, took_ns: worst.ns, usual_ns: usual.get(worst.key) }
      : null;
  };
  return found
    .map((cycle) => cycleOf(cycle, query))
    .toSorted((one, other) => other.took_ns - one.took_ns)
    .slice(0, SLOWEST)
    .map((each) => ({ ...each, cause: cause(found.find((cycle) => cycle.n === each.n)) }));
}

function cycleOf(cycle, query) {
  const took_ns = timesOf(cycle, query).get("cycle host");
  return { n: cycle.n, t0: cycle.t0, took_ns, batch: cycle.batch, steps: cycle.steps };
}

function verifiesOf(cycles) {
  return cycles
    .flatMap((cycle) => cycle.requests ?? [])
    .filter((row) => row.correct !== null && !(row.overshoot || row.health))
    .map((row) => row.correct);
}

function acceptance(found) {
  const groups = grouped(
    found.filter((cycle) => cycle.draft_tokens > 0),
    (cycle) => cycle.steps,
  );
  return [...groups].flatMap(([steps, cycles]) => {
    const correct = verifiesOf(cycles);
    const reached = (place) => correct.filter((each) => each >= place).length;
    const mean = meanOf(correct.map((each) => each + 1));
    return mean === null
      ? []
      : [
          {
            setting: { steps, topk: cycles[0].topk, draft_tokens: cycles[0].draft_tokens },
            verifies: correct.length,
            accept_length: mean,
            histogram: Array.from(
              { length: steps + 1 },
              (_, place) => correct.filter((each) => each === place).length,
            ),
            positions: Array.from({ length: steps }, (_, place) => ({
              place: place + 1,
              reached: reached(place),
              accepted: reached(place + 1),
              conditional: wilson(reached(place + 1), reached(place)),
            })).filter((position) => position.reached > 0),
          },
        ];
  });
}

/** Wilson's interval of a share at 95 %. */
function wilson(count, of) {
  const value = count / of;
  const middle = (value + Z ** 2 / (2 * of)) / (1 + Z ** 2 / of);
  const reach =
    (Z / (1 + Z ** 2 / of)) * Math.sqrt((value * (1 - value)) / of + Z ** 2 / (4 * of ** 2));
  return { value, low: Math.min(value, middle - reach), high: Math.max(value, middle + reach) };
}

/** A mean with its interval at 95 %, by the means of blocks; null of nothing. */
function meanOf(values) {
  if (values.length === 0) {
    return null;
  }
  const mean = (some) => some.reduce((sum, each) => sum + each, 0) / some.length;
  const value = mean(values);
  const size = Math.floor(values.length / BLOCKS);
  if (size === 0) {
    return { value, low: null, high: null };
  }
  const blocks = Array.from({ length: BLOCKS }, (_, place) =>
    mean(values.slice(place * size, (place + 1) * size)),
  );
  const variance = blocks.reduce((sum, each) => sum + (each - mean(blocks)) ** 2, 0) / (BLOCKS - 1);
  const reach = Z * Math.sqrt(variance / BLOCKS);
  return { value, low: value - reach, high: value + reach };
}

/** What `GET runs/…/distribution/cycles` answers. */
export function barCycles(run, query) {
  const key = `${query.get("phase")} ${query.get("lane")}`;
  const from = Number(query.get("from_ns") ?? Number.NEGATIVE_INFINITY);
  const to = Number(query.get("to_ns") ?? Number.POSITIVE_INFINITY);
  const before = Number(query.get("before") ?? Number.POSITIVE_INFINITY);
  const all = picked(run, query)
    .found.map((cycle) => ({
      ...cycleOf(cycle, query),
      value_ns: timesOf(cycle, query).get(key),
    }))
    .filter(({ value_ns: ns }) => ns !== undefined && ns >= from && ns < to)
    .toReversed();
  const rest = all.filter((cycle) => cycle.n < before);
  const cycles = rest.slice(0, LISTED);
  return {
    total: all.length,
    cycles,
    before: rest.length > cycles.length ? cycles.at(-1).n : null,
  };
}

/** The rows of each request with their cycles, oldest first. */
function served(run, query) {
  const group = query.get("group") ?? "";
  const rows = run.cycles
    .filter((cycle) => cycle.group === group)
    .flatMap((cycle) => (cycle.requests ?? []).map((row) => ({ cycle, row })))
    .filter(({ row }) => !row.health);
  return grouped(rows, ({ row }) => row.id);
}

function summed(id, rows) {
  const counts = rows.filter(({ row }) => row.correct !== null && !row.overshoot);
  const [first, last] = [rows[0].cycle, rows.at(-1).cycle];
  const length = BigInt(last.t0) + BigInt(last.ranks[0].end) - BigInt(first.t0);
  return {
    id,
    cycles: rows.length,
    verifies: counts.length,
    correct: counts.reduce((sum, { row }) => sum + row.correct, 0),
    tokens: rows.reduce((sum, { row }) => sum + row.tokens, 0),
    first_n: first.n,
    last_n: last.n,
    t0: first.t0,
    length_ns: Number(length),
  };
}

/** What `GET runs/…/requests` answers. */
export function requests(run, query) {
  const all = [...served(run, query)]
    .map(([name, rows]) => summed(name, rows))
    .toSorted((one, other) => other.last_n - one.last_n || (one.id < other.id ? 1 : -1));
  const [n, id] = [query.get("before_n"), query.get("before_id")];
  const from =
    n === null ? 0 : all.findIndex((one) => one.last_n === Number(n) && one.id === id) + 1;
  const page = all.slice(from, from + LISTED);
  const last = page.at(-1);
  return {
    groups: [...new Set(run.cycles.map((cycle) => cycle.group))],
    requests: page,
    before: from + page.length < all.length ? [last.last_n, last.id] : null,
  };
}

/** What `GET runs/…/request` answers; null where there is no such request. */
export function request(run, query) {
  const rows = served(run, query).get(query.get("id"));
  if (!rows) {
    return null;
  }
  const before = Number(query.get("before") ?? Number.POSITIVE_INFINITY);
  const rest = rows.filter(({ cycle }) => cycle.n < before).toReversed();
  const page = rest.slice(0, 20 * LISTED);
  const whole = summed(query.get("id"), rows);
  return {
    request: whole,
    cycles: page.map(({ cycle, row }) => [
      cycle.n,
      Number(BigInt(cycle.t0) - BigInt(whole.t0)),
      cycle.ranks[0].end - cycle.ranks[0].start,
      cycle.batch,
      cycle.steps,
      row.correct,
      row.tokens,
      row.overshoot,
    ]),
    before: rest.length > page.length ? page.at(-1).cycle.n : null,
  };
}

const EVERY = new URLSearchParams();

function differenceOf(one, other) {
  if (one === null || other === null) {
    return null;
  }
  const reach = Math.hypot(
    (one.high ?? one.value) - one.value,
    (other.high ?? other.value) - other.value,
  );
  const value = other.value - one.value;
  const excess = { value, low: value - reach, high: value + reach };
  return { one, other, excess, verdict: Math.abs(value) > reach ? "differs" : "open" };
}

function phasesOf(sides, lane) {
  const times = sides.map((cycles) => cycles.map((cycle) => timesOf(cycle, EVERY)));
  const names = [...new Set(times.flat().flatMap((each) => [...each.keys()]))].filter(
    (key) => key.endsWith(` ${lane}`) && !key.startsWith("cycle ") && !key.includes("."),
  );
  const excess = (key) =>
    differenceOf(...times.map((side) => meanOf(side.map((each) => (each.get(key) ?? 0) / 1e6))));
  const whole = excess("cycle host");
  return names.map((key) => {
    const time_ms = excess(key);
    const share =
      whole && whole.verdict === "differs" ? time_ms.excess.value / whole.excess.value : null;
    return { phase: key.split(" ")[0], time_ms, share };
  });
}

/** What `GET compare` answers for two runs. */
export function compare(one, other) {
  const sides = [one, other].map((run) => picked(run, EVERY).found);
  const both = (of) => differenceOf(...sides.map((cycles) => meanOf(cycles.map(of))));
  const took = (cycle) => cycle.ranks[0].end - cycle.ranks[0].start;
  const tokens = (cycle) => (cycle.requests ?? []).reduce((sum, row) => sum + row.tokens, 0);
  const told = sides.map((cycles) => cycles.filter((cycle) => cycle.requests !== null));
  const pace = told.map((cycles) =>
    meanOf(cycles.map((cycle) => (tokens(cycle) * NS_PER_S) / took(cycle))),
  );
  const perToken = told.map((cycles) =>
    meanOf(cycles.filter(tokens).map((cycle) => took(cycle) / 1e6 / tokens(cycle))),
  );
  const ratio = pace.every((each) => each !== null) ? pace[1].value / pace[0].value : null;
  const spread = ratio === null ? 0 : ratio * relative(pace);
  return {
    settings: [
      { what: "model", one: one.model, other: other.model },
      { what: "process", one: String(one.place), other: String(other.place) },
    ],
    comparison: {
      sides: sides.map((cycles, place) => ({
        cycles: cycles.length,
        of: [one, other][place].cycles.length,
        steps: [...new Set(cycles.map((cycle) => cycle.steps))],
        draft_tokens: [...new Set(cycles.map((cycle) => cycle.draft_tokens))],
        modes: [...new Set(cycles.map((cycle) => cycle.ranks[0].mode))],
        batch: cycles[0]?.batch ?? 1,
        context: null,
        groups: 1,
      })),
      cycle_ms: both((cycle) => took(cycle) / 1e6),
      tokens_per_s: differenceOf(...pace),
      throughput_ratio:
        ratio === null ? null : { value: ratio, low: ratio - spread, high: ratio + spread },
      ms_per_token: differenceOf(...perToken),
      accept_length: differenceOf(
        ...sides.map((cycles) => meanOf(verifiesOf(cycles).map((each) => each + 1))),
      ),
      host: phasesOf(sides, "host"),
      device: phasesOf(sides, "device"),
      notes: [],
      confidence: 0.95,
      claims: 1,
      margin: 0.01,
    },
  };
}

function relative(estimates) {
  return Math.hypot(...estimates.map(({ value, high }) => ((high ?? value) - value) / value));
}
