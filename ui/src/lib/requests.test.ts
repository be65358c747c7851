import { describe, expect, test as it } from "vitest";
import { WireError } from "./json.ts";
import { decodeRequests, idOf, merged, packed, type TracedRequest } from "./requests.ts";

const SENT = {
  trace: "0af7651916cd43dd8448eb211c80319c",
  ids: ["rid-1"],
  service: "sglang",
  name: "Req rid-1",
  t0: "1796000000123000000",
  length: 250_000_000,
  failed: false,
  spans: [["decode_loop", 2, 1_000_000, 3_500_000, false]],
  more: 3,
};

function requestOf(trace: string, t0Ms: number, lengthMs: number): TracedRequest {
  const [request] = decodeRequests(JSON.stringify([{ ...SENT, trace, ids: [] }]));
  if (!request) {
    throw new Error("one request went in");
  }
  return { ...request, t0Ms, lengthMs };
}

describe("what the server sends", () => {
  it("is read with its times in ms", () => {
    const [request] = decodeRequests(JSON.stringify([SENT]));
    expect(request).toMatchObject({ ids: ["rid-1"], lengthMs: 250, more: 3 });
    expect(request?.t0Ms).toBeCloseTo(1_796_000_000_123, 3);
    expect(request?.spans).toEqual([
      { name: "decode_loop", depth: 2, startMs: 1, endMs: 3.5, failed: false },
    ]);
  });

  it("is refused where a span is none", () => {
    const broken = { ...SENT, spans: [["decode_loop", 2, 1, 3]] };
    expect(() => decodeRequests(JSON.stringify([broken]))).toThrow(WireError);
  });
});

describe("what is kept", () => {
  it("has each trace once, its newest version, by the starts", () => {
    const late = requestOf("b", 20, 1);
    const grown = requestOf("a", 10, 9);
    expect(merged([requestOf("a", 10, 5)], [late, grown], 10)).toEqual([grown, late]);
  });

  it("loses the oldest when there are too many", () => {
    const all = [requestOf("a", 1, 1), requestOf("b", 2, 1), requestOf("c", 3, 1)];
    expect(merged(all, [], 2).map(idOf)).toEqual(["b", "c"]);
  });
});

describe("bars", () => {
  it("lie below each other where requests overlap, and share a row where they do not", () => {
    const requests = [requestOf("a", 0, 50), requestOf("b", 25, 50), requestOf("c", 60, 20)];
    const bars = packed(requests, 0, 100, 3);
    expect(bars.map((bar) => bar.row)).toEqual([0, 1, 0]);
    expect(bars.map((bar) => bar.left)).toEqual([0, 0.25, 0.6]);
    expect(bars.map((bar) => bar.width)).toEqual([0.5, 0.5, 0.2]);
  });

  it("are cut at the edges, and left out beyond them", () => {
    const requests = [requestOf("a", -50, 20), requestOf("b", -50, 100), requestOf("c", 100, 5)];
    const [bar, ...others] = packed(requests, 0, 100, 1);
    expect(bar).toMatchObject({ left: 0, width: 0.5 });
    expect(others).toEqual([]);
  });

  it("share the row that is free first when all are taken", () => {
    const requests = [requestOf("a", 0, 90), requestOf("b", 1, 40), requestOf("c", 2, 10)];
    expect(packed(requests, 0, 100, 2).map((bar) => bar.row)).toEqual([0, 1, 1]);
  });
});
