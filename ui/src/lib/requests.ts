// Requests as spans of other people tell of them, such as SGLang's own: read, kept, and laid out.
import { flag, list, maybeText, number, object, text, texts, WireError } from "./json.ts";
import { unixMs } from "./wire.ts";

const NS_PER_MS = 1e6;

/** A span of a request; times in ms from the request's start. */
export interface RequestSpan {
  readonly name: string;
  /** How many spans are above it. */
  readonly depth: number;
  readonly startMs: number;
  readonly endMs: number;
  readonly failed: boolean;
}

/** All spans of one trace. */
export interface TracedRequest {
  readonly trace: string;
  /** The engine's ids, by which cycles name it; none where no span tells. */
  readonly ids: readonly string[];
  readonly service: string;
  readonly name: string;
  /** UNIX time of the start in ms. */
  readonly t0Ms: number;
  readonly lengthMs: number;
  readonly failed: boolean;
  readonly spans: readonly RequestSpan[];
  /** Spans that were left out. */
  readonly more: number;
}

/** Some of all requests that are kept, those that began last first. */
export interface TracedPage {
  readonly requests: readonly TracedRequest[];
  /** How to ask for those that follow; null where none do. */
  readonly before: string | null;
}

/** Reads a list of requests from the JSON text of an event. */
export function decodeRequests(json: string): TracedRequest[] {
  return list(JSON.parse(json), "requests").map(decodeRequest);
}

/** Reads a page of those that are kept. */
export function decodeTracedPage(value: unknown): TracedPage {
  const page = object(value, "requests");
  return {
    requests: list(page["requests"], "requests").map(decodeRequest),
    before: maybeText(page, "before"),
  };
}

function decodeRequest(value: unknown): TracedRequest {
  const request = object(value, "request");
  return {
    trace: text(request, "trace"),
    ids: texts(request, "ids"),
    service: text(request, "service", ""),
    name: text(request, "name", ""),
    t0Ms: unixMs(text(request, "t0")),
    lengthMs: number(request, "length") / NS_PER_MS,
    failed: flag(request, "failed"),
    spans: list(request["spans"], "spans").map(decodeSpan),
    more: number(request, "more", 0),
  };
}

function decodeSpan(value: unknown): RequestSpan {
  const [name, depth, start, end, failed] = list(value, "span");
  if (
    typeof name !== "string" ||
    typeof depth !== "number" ||
    typeof start !== "number" ||
    typeof end !== "number" ||
    typeof failed !== "boolean"
  ) {
    throw new WireError("a span is not [name, depth, start, end, failed]");
  }
  return { name, depth, startMs: start / NS_PER_MS, endMs: end / NS_PER_MS, failed };
}

/** The requests known so far with those that arrived in their places, by their starts. */
export function merged(
  known: readonly TracedRequest[],
  arrived: readonly TracedRequest[],
  most: number,
): readonly TracedRequest[] {
  const byTrace = new Map([...known, ...arrived].map((each) => [each.trace, each]));
  return [...byTrace.values()].toSorted((one, other) => one.t0Ms - other.t0Ms).slice(-most);
}

/** What to call a request: the engine's id, else that of its trace. */
export function idOf(request: TracedRequest): string {
  return request.ids[0] ?? request.trace;
}

/** A bar in a track; `left` and `width` from 0 to 1. */
export interface Bar {
  readonly request: TracedRequest;
  readonly row: number;
  readonly left: number;
  readonly width: number;
}

/**
 * Bars of the requests between two UNIX times (ms), by their starts. Each lies in the first row
 * that is free; where none is, in the one that becomes free first.
 */
export function packed(
  requests: readonly TracedRequest[],
  fromMs: number,
  toMs: number,
  rows: number,
): Bar[] {
  const span = toMs - fromMs;
  const ends = Array.from({ length: rows }, () => Number.NEGATIVE_INFINITY);
  const inView = requests.filter(
    ({ t0Ms, lengthMs }) => t0Ms < toMs && t0Ms + lengthMs > fromMs && span > 0,
  );
  return inView.map((request) => {
    const free = ends.findIndex((end) => end <= request.t0Ms);
    const row = free < 0 ? ends.indexOf(Math.min(...ends)) : free;
    const endMs = request.t0Ms + request.lengthMs;
    ends[row] = Math.max(ends[row] ?? endMs, endMs);
    const left = Math.max(request.t0Ms, fromMs);
    return {
      request,
      row,
      left: (left - fromMs) / span,
      width: (Math.min(endMs, toMs) - left) / span,
    };
  });
}
