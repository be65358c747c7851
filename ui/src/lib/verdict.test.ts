import { expect, test as it } from "vitest";
import { decodeReport, type Report } from "./report.ts";
import { sampleReport } from "./sampleReport.ts";
import {
  adviceInWords,
  basisInWords,
  doubtsInWords,
  firstInWords,
  gapsInWords,
  leadInWords,
  leftOutInWords,
  marksOf,
  originInWords,
  parseMs,
  phasesInWords,
  settingInWords,
  throughputInWords,
  verifyInWords,
} from "./verdict.ts";

const REPORT = decodeReport(sampleReport());
const [MAIN] = REPORT.verdict.byBatch;
const [FIT] = REPORT.verify;

function answered(answer: string): Report {
  return { ...REPORT, verdict: { ...REPORT.verdict, answer } };
}

it("the answer is one sentence with the factor and its interval", () => {
  expect(leadInWords(REPORT)).toBe(
    "Speculation does not pay: 0.78 (0.76–0.80) times plain decode.",
  );
  expect(leadInWords(answered("pays"))).toMatch(/^Speculation pays: 0\.78/);
  expect(leadInWords(answered("same"))).toMatch(/no difference that matters/);
  expect(leadInWords(answered("open"))).toMatch(/cannot be said yet: 0\.78/);
});

it("without a factor the answer says why", () => {
  const unknown = { ...answered("unknown"), verdict: { ...REPORT.verdict, speedUp: null } };
  expect(leadInWords({ ...unknown, gaps: ["no_baseline"] })).toBe(
    "Whether speculation pays cannot be said: plain decode was not measured.",
  );
  expect(leadInWords({ ...unknown, gaps: ["baseline_elsewhere"] })).toMatch(/other batch sizes/);
  expect(leadInWords({ ...unknown, gaps: ["too_few", "no_baseline"] })).toMatch(/too few cycles/);
  expect(leadInWords({ ...unknown, gaps: ["no_speculation"] })).toBe(
    "Nothing was speculated in this run.",
  );
});

it("what it rests on has break-even, its source, and what break-even would need", () => {
  expect(MAIN && basisInWords(MAIN, 1)).toEqual([
    "At batch size 1, 5 steps, a cycle takes 29.9 ms and gives a request 2.10 (2.05–2.15) tokens. A plain decode takes 11.1 ms (as you said): break-even is 2.69 (2.67–2.71) tokens.",
    "Break-even needs each draft accepted in 67 % of all cases, where now it is 54 %.",
  ]);
  expect(MAIN && basisInWords(MAIN, 0.6).at(-1)).toMatch(/^The factor is of 60 % of the time/);
  // 1000 ms / 11.1 ms.
  expect(MAIN && throughputInWords(MAIN)).toBe("70.2 (68.7–71.7) tok/s, plain decode 90");
});

it("a predicted change says what it brings, and a cap that it is one", () => {
  expect(firstInWords(REPORT)).toBe("Set 2 steps: 8 % (5–11) more tok/s expected at batch size 1.");
  const [cap] = REPORT.verdict.caps;
  expect(cap && adviceInWords(cap)).toBe(
    "A verify as cheap as plain decode can bring 145 % (135–155) more tok/s at most.",
  );
});

it("what is not known is said, also what this page has no words for", () => {
  expect(gapsInWords(REPORT)).toEqual([
    "Only one batch size was seen.",
    "Not known: something new.",
  ]);
});

it("doubts have the same mark wherever they stand", () => {
  expect(marksOf(["verify_beyond", "deeper"])).toBe("a, c");
  expect(doubtsInWords(["verify_beyond", "deeper"]).map((words) => words[0])).toEqual(["a", "c"]);
});

it("settings are named by their steps, trees by all that they have", () => {
  expect(settingInWords({ steps: 1, topk: 1, draftTokens: 2 })).toBe("1 step");
  expect(settingInWords({ steps: 3, topk: 4, draftTokens: 8 })).toBe("3 steps, topk 4, 8 tokens");
  expect(settingInWords({ steps: 0, topk: 0, draftTokens: 0 })).toBe("plain decode");
});

it("the largest phases come first, by the device where it was timed", () => {
  const [stratum] = REPORT.strata;
  expect(stratum && phasesInWords(stratum)).toBe(
    "On the device a cycle is verify 89 % and draft 7 %; for 4 % the device ran none.",
  );
});

