import { describe, expect, it } from "vitest";
import {
  type Bar,
  barQuery,
  EVERYTHING,
  formatBar,
  isSameBar,
  isSameLook,
  type Look,
  lookQuery,
  parseBar,
  parseLook,
  putLook,
} from "./look.ts";

const ALL: Look = {
  group: "DP1",
  rank: "DP1 TP0",
  kind: "decode",
  mode: "sync",
  batch: 4,
  steps: 0,
  lastS: 60,
};
const BAR: Bar = { phase: "verify.forward", lane: "device", fromNs: 5, toNs: 9 };

describe("what is picked", () => {
  it("comes back out of an address", () => {
    const fields = new URLSearchParams();
    putLook(fields, ALL);
    expect(parseLook(new URLSearchParams(fields.toString()))).toEqual(ALL);
  });
  it("leaves an address empty where everything is open", () => {
    const fields = new URLSearchParams();
    putLook(fields, EVERYTHING);
    expect(fields.toString()).toBe("");
    expect(parseLook(fields)).toEqual(EVERYTHING);
  });
  it("is not taken from what makes no sense", () => {
    const hash = `size=-1&steps=two&last_s=0&of_rank=&kind=${"x".repeat(300)}`;
    expect(parseLook(new URLSearchParams(hash))).toEqual(EVERYTHING);
  });
  it("is asked for by the server's names", () => {
    expect(lookQuery(ALL).toString()).toBe(
      "group=DP1&rank=DP1+TP0&kind=decode&mode=sync&batch=4&steps=0&last_s=60",
    );
    expect(lookQuery(EVERYTHING).toString()).toBe("");
  });
  it("is compared field by field", () => {
    expect(isSameLook(ALL, { ...ALL })).toBe(true);
    expect(isSameLook(ALL, { ...ALL, steps: null })).toBe(false);
  });
});

describe("a bar", () => {
  it.each([BAR, { ...BAR, fromNs: null }, { ...BAR, toNs: null }])("comes back: %j", (bar) => {
    expect(parseBar(formatBar(bar))).toEqual(bar);
    expect(isSameBar(parseBar(formatBar(bar)), bar)).toBe(true);
  });
  it.each([null, "", "draft", "draft,gpu,1,2", "draft,host,a,2", "draft,host,1,2,3", "<b>,host,,"])(
    "is none: %j",
    (text) => {
      expect(parseBar(text)).toBeNull();
    },
  );
  it("is asked for within what is picked", () => {
    expect(barQuery({ ...EVERYTHING, steps: 5 }, { ...BAR, toNs: null }, 12).toString()).toBe(
      "steps=5&phase=verify.forward&lane=device&from_ns=5&before=12",
    );
  });
});
