import { expect, test as it } from "vitest";
import { cyclesOf, decodeProspect } from "./prospect.ts";

it("a way that is open needs no words; one that is not has both", () => {
  expect(decodeProspect({ open: true })).toEqual({ open: true, why: "", mend: "" });
  const closed = { open: false, why: "No GPU.", mend: "Use one." };
  expect(decodeProspect(closed)).toEqual(closed);
  expect(() => decodeProspect({})).toThrow("open is missing");
  expect(() => decodeProspect({ open: "yes" })).toThrow("open is neither");
});

it("a number of cycles is whole, at least 1 and at most what the server takes", () => {
  expect(["1", " 20 ", "1000"].map(cyclesOf)).toEqual([1, 20, 1000]);
  expect(["", "0", "-1", "1.5", "1001", "many"].map(cyclesOf)).toEqual(
    Array.from({ length: 6 }, () => null),
  );
});
