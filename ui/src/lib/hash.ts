// The address of the page: what is chosen stands in the URL's hash.
import type { Theme } from "./tokens.ts";

/** What the hash can carry. */
export interface Place {
  readonly run: string | null;
  readonly group: string;
  readonly cycle: number | null;
  /** The override of the system's setting. */
  readonly theme: Theme | null;
}

/** Reads `#run=…&cycle=…`; what does not make sense is left out. */
export function parseHash(hash: string): Place {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const cycle = fields.get("cycle") ?? "";
  const theme = fields.get("theme");
  return {
    run: fields.get("run") || null,
    group: fields.get("group") ?? "",
    cycle: /^\d+$/.test(cycle) ? Number(cycle) : null,
    theme: theme === "light" || theme === "dark" ? theme : null,
  };
}

/** The hash of a place, with its `#`; empty if nothing is chosen. */
export function formatHash(place: Place): string {
  const fields = new URLSearchParams();
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
  const text = fields.toString();
  return text === "" ? "" : `#${text}`;
}
