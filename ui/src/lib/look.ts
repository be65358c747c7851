// Which stored cycles a reader looks at: kept in the address of the page, asked for of the server.
import type { LaneName } from "./lanes.ts";

const MOST_TEXT = 256;

/** What is picked; null leaves a question open. */
export interface Look {
  readonly group: string;
  readonly rank: string | null;
  readonly kind: string | null;
  readonly mode: string | null;
  readonly batch: number | null;
  readonly steps: number | null;
  /** How far to look back from the newest cycle, in s. */
  readonly lastS: number | null;
}

/** A stretch of the times of a phase; null is no limit. */
export interface Bar {
  readonly phase: string;
  readonly lane: LaneName;
  readonly fromNs: number | null;
  readonly toNs: number | null;
}

/** Everything that is kept, and what most cycles are. */
export const EVERYTHING: Look = {
  group: "",
  rank: null,
  kind: null,
  mode: null,
  batch: null,
  steps: null,
  lastS: null,
};

/** By what name each stands in the address. */
const TEXTS = { group: "of", rank: "of_rank", kind: "kind", mode: "timing" } as const;
const NUMBERS = { batch: "size", steps: "steps", lastS: "last_s" } as const;

/** Reads what is picked out of the fields of an address; what does not make sense is left out. */
export function parseLook(fields: URLSearchParams): Look {
  const text = (key: keyof typeof TEXTS) => textOf(fields, TEXTS[key]);
  const number = (key: keyof typeof NUMBERS) => wholeOf(fields.get(NUMBERS[key]));
  const lastS = number("lastS");
  return {
    group: text("group") ?? "",
    rank: text("rank"),
    kind: text("kind"),
    mode: text("mode"),
    batch: number("batch"),
    steps: number("steps"),
    lastS: lastS === 0 ? null : lastS,
  };
}

/** Puts what is picked into the fields of an address; nothing of what is left open. */
export function putLook(fields: URLSearchParams, look: Look): void {
  for (const [key, name] of [...Object.entries(TEXTS), ...Object.entries(NUMBERS)]) {
    const value = look[key as keyof Look];
    if (value !== null && value !== "") {
      fields.set(name, String(value));
    }
  }
}

/** What to ask the server: its own names for the same. */
export function lookQuery(look: Look): URLSearchParams {
  const query = new URLSearchParams();
  const named = { ...look, last_s: look.lastS, lastS: null };
  for (const [name, value] of Object.entries(named)) {
    if (value !== null && value !== "") {
      query.set(name, String(value));
    }
  }
  return query;
}

/** Whether two pick the same. */
export function isSameLook(one: Look, other: Look): boolean {
  return lookQuery(one).toString() === lookQuery(other).toString();
}

/** Reads `verify.forward,device,28900000,28950000`; null if it is none. */
export function parseBar(text: string | null): Bar | null {
  const [phase = "", lane, from = "", to = "", ...rest] = (text ?? "").split(",");
  const known = lane === "host" || lane === "device";
  if (!(/^[a-z_. ]{1,32}$/.test(phase) && known) || rest.length > 0) {
    return null;
  }
  const [fromNs, toNs] = [wholeOf(from), wholeOf(to)];
  const wrong = (from !== "" && fromNs === null) || (to !== "" && toNs === null);
  return wrong ? null : { phase, lane, fromNs, toNs };
}

/** The same text again. */
export function formatBar({ phase, lane, fromNs, toNs }: Bar): string {
  return [phase, lane, fromNs ?? "", toNs ?? ""].join(",");
}

/** Whether two are the same stretch of the same phase. */
export function isSameBar(one: Bar | null, other: Bar | null): boolean {
  return one === other || (one !== null && other !== null && formatBar(one) === formatBar(other));
}

/** What to ask the server for the cycles of a bar; `before` goes on where an answer ended. */
export function barQuery(look: Look, bar: Bar, before: number | null): URLSearchParams {
  const query = lookQuery(look);
  const fields = { phase: bar.phase, lane: bar.lane, from_ns: bar.fromNs, to_ns: bar.toNs, before };
  for (const [name, value] of Object.entries(fields)) {
    if (value !== null) {
      query.set(name, String(value));
    }
  }
  return query;
}

/** A text of a sensible length, null if there is none. */
export function textOf(fields: URLSearchParams, name: string): string | null {
  const text = fields.get(name);
  return text !== null && text !== "" && text.length <= MOST_TEXT ? text : null;
}

function wholeOf(text: string | null): number | null {
  const value = text !== null && /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(value) ? value : null;
}
