// What the simulated server answers about kernels: made-up ones in the contract's shape.
//
// A window goes through its stages by the clock; the kernels of a cycle are made of its device lane.
const NS_PER_MS = 1e6;
const STREAM = 7;
const ASIDE = 21;
const READING_MS = 1200;
const ASKED_MS = 600;

const GEMM =
  "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, " +
  "cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<4, " +
  "cute::tuple<cute::C<1>, cute::C<1>, cute::C<1>>>>>>(Params)";
const KERNELS = {
  qkv: ["nvjet_tst_128x64_64x4_1x2_h_bz_TNT", "matmul"],
  attention: ["void flash::FlashAttnFwdSm90<cutlass::bfloat16_t, 128>(Params)", "attention"],
  gemm: [GEMM, "matmul"],
  norm: ["void flashinfer::norm::FusedAddRMSNormKernel<8, __nv_bfloat16>(float*)", "norm"],
  act: ["void (anonymous namespace)::act_and_mul_kernel<c10::BFloat16>(int)", "other"],
  reduce: [
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "communication",
  ],
  copy: ["Memcpy DtoD (Device -> Device)", "copy"],
  sample: ["void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(int)", "sampling"],
};
const LAYER = [
  ["norm", 1],
  ["qkv", 4],
  ["attention", 5],
  ["gemm", 3],
  ["reduce", 2],
  ["norm", 1],
  ["gemm", 9],
  ["act", 1],
  ["gemm", 6],
];
/** By phase how often its kernels come again, and which these are. */
const MADE = {
  draft: [9, LAYER],
  "verify.prepare": [3, [["copy", 1]]],
  "verify.forward": [100, LAYER],
  "verify.sample": [
    4,
    [
      ["sample", 3],
      ["copy", 1],
    ],
  ],
  draft_extend: [3, LAYER],
};

/** The kernels of one rank of a cycle, in the order of their begins. */
function kernelsOfRank(rank) {
  const rows = [];
  for (const [phase, lane, start, end] of rank.phases) {
    const [times, layer] = lane === "device" ? (MADE[phase] ?? [0, []]) : [0, []];
    const all = layer.reduce((sum, [, length]) => sum + length, 0) * times;
    let at = start;
    for (let turn = 0; turn < times; turn += 1) {
      for (const [kernel, length] of layer) {
        const whole = ((end - start) * length) / all;
        rows.push({
          phase,
          kernel,
          start: Math.round(at),
          end: Math.round(at + whole * (kernel === "reduce" ? 0.8 : 0.96)),
          stream: STREAM,
          graph: phase === "verify.sample" || phase === "draft_extend" ? 0 : 1,
        });
        if (kernel === "attention" && turn % 5 === 0) {
          const [from, to] = [Math.round(at + whole * 0.2), Math.round(at + whole * 1.6)];
          rows.push({ phase, kernel: "copy", start: from, end: to, stream: ASIDE, graph: 0 });
        }
        at += whole;
      }
    }
  }
  return rows.sort((one, other) => one.start - other.start);
}

function columnsOf(rank) {
  const rows = kernelsOfRank(rank);
  const phases = [...new Set(rows.map(({ phase }) => phase))];
  const used = [...new Set(rows.map(({ kernel }) => kernel))];
  return {
    rank: rank.rank,
    phases,
    names: used.map((kernel) => KERNELS[kernel][0]),
    classes: used.map((kernel) => KERNELS[kernel][1]),
    start: rows.map(({ start }) => start),
    end: rows.map(({ end }) => end),
    stream: rows.map(({ stream }) => stream),
    phase: rows.map(({ phase }) => phases.indexOf(phase)),
    name: rows.map(({ kernel }) => used.indexOf(kernel)),
    graph: rows.map(({ graph }) => graph),
  };
}

/** The kernels of a cycle; null where there is no such cycle. */
export function kernels(run, number) {
  const cycle = run.cycles.find((each) => each.n === number);
  if (!cycle) {
    return null;
  }
  const seen = run.looks.some(({ numbers }) => numbers.includes(number));
  const ranks = seen ? cycle.ranks.map(columnsOf).filter(({ start }) => start.length > 0) : [];
  return { t0: cycle.t0, ranks };
}

/** The looks of a run, the oldest first. */
export function looks(run) {
  return { looks: run.looks.map((kept) => kept.look) };
}

