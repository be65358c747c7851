// What can be saved from the page: which cycles, in which format, and how far that is.
import type { Range } from "./axis.ts";
import { bytes, clock, ms, plural } from "./format.ts";
import { list, number, object, text } from "./json.ts";

/** Which cycles of a run. */
export type Part = "run" | "measured" | "view";

/** A part that can be chosen; `range` in UNIX ms, null for the whole run. */
export interface PartChoice {
  readonly part: Part;
  readonly name: string;
  readonly what: string;
  readonly range: Range | null;
}

/** A file that is being made, or was. */
export interface Export {
  readonly id: string;
  readonly name: string;
  readonly stage: "making" | "ready" | "failed";
  readonly bytes: number;
  readonly problem: string;
  /** What is not in it; empty where all is. */
  readonly note: string;
}

const FORMATS: Readonly<Record<string, string>> = {
  spectrace: "spectrace recording, for all of its commands",
  perfetto: "Perfetto, for ui.perfetto.dev",
  chrome: "Chrome trace JSON, for speedscope too",
  jaeger: "Jaeger, to upload there",
  otlp: "OTLP, lines of JSON",
  parquet: "Parquet, tables in a zip",
  csv: "CSV, tables in a zip",
};

/** What a format is called; one of somebody's own by its name. */
export function formatName(format: string): string {
  return FORMATS[format] ?? format;
}

/** Reads which formats there are. */
export function decodeFormats(value: unknown): string[] {
  return list(object(value, "answer")["formats"], "formats").map(String);
}

/** Reads how far an export is. */
export function decodeExport(value: unknown): Export {
  const found = object(value, "export");
  const stage = text(found, "stage");
  if (stage !== "making" && stage !== "ready" && stage !== "failed") {
    throw new Error(`"${stage}" is no stage`);
  }
  return {
    id: text(found, "id"),
    name: text(found, "name"),
    stage,
    bytes: number(found, "bytes", 0),
    problem: text(found, "problem", ""),
    note: text(found, "note", ""),
  };
}

/** The parts that there are: the run, and what is measured and in view where something is. */
export function partsOf(
  stored: { readonly cycles: number },
  measured: Range | null,
  view: Range | null,
): PartChoice[] {
  const named = [
    ["measured", "What is measured", measured],
    ["view", "What is in view", view],
  ] as const;
  return [
    {
      part: "run",
      name: "The whole run",
      what: `${plural(stored.cycles, "cycle")}, all that are stored.`,
      range: null,
    },
    ...named.flatMap(([part, name, range]) =>
      range ? [{ part, name, what: stretchInWords(range), range }] : [],
    ),
  ];
}

function stretchInWords({ start, end }: Range): string {
  return `${ms(end - start)}, from ${clock(start, true)} to ${clock(end, true)}.`;
}

/** What is sent to ask for an export. */
export function exportWish(format: string, range: Range | null): object {
  return range
    ? { format, from_ns: unixNs(Math.max(0, range.start)), to_ns: unixNs(range.end) }
    : { format };
}

/** UNIX ms as ns in decimal digits, as exact as the number is. */
export function unixNs(unixMs: number): string {
  const wholeMs = Math.floor(unixMs);
  return String(BigInt(wholeMs) * 1_000_000n + BigInt(Math.round((unixMs - wholeMs) * 1e6)));
}

/** How far an export is, for everybody who waits for it. */
export function exportInWords(found: Export): string {
  switch (found.stage) {
    case "making":
      return found.bytes > 0
        ? `Making the file: ${bytes(found.bytes)} so far.`
        : "Making the file.";
    case "ready":
      return `The file is ready. It is kept for ten minutes. ${found.note}`.trim();
    default:
      return "";
  }
}
