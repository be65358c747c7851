import { expect, test as it } from "vitest";
import { bytesPerMinute, decodeRecording, newName, recordingInWords } from "./recording.ts";

const SENT = {
  name: "mine.spectrace",
  active: true,
  since_ms: 1_700_000_000_000,
  cycles: 1234,
  bytes: 3_200_000,
  max_bytes: 1_000_000_000,
  lost: 0,
  cut: false,
  problem: "",
};

function said(over: object): string {
  const found = decodeRecording({ ...SENT, ...over });
  return found ? recordingInWords(found) : "none";
}

it("a recording says since when it goes on, and how much it is", () => {
  expect(said({})).toMatch(
    /^Recording into mine\.spectrace since \d\d:\d\d:\d\d: 1,234 cycles, 3\.2 MB\.$/,
  );
});

it("one that has ended says where its file is, and one without a file nothing", () => {
  expect(said({ active: false })).toBe(
    "mine.spectrace is there, in the folder where spectrace runs: 1,234 cycles, 3.2 MB.",
  );
  expect(said({ active: false, bytes: 0, problem: "No cycle came." })).toBe("");
});

it("what is not in it is told", () => {
  expect(said({ cut: true, lost: 2 })).toMatch(
    /The oldest cycles went, to keep below 1\.0 GB\. 2 cycles could not be stored\.$/,
  );
});

it("the store tells what a minute takes: its bytes a cycle, by the rate of cycles", () => {
  expect(bytesPerMinute({ cycles: 1000, bytes: 2_000_000 }, 30)).toBe(3_600_000);
  expect(bytesPerMinute({ cycles: 0, bytes: 2_000_000 }, 30)).toBeNull();
  expect(bytesPerMinute({ cycles: 1000, bytes: 2_000_000 }, null)).toBeNull();
});

it("a new name is one that is allowed, and tells when it began", () => {
  expect(newName(new Date(2026, 0, 2, 3, 4, 5).getTime())).toBe("run-20260102-030405");
});

it("where nothing is recorded there is nothing", () => {
  expect(decodeRecording(null)).toBeNull();
  expect(decodeRecording(undefined)).toBeNull();
});