/** Has a run looked at from now on; gives why not, null where it is. */
export function look(run, cycles, { refused, changed }) {
  if (["asked", "open", "reading"].includes(run.looking?.stage)) {
    return "A look at the kernels of this server goes on: wait until it has ended.";
  }
  const to = (stage, more = {}) => {
    run.looking = { stage, cycles, why: "", mend: "", ...more };
    changed();
  };
  to("asked");
  setTimeout(() => {
    if (refused) {
      to("refused", refused);
      return;
    }
    to("open");
    const first = run.n + 1;
    const waiting = setInterval(() => {
      if (run.n >= first + cycles - 1) {
        clearInterval(waiting);
        to("reading");
        setTimeout(() => {
          keep(run, first, cycles);
          to("done");
        }, READING_MS);
      }
    }, 100);
  }, ASKED_MS);
  return null;
}

/** Keeps a look at cycles from a number on, of which the first quarter saw graphs whole. */
export function keep(run, first, asked) {
  const whole = Math.floor(asked / 4);
  const cycles = run.cycles.filter(({ n }) => n >= first + whole && n < first + asked);
  if (cycles.length > 0) {
    run.looks.push({ numbers: cycles.map(({ n }) => n), look: lookAt(cycles, asked) });
  }
}

function lookAt(cycles, asked) {
  const names = cycles[0].ranks.map(({ rank }) => rank);
  const last = cycles.at(-1);
  const end = BigInt(last.t0) + BigInt(Math.max(...last.ranks.map((rank) => rank.end)));
  const works = names.flatMap((name) => worksOf(cycles, name));
  const times = names.flatMap((name) => timesOf(cycles, name));
  return {
    source: "window",
    start_ns: cycles[0].t0,
    end_ns: String(end),
    cycles: asked,
    cycles_seen: Object.fromEntries(names.map((name) => [name, cycles.length])),
    phases: works,
    kernels: times,
    communication: Object.fromEntries(names.map((name) => [name, communicationOf(times, name)])),
    costs: names.map((rank, place) => ({
      rank,
      loading_ms: 412.6 + 9 * place,
      switching_ms: 3.1,
      flushing_ms: 8.4,
      taking_ms: 5.2,
      before_ms: 29.9,
      graphs_ms: 30.4,
      kernels_ms: 41.7,
      after_ms: 30,
    })),
    losses: names.map((rank, place) => ({
      rank,
      records: 41_230,
      no_room: place === 1 ? 312 : 0,
      torn: 0,
      unfinished: place === 0 ? 1 : 0,
      unknown: 0,
      unnamed: 0,
      cut_short: false,
      clock_stepped: false,
    })),
  };
}

function rowsOf(cycles, name) {
  return cycles.flatMap((cycle) =>
    cycle.ranks
      .filter(({ rank }) => rank === name)
      .map((rank) => kernelsOfRank(rank).filter(({ start, end }) => end > start)),
  );
}

function worksOf(cycles, rank) {
  const each = rowsOf(cycles, rank);
  return Object.keys(MADE).flatMap((phase) => {
    const having = each
      .map((rows) => rows.filter((row) => row.phase === phase))
      .filter((rows) => rows.length > 0);
    if (having.length === 0) {
      return [];
    }
    const mean = (of) => having.reduce((sum, rows) => sum + of(rows), 0) / having.length;
    const main = (rows) => rows.filter(({ stream }) => stream === STREAM);
    const busy = (rows) => main(rows).reduce((sum, { start, end }) => sum + end - start, 0);
    const device = (rows) => main(rows).at(-1).end - rows[0].start;
    const graphs = having[0][0].graph === 1;
    return [
      {
        rank,
        phase,
        cycles: having.length,
        device_ms: mean(device) / NS_PER_MS,
        busy_ms: mean(busy) / NS_PER_MS,
        gap_ms: mean((rows) => device(rows) - busy(rows)) / NS_PER_MS,
        kernels: mean((rows) => rows.length),
        launches: graphs ? 1 : mean((rows) => rows.length),
        replays: graphs ? 1 : 0,
        replay_ms: graphs ? mean(device) / NS_PER_MS : null,
        replays_seen: graphs ? having.length : 0,
      },
    ];
  });
}

function timesOf(cycles, rank) {
  const sums = new Map();
  for (const { phase, kernel, start, end } of rowsOf(cycles, rank).flat()) {
    const key = `${phase} ${KERNELS[kernel][1]}`;
    const sum = sums.get(key) ?? { time: 0, kernels: 0 };
    sums.set(key, { time: sum.time + end - start, kernels: sum.kernels + 1 });
  }
  return [...sums].map(([key, { time, kernels: count }]) => {
    const [phase, kind] = key.split(" ");
    return { rank, phase, kernel_class: kind, time_ms: time / NS_PER_MS, kernels: count };
  });
}

function communicationOf(times, rank) {
  const own = times.filter((time) => time.rank === rank);
  const sum = (some) => some.reduce((total, { time_ms }) => total + time_ms, 0);
  const all = sum(own);
  return all > 0 ? sum(own.filter((time) => time.kernel_class === "communication")) / all : 0;
}
