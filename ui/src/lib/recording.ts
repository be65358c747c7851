// What is recorded into a file where spectrace runs: how much it is, and what it would take.
import { bytes, clock, plural } from "./format.ts";
import { flag, number, object, text } from "./json.ts";

/** A recording that goes on, or one that has ended. */
export interface Recording {
  readonly name: string;
  readonly active: boolean;
  /** UNIX ms by the clock of spectrace. */
  readonly sinceMs: number;
  readonly cycles: number;
  readonly bytes: number;
  readonly maxBytes: number;
  readonly lost: number;
  /** The oldest cycles went, to keep the size. */
  readonly cut: boolean;
  readonly problem: string;
}

/** Sizes that can be chosen, in bytes. */
export const SIZES: readonly number[] = [100e6, 1e9, 10e9, 100e9];

/** Reads a recording; null where there is none, or one that is not understood. */
export function decodeRecording(value: unknown): Recording | null {
  if (value === null || value === undefined) {
    return null;
  }
  const found = object(value, "recording");
  return {
    name: text(found, "name"),
    active: flag(found, "active"),
    sinceMs: number(found, "since_ms", 0),
    cycles: number(found, "cycles", 0),
    bytes: number(found, "bytes", 0),
    maxBytes: number(found, "max_bytes", 0),
    lost: number(found, "lost", 0),
    cut: flag(found, "cut"),
    problem: text(found, "problem", ""),
  };
}

/** How far a recording is, or what came of it. */
export function recordingInWords(found: Recording): string {
  const amount = `${plural(found.cycles, "cycle")}, ${bytes(found.bytes)}`;
  const size = bytes(found.maxBytes);
  const gone = found.cut ? ` The oldest cycles went, to keep below ${size}.` : "";
  const lost = found.lost > 0 ? ` ${plural(found.lost, "cycle")} could not be stored.` : "";
  if (found.active) {
    return `Recording into ${found.name} since ${clock(found.sinceMs)}: ${amount}.${gone}${lost}`;
  }
  return found.bytes > 0
    ? `${found.name} is there, in the folder where spectrace runs: ${amount}.${gone}${lost}`
    : "";
}

/** What a recording takes in a minute, in bytes; null where nothing tells. */
export function bytesPerMinute(
  stored: { readonly cycles: number; readonly bytes: number },
  cyclesPerS: number | null,
): number | null {
  return stored.cycles > 0 && cyclesPerS !== null && cyclesPerS > 0
    ? (stored.bytes / stored.cycles) * cyclesPerS * 60
    : null;
}

/** A name for a file that begins now. */
export function newName(nowMs: number): string {
  const now = new Date(nowMs);
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${now.getFullYear()}${two(now.getMonth() + 1)}${two(now.getDate())}`;
  return `run-${day}-${clock(nowMs).replaceAll(":", "")}`;
}
