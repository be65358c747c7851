// A value with its confidence interval: read, and written.
import { fixed, MISSING } from "./format.ts";
import { type Json, maybeNumber, number, object } from "./json.ts";

/** Half of a share's interval below which one decimal of its percent means something. */
const NARROW = 0.025;

/** A value in the unit of the field that holds it; a limit that the data do not give is null. */
export interface Estimate {
  readonly value: number;
  readonly low: number | null;
  readonly high: number | null;
}

/** Reads an estimate. */
export function decodeEstimate(value: unknown): Estimate {
  const estimate = object(value, "estimate");
  return {
    value: number(estimate, "value"),
    low: maybeNumber(estimate, "low"),
    high: maybeNumber(estimate, "high"),
  };
}

/** An estimate, null if absent. */
export function maybeEstimate(from: Json, key: string): Estimate | null {
  const value = from[key] ?? null;
  return value === null ? null : decodeEstimate(value);
}

/** Its limits where it has both and they differ, else null. */
export function reachOf({ low, high }: Estimate): readonly [low: number, high: number] | null {
  return low === null || high === null || low === high ? null : [low, high];
}

/** "2.10 (2.05–2.15)"; the value alone where there is no interval. */
export function estimateText(estimate: Estimate | null, places = 2): string {
  if (estimate === null) {
    return MISSING;
  }
  const reach = reachOf(estimate);
  const limits = reach && ` (${reach.map((limit) => rounded(limit, places)).join("–")})`;
  return `${rounded(estimate.value, places)}${limits ?? ""}`;
}

/** A difference with its sign, "+1.31 (+1.30 to +1.32)". */
export function signedText(estimate: Estimate, places = 2): string {
  const shown = (value: number) => `${value > 0 ? "+" : ""}${rounded(value, places)}`;
  const reach = reachOf(estimate);
  return `${shown(estimate.value)}${reach ? ` (${reach.map(shown).join(" to ")})` : ""}`;
}

/** A share from 0 to 1 in percent, "12 % (9–15)", with one decimal where its interval is narrow. */
export function percentText(estimate: Estimate | null): string {
  if (estimate === null) {
    return MISSING;
  }
  const reach = reachOf(estimate);
  const places = reach && (reach[1] - reach[0]) / 2 < NARROW ? 1 : 0;
  const shown = (share: number) => rounded(share * 100, places);
  const limits = reach && ` (${reach.map(shown).join("–")})`;
  return `${shown(estimate.value)} %${limits ?? ""}`;
}

/** What rounds to 0 has no sign. */
function rounded(value: number, places: number): string {
  return fixed(Number(value.toFixed(places)) === 0 ? 0 : value, places);
}
