import { expect, test as it } from "vitest";
import { cyclesOf, decodeProspect } from "./prospect.ts";

it("a way that is open needs no words; one that is not has both", () => {
  expect(decodeProspect({ open: true })).toEqual({ open: true, why: "", mend: "" });
  const closed = { open: false, why: "No GPU.", mend: "Use one." };
  expect(decodeProspect(closed)).toEqual(closed);
  expect(() => decodeProspect({})).toThrow("open is missing");
  expect(() => decodeProspect({ open: "yes" })).toThrow("open is neither");
});

it("a number of cycles is whole, at least 1 and at most what the window counts", () => {
  expect(["1", " 20 ", "65535"].map(cyclesOf)).toEqual([1, 20, 65_535]);
  expect(["", "0", "-1", "1.5", "65536", "many"].map(cyclesOf)).toEqual(
    Array.from({ length: 6 }, () => null),
  );
});