it("the cost of verify is a line, or said not to be", () => {
  const words = FIT && verifyInWords(FIT);
  expect(words?.[0]).toBe(
    "At batch size 1 verify takes 22.50 (21.90–23.10) ms and 1.03 (0.93–1.13) ms for each token.",
  );
  expect(words?.[1]).toMatch(/12\.40 .* more than plain decode/);
  expect(FIT && verifyInWords({ ...FIT, shape: "concave" })[0]).toMatch(/it is concave/);
  expect(FIT && verifyInWords({ ...FIT, shape: "unknown" })[0]).toMatch(/not identifiable/);
  const flat = { value: 0.1, low: -0.1, high: 0.3 };
  expect(FIT && verifyInWords({ ...FIT, perTokenMs: flat })[0]).toMatch(/whatever the number/);
});

it("a time in ms is read as people write it", () => {
  expect(["11.1", " 11,1 ms", ".5"].map(parseMs)).toEqual([11.1, 11.1, 0.5]);
  expect(["", "0", "-1", "fast", "1e3", "1.2.3"].map(parseMs)).toEqual([
    null,
    null,
    null,
    null,
    null,
    null,
  ]);
});

it("where nothing can be said to be changed first the most that a part can bring is", () => {
  const { verdict } = REPORT;
  const [cap] = verdict.caps;
  const gain = { value: 0.034, low: 0.03, high: 0.038 };
  const first = { change: "nothing", batch: 1, gain, atMost: true, setting: null, doubts: [] };
  const caps = cap ? [{ ...cap, change: "draft", gain }] : [];
  expect(firstInWords({ ...REPORT, verdict: { ...verdict, first, caps } })).toBe(
    "That cannot be said without plain decode: a faster draft can bring 3.4 % (3.0–3.8) at most, and what a cheaper verify would bring is not known.",
  );
});

it("a best setting beyond what was measured is told beside the one to change to", () => {
  const seven = { steps: 7, topk: 1, draftTokens: 8 };
  const best = REPORT.best.map((one) => ({ ...one, clear: false, setting: seven }));
  expect(firstInWords({ ...REPORT, best })).toMatch(
    /More may come of 7 steps, but that lies beyond/,
  );
});

it("plain decode is measured only where it was", () => {
  const [plain, deeper, two] = REPORT.points;
  expect(plain && originInWords({ ...plain, measured: false, plainSource: "given" })).toBe(
    "as you said",
  );
  expect(deeper && originInWords(deeper)).toBe("predicted (a, c)");
  expect(two && originInWords(two)).toBe("measured");
});

it("what is left out is counted, and of what throughput is where there are groups", () => {
  const left = "Left out: 10 cycles of warm-up, 3 rows of overshoot, 2 of health checks.";
  expect(leftOutInWords(REPORT)).toBe(left);
  expect(leftOutInWords({ ...REPORT, groups: 2 })).toBe(
    `${left} Each throughput is that of one of 2 groups of ranks.`,
  );
});

it("drafts that are looked up have no steps", () => {
  expect(settingInWords({ steps: 0, topk: 1, draftTokens: 6 })).toBe("6 draft tokens");
});

it("a setting of which not all is known says what is", () => {
  expect(settingInWords({ steps: 0, topk: 0, draftTokens: -1 })).toBe("drafts of unknown length");
  expect(settingInWords({ steps: 3, topk: 0, draftTokens: -1 })).toBe("3 steps");
  expect(settingInWords({ steps: 3, topk: 0, draftTokens: 4 })).toBe("3 steps, 4 tokens");
});

it("speculation without counts is not called none", () => {
  const verdict = { ...REPORT.verdict, speedUp: null, byBatch: [] };
  expect(leadInWords({ ...REPORT, verdict, gaps: ["no_counts"] })).toBe(
    "Whether speculation pays cannot be said: what was accepted is not known.",
  );
});

it("plain decode is said with what it loses at the ends of requests", () => {
  // 70.2 tok/s at 0.65 times plain decode are 108 of it, whatever a cycle of it takes.
  const main = MAIN && { ...MAIN, speedUp: { value: 0.65, low: null, high: null } };
  expect(main && throughputInWords(main)).toMatch(/plain decode 108$/);
});
