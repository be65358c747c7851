// The simulated server keeps the contract: the page's own readers take what it answers.
import { describe, expect, test as it } from "vitest";
import { decodeComparison, headline } from "../src/lib/comparison.ts";
import { decodeOverview } from "../src/lib/overview.ts";
import { decodeHistory, decodeServedPage } from "../src/lib/served.ts";
import { decodeBarPage, decodeSpread } from "../src/lib/spread.ts";
import {
  barCycles,
  compare,
  distribution,
  overview,
  request,
  requests,
} from "./stored-answers.mjs";

const MS = 1e6;
const T0 = 1_700_000_000_000_000_000n;
const NONE = new URLSearchParams();

/** A hundred cycles that verify for `ms` after 2 ms of draft, each with a draft found correct. */
function runOf(ms) {
  const cycles = Array.from({ length: 100 }, (_, place) => ({
    group: "",
    n: 4001 + place,
    kind: "speculative",
    batch: 1,
    steps: 2,
    topk: 1,
    draft_tokens: 3,
    t0: String(T0 + BigInt(place * 10 * MS)),
    ranks: [
      {
        rank: "TP0",
        start: 0,
        end: (2 + ms) * MS,
        mode: "host",
        phases: [
          ["draft", "host", 0, 2 * MS, 4001 + place],
          ["verify.forward", "host", 2 * MS, (2 + ms) * MS, 4001 + place],
        ],
      },
    ],
    requests: [{ id: `r${place % 4}`, correct: 1, tokens: 2, overshoot: false, health: false }],
  }));
  return { cycles, firstN: 4001, model: "m", place: 1 };
}

describe("the simulated server", () => {
  const run = runOf(4);

  it("spreads the times of all cycles but its first", () => {
    const found = decodeSpread(distribution(run, NONE));
    expect(found.cycles).toBe(90);
    const [cycle] = found.phases.filter(({ name }) => name === "cycle");
    expect(cycle?.lanes.map((lane) => [lane.lane, lane.cycles, lane.p50])).toEqual([
      ["host", 90, 6 * MS],
    ]);
    expect(cycle?.lanes[0]?.bars.reduce((sum, count) => sum + count, 0)).toBe(90);
    expect(found.phases.map(({ name }) => name)).toContain("verify.forward");
    expect(found.acceptance[0]).toMatchObject({
      verifies: 90,
      histogram: [0, 90, 0],
      acceptLength: { value: 2, low: 2, high: 2 },
    });
  });

  it("picks by what is asked for, and lists the cycles of a bar", () => {
    expect(decodeSpread(distribution(run, new URLSearchParams({ steps: "3" }))).cycles).toBe(0);
    const bar = new URLSearchParams({ phase: "draft", lane: "host", from_ns: String(2 * MS) });
    const page = decodeBarPage(barCycles(run, bar));
    expect(page).toMatchObject({ total: 90, before: null });
    expect(page.cycles[0]).toMatchObject({ n: 4100, valueNs: 2 * MS, ns: 6 * MS });
    bar.set("to_ns", String(2 * MS));
    expect(decodeBarPage(barCycles(run, bar)).total).toBe(0);
  });

  it("sums all cycles up to columns of time", () => {
    const { columns, whole } = decodeOverview(overview(run, new URLSearchParams({ columns: "4" })));
    expect(columns.map(({ cycles }) => cycles).reduce((sum, count) => sum + count, 0)).toBe(100);
    expect(columns[0]).toMatchObject({ cycles: 25, leastMs: 6, mostMs: 6, last: 4025 });
    expect(whole.end - whole.start).toBeCloseTo(99 * 10 + 6, 2);
    const second = {
      columns: "2",
      from_ns: String(T0 + 100n * 1_000_000n),
      to_ns: String(T0 + 200n * 1_000_000n),
    };
    const found = decodeOverview(overview(run, new URLSearchParams(second)));
    expect(found.columns.map(({ cycles, last }) => [cycles, last])).toEqual([
      [5, 4015],
      [5, 4020],
    ]);
  });

  it("tells what each request got, and in which cycles", () => {
    const page = decodeServedPage(requests(run, NONE));
    expect(page.requests.map(({ id, cycles, tokens }) => [id, cycles, tokens])).toEqual(
      ["r3", "r2", "r1", "r0"].map((id) => [id, 25, 50]),
    );
    const history = decodeHistory(request(run, new URLSearchParams({ id: "r1" })));
    expect(history.cycles).toHaveLength(25);
    expect(history.cycles.at(-1)).toMatchObject({ n: 4002, startMs: 0, ms: 6, correct: 1 });
    expect(request(run, new URLSearchParams({ id: "nobody" }))).toBeNull();
  });

  it("holds two runs against each other", () => {
    const found = decodeComparison(compare(run, runOf(7)));
    expect(found.cycleMs).toMatchObject({ verdict: "differs", excess: { value: 3 } });
    expect(found.throughputRatio?.value).toBeCloseTo(6 / 9);
    expect(headline(found)).toMatch(
      /^The second run makes 33\.3 % fewer tokens per second of decoding/,
    );
    const [verify] = found.host.filter(({ name }) => name === "verify");
    expect(verify).toMatchObject({ share: 1, ms: { verdict: "differs", excess: { value: 3 } } });
  });
});
