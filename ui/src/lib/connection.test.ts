import { expect, test as it } from "vitest";
import { CONNECTING, failed, heard, isSilent, SILENCE_MS, secondsToRetry } from "./connection.ts";

it("the wait doubles with every failure, up to ten seconds", () => {
  let connection = CONNECTING;
  const waits = Array.from({ length: 6 }, () => {
    connection = failed(connection, 0);
    return secondsToRetry(connection, 0);
  });
  expect(waits).toEqual([1, 2, 4, 8, 10, 10]);
});

it("the time of the loss is that of the first failure", () => {
  const again = failed(failed(heard(100), 500), 2000);
  expect(again).toMatchObject({ kind: "lost", sinceMs: 500, failures: 2 });
});

it("a success makes the next loss the first again", () => {
  expect(failed(heard(9000), 9500)).toMatchObject({ sinceMs: 9500, failures: 1 });
});

it("the seconds count down to 0", () => {
  const lost = failed(heard(0), 1000);
  expect([1000, 1001, 2000, 5000].map((now) => secondsToRetry(lost, now))).toEqual([1, 1, 0, 0]);
  expect(secondsToRetry(CONNECTING, 0)).toBe(0);
});

it("only an open connection can be silent", () => {
  expect(isSilent(heard(0), SILENCE_MS)).toBe(false);
  expect(isSilent(heard(0), SILENCE_MS + 1)).toBe(true);
  expect(isSilent(CONNECTING, 1e9)).toBe(false);
});
