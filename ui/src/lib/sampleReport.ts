// The report of the founding story (F1 of the published figures), for the tests beside these files.

const exact = (value: number) => ({ value, low: value, high: value });
const within = (value: number, reach: number) => ({
  value,
  low: value - reach,
  high: value + reach,
});
const setting = (steps: number) => ({
  steps,
  topk: steps > 0 ? 1 : 0,
  draft_tokens: steps > 0 ? steps + 1 : 0,
});
const times = (p50: number) => ({
  p50_ms: within(p50, 0.1),
  p95_ms: within(p50 * 1.1, 0.1),
  p99_ms: within(p50 * 1.2, 0.1),
  cycles: 9000,
});
const phase = (name: string, lane: string, p50: number, share: number) => ({
  name,
  lane,
  time: times(p50),
  share: within(share, 0.01),
});
const position = (place: number, reached: number, accepted: number) => ({
  place,
  reached,
  accepted,
  conditional: within(accepted / reached, 0.02),
});
const point = (steps: number, tokens: number, cycleMs: number, over: object = {}) => ({
  setting: setting(steps),
  batch: 1,
  measured: false,
  accept_length: within(tokens, 0.05),
  verify_ms: null,
  draft_ms: null,
  cycle_ms: within(cycleMs, 0.3),
  tokens_per_s: within((1000 * tokens) / cycleMs, 2),
  speed_up: within((tokens * 11.1) / cycleMs, 0.02),
  doubts: [],
  flags:
    steps > 0
      ? ["--speculative-num-steps", `${steps}`, "--speculative-num-draft-tokens", `${steps + 1}`]
      : [],
  ...over,
});

/** As the API sends it: 5 and 2 steps were measured, plain decode was as well. */
export function sampleReport(): Record<string, unknown> {
  return {
    confidence: 0.95,
    cycles: 10_000,
    duration_s: 300,
    sampled_cycles: 9000,
    windows: 40,
    modes: ["device"],
    verdict: {
      answer: "loses",
      speed_up: within(0.78, 0.02),
      covered: 1,
      by_batch: [
        {
          setting: setting(5),
          batch: 1,
          cycles: 9000,
          share: 1,
          tokens_per_cycle: within(2.1, 0.05),
          cycle_ms: within(29.9, 0.2),
          tokens_per_s: within(70.2, 1.5),
          plain_ms: exact(11.1),
          plain_source: "given",
          break_even: within(2.69, 0.02),
          speed_up: within(0.78, 0.02),
          answer: "loses",
          needed_chance: 0.67,
          chance: 0.54,
        },
      ],
      first: {
        change: "steps",
        batch: 1,
        gain: within(0.08, 0.03),
        at_most: false,
        setting: setting(2),
        doubts: ["draft_share"],
      },
      caps: [
        {
          change: "verify",
          batch: 1,
          gain: within(1.45, 0.1),
          at_most: true,
          setting: null,
          doubts: [],
        },
      ],
    },
    acceptance: [
      {
        setting: setting(5),
        verifies: 9874,
        cut: 12,
        accept_length: within(2.1, 0.05),
        delivered_length: within(2.09, 0.05),
        sglang_accept_length: 2.13,
        draft_acceptance_rate: 0.22,
        positions: [position(1, 1000, 640), position(2, 640, 360)],
        by_batch: [{ low: 1, high: 1, verifies: 9874, accept_length: within(2.1, 0.05) }],
        by_context: [
          { low: 10, high: 1000, verifies: 6000, accept_length: within(2.2, 0.05) },
          { low: 1001, high: 8000, verifies: 3874, accept_length: within(1.9, 0.05) },
        ],
        bad_requests: [
          {
            request_id: "slow",
            verifies: 200,
            accept_length: 1.2,
            rate: within(0.04, 0.02),
            others: 0.22,
          },
        ],
      },
    ],
    strata: [
      {
        setting: setting(5),
        batch: 1,
        cycles: 9000,
        total_ms: 269_100,
        sampled: 9000,
        padded_batch: null,
        cycle: times(29.9),
        parts: null,
        phases: [
          phase("draft", "device", 2.18, 0.07),
          phase("verify", "device", 26.6, 0.89),
          phase("draft", "host", 0.87, 0.03),
          phase("verify", "host", 28.7, 0.96),
        ],
      },
    ],
    baseline: null,
    verify: [
      {
        batch: 1,
        points: [
          { tokens: 3, batch: 1, verify_ms: within(25.6, 0.2), padded_batch: null },
          { tokens: 6, batch: 1, verify_ms: within(28.7, 0.2), padded_batch: null },
        ],
        shape: "line",
        fixed_ms: within(22.5, 0.6),
        per_token_ms: within(1.03, 0.1),
        r_squared: null,
        jump_ms: within(12.4, 0.5),
      },
    ],
    what_if: {
      points: [
        point(0, 1, 11.1, { measured: true }),
        point(7, 2.11, 32.3, { doubts: ["deeper", "verify_beyond"] }),
        point(2, 2, 26.3, { measured: true }),
        point(3, 2.07, 27.5),
        point(5, 2.1, 29.9, { measured: true }),
      ],
      best: [
        {
          batch: 1,
          setting: setting(0),
          tokens_per_s: exact(90.1),
          clear: true,
          gain: within(0.28, 0.02),
          tier: [1, 3, 5, 7],
          tier_steps: 3,
          flags: [],
        },
      ],
      crossover_batch: 1,
      crossover_clear: true,
    },
    gaps: ["one_batch", "something_new"],
    left_out: { warm_up_cycles: 10, overshoot_rows: 3, health_check_rows: 2, unknown_cycles: 0 },
    bubbles: {
      cycles: 8900,
      idle_share: within(0.12, 0.01),
      busy_share: within(0.88, 0.01),
      causes: {
        late_launch: within(0.03, 0.004),
        scheduler: within(0.09, 0.006),
        waiting: exact(0),
        unclear: exact(0),
      },
      gaps: [
        {
          before: "draft_extend",
          after: "draft",
          between_cycles: true,
          count: 8900,
          per_cycle: 1,
          length_ms: within(3.4, 0.1),
          share: within(0.117, 0.01),
          causes: { late_launch: 0.027, scheduler: 0.09, waiting: 0, unclear: 0 },
        },
        {
          before: "draft",
          after: "verify.forward",
          between_cycles: false,
          count: 8900,
          per_cycle: 1,
          length_ms: within(0.1, 0.01),
          share: within(0.003, 0.001),
          causes: { late_launch: 0.003, scheduler: 0, waiting: 0, unclear: 0 },
        },
      ],
      bound: "host",
      launch_share: null,
      hidden_share: within(0.1, 0.02),
      own_work_ms: 2.9,
      too_small: 0,
      too_small_share: 0,
      error_ms: 0.01,
      problem: "",
    },
    skew: {
      phases: [],
      straggler: null,
      waits_in: null,
      lost_in: null,
      waited_ms: null,
      left_out_ranks: [],
      problem: "There is one rank to look at, so that none can be late.",
    },
    groups: 1,
    sentences: [],
  };
}
