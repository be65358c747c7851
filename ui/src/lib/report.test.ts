import { expect, test as it } from "vitest";
import { decodeReport, settingKey } from "./report.ts";
import { sampleReport } from "./sampleReport.ts";

it("a report is read as the server sends it", () => {
  const report = decodeReport(sampleReport());
  expect(report.verdict.byBatch[0]?.breakEven?.value).toBe(2.69);
  expect(report.points).toHaveLength(5);
  expect(report.acceptance[0]?.positions.map(({ reached }) => reached)).toEqual([1000, 640]);
});

it("the phases of cycles stand in their lanes", () => {
  const { times } = decodeReport(sampleReport()).strata[0] ?? {};
  expect(times?.device.map(({ name, time }) => [name, time.p50_ms])).toEqual([
    ["draft", 2.18],
    ["verify", 26.6],
  ]);
  expect(times?.phases.map(({ share }) => share)).toEqual([0.03, 0.96]);
});

it("what the acceptance is told apart by comes with it", () => {
  const [found] = decodeReport(sampleReport()).acceptance;
  expect(found?.byContext.map(({ low, high }) => [low, high])).toEqual([
    [10, 1000],
    [1001, 8000],
  ]);
  expect(found?.badRequests.map(({ id, others }) => [id, others])).toEqual([["slow", 0.22]]);
});

it("a report without a verdict is refused", () => {
  expect(() => decodeReport({ ...sampleReport(), verdict: null })).toThrow("verdict is no object");
});

it("a setting has a key of its own", () => {
  expect(settingKey({ steps: 3, topk: 4, draftTokens: 8 })).toBe("3-4-8");
});
