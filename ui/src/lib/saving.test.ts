import { expect, test as it } from "vitest";
import {
  decodeExport,
  decodeFormats,
  exportInWords,
  exportWish,
  formatName,
  partsOf,
  unixNs,
} from "./saving.ts";

const EXPORT = { id: "x", name: "a.pftrace", stage: "making", bytes: 3_200_000, problem: "" };

it("a stretch of time can be chosen where there is one, and the run always", () => {
  const measured = { start: 1000, end: 1040 };
  expect(partsOf({ cycles: 1234 }, null, null).map((one) => one.part)).toEqual(["run"]);
  const all = partsOf({ cycles: 1234 }, measured, { start: 0, end: 5000 });
  expect(all.map((one) => one.part)).toEqual(["run", "measured", "view"]);
  expect(all[0]?.what).toBe("1,234 cycles, all that are stored.");
  expect(all[1]?.what).toMatch(/^40\.0 ms, from .*\.000 to .*\.040\.$/);
});

it("a stretch is asked for in ns, the run without any", () => {
  expect(exportWish("csv", null)).toEqual({ format: "csv" });
  expect(exportWish("csv", { start: 1_700_000_000_123.5, end: 1_700_000_000_125 })).toEqual({
    format: "csv",
    from_ns: "1700000000123500000",
    to_ns: "1700000000125000000",
  });
  expect(exportWish("csv", { start: -5, end: 1 })).toMatchObject({ from_ns: "0" });
});

it("ns keep what ms have, and never lose the ms", () => {
  expect(unixNs(1_700_000_000_999.9375)).toBe("1700000000999937500");
  expect(unixNs(0)).toBe("0");
});

it("an export says how far it is", () => {
  expect(exportInWords(decodeExport(EXPORT))).toBe("Making the file: 3.2 MB so far.");
  expect(exportInWords(decodeExport({ ...EXPORT, bytes: 0 }))).toBe("Making the file.");
  expect(exportInWords(decodeExport({ ...EXPORT, stage: "ready" }))).toContain("ready");
  expect(exportInWords(decodeExport({ ...EXPORT, stage: "ready", note: "Left out: 3." }))).toMatch(
    /ready\. .* Left out: 3\.$/,
  );
  expect(exportInWords(decodeExport({ ...EXPORT, stage: "failed" }))).toBe("");
});

it("a format of somebody's own keeps its name", () => {
  expect(decodeFormats({ formats: ["spectrace", "lines"] }).map(formatName)).toEqual([
    "spectrace recording, for all of its commands",
    "lines",
  ]);
});

it("what is no answer is refused", () => {
  expect(() => decodeExport({ ...EXPORT, stage: "flying" })).toThrow();
  expect(() => decodeExport(null)).toThrow();
  expect(() => decodeFormats({})).toThrow();
});
