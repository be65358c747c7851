// The address of the page: what is chosen stands in the URL's hash.
import { type Bar, formatBar, type Look, parseBar, parseLook, putLook, textOf } from "./look.ts";
import { formatMarks, formatStretch, type Mark, parseMarks, parseStretch } from "./marks.ts";
import type { Anchored } from "./timeline.ts";
import type { Theme } from "./tokens.ts";
import { parseMs } from "./verdict.ts";

/** What fills the page below its header. */
export type Tab = "live" | "distribution" | "requests" | "verdict" | "timing" | "kernels" | "runs";

const TABS: readonly Tab[] = [
  "live",
  "distribution",
  "requests",
  "verdict",
  "timing",
  "kernels",
  "runs",
];

/** How the waterfall is laid out: on one axis of time, or a row a cycle. */
export type Layout = "time" | "rows";

/** What the hash can carry. */
export interface Place {
  readonly tab: Tab;
  readonly run: string | null;
  readonly group: string;
  readonly cycle: number | null;
  /** The override of the system's setting. */
  readonly theme: Theme | null;
  /** What a person says that plain decode takes, in ms. */
  readonly baselineMs: number | null;
  /** The batch size of the what-if. */
  readonly batch: number | null;
  /** The setting that is tried there, as `settingKey` writes it. */
  readonly setting: string | null;
  /** Which stored cycles are looked at. */
  readonly look: Look;
  /** The bar of a distribution whose cycles are shown. */
  readonly bar: Bar | null;
  /** The request whose cycles are shown. */
  readonly request: string | null;
  /** The runs that are held against each other. */
  readonly one: string | null;
  readonly other: string | null;
  readonly layout: Layout;
  /** The stretch of the axis of time that is in view; null follows the newest cycles. */
  readonly stretch: Anchored | null;
  /** The stretch that is measured. */
  readonly measured: Anchored | null;
  readonly marks: readonly Mark[];
  /** The words in the search field. */
  readonly find: string;
  /** The opened rank; null is the first. */
  readonly rank: string | null;
  /** The look at kernels that is shown, by the whole UNIX ms of its begin; null is the newest. */
  readonly seen: number | null;
}

/** Reads `#run=…&cycle=…`; what does not make sense is left out. */
export function parseHash(hash: string): Place {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const cycle = fields.get("cycle") ?? "";
  const theme = fields.get("theme");
  const baseline = fields.get("baseline_ms") ?? "";
  const batch = fields.get("batch") ?? "";
  const setting = fields.get("setting") ?? "";
  return {
    tab: TABS.find((each) => each === fields.get("view")) ?? "live",
    run: fields.get("run") || null,
    group: fields.get("group") ?? "",
    cycle: /^\d+$/.test(cycle) ? Number(cycle) : null,
    theme: theme === "light" || theme === "dark" ? theme : null,
    baselineMs: parseMs(baseline),
    batch: /^\d+$/.test(batch) ? Number(batch) : null,
    setting: /^\d+-\d+-\d+$/.test(setting) ? setting : null,
    look: parseLook(fields),
    bar: parseBar(fields.get("bar")),
    request: textOf(fields, "request"),
    one: textOf(fields, "one"),
    other: textOf(fields, "other"),
    layout: fields.get("layout") === "rows" ? "rows" : "time",
    stretch: parseStretch(fields.get("at") ?? ""),
    measured: parseStretch(fields.get("measured") ?? ""),
    marks: parseMarks(fields.get("marks") ?? ""),
    find: fields.get("find") ?? "",
    rank: fields.get("rank") || null,
    seen: /^\d{1,15}$/.test(fields.get("seen") ?? "") ? Number(fields.get("seen")) : null,
  };
}

/** The hash of a place, with its `#`; empty if nothing is chosen. */
export function formatHash(place: Place): string {
  const fields = new URLSearchParams();
  if (place.tab !== "live") {
    fields.set("view", place.tab);
  }
  if (place.run !== null) {
    fields.set("run", place.run);
  }
  if (place.group !== "") {
    fields.set("group", place.group);
  }
  if (place.cycle !== null) {
    fields.set("cycle", String(place.cycle));
  }
  if (place.theme !== null) {
    fields.set("theme", place.theme);
  }
  if (place.baselineMs !== null) {
    fields.set("baseline_ms", String(place.baselineMs));
  }
  if (place.batch !== null) {
    fields.set("batch", String(place.batch));
  }
  if (place.setting !== null) {
    fields.set("setting", place.setting);
  }
  putLook(fields, place.look);
  if (place.bar !== null) {
    fields.set("bar", formatBar(place.bar));
  }
  if (place.request !== null) {
    fields.set("request", place.request);
  }
  for (const key of ["one", "other"] as const) {
    const value = place[key];
    if (value !== null) {
      fields.set(key, value);
    }
  }
  for (const [name, value] of remainingFields(place)) {
    if (value !== "") {
      fields.set(name, value);
    }
  }
  const text = fields.toString();
  return text === "" ? "" : `#${text}`;
}

function remainingFields(place: Place): readonly (readonly [name: string, value: string])[] {
  return [
    ["layout", place.layout === "rows" ? "rows" : ""],
    ["rank", place.rank ?? ""],
    ["at", formatStretch(place.stretch)],
    ["measured", formatStretch(place.measured)],
    ["marks", formatMarks(place.marks)],
    ["find", place.find],
    ["seen", place.seen === null ? "" : String(place.seen)],
  ];
}
