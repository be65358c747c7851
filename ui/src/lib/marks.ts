// What a reader points at on the axis of time, marks and stretches, and how the address names it.
import type { Anchor, Anchored } from "./timeline.ts";

const FIRST = "A".charCodeAt(0);
const LETTERS = Array.from({ length: 26 }, (_, place) => String.fromCharCode(FIRST + place));

/** A letter at a time. */
export interface Mark extends Anchor {
  readonly letter: string;
}

/** The marks with one more at `at`, by the first letter that is free; the same if none is. */
export function withMark(marks: readonly Mark[], at: Anchor): readonly Mark[] {
  const letter = LETTERS.find((each) => marks.every((mark) => mark.letter !== each));
  return letter === undefined ? marks : [...marks, { ...at, letter }];
}

/** The marks without one. */
export function withoutMark(marks: readonly Mark[], letter: string): readonly Mark[] {
  return marks.filter((mark) => mark.letter !== letter);
}

/** Writes marks for an address: `A4711~1.250`, with the group where there is one. */
export function formatMarks(marks: readonly Mark[]): string {
  return marks
    .map(({ letter, n, offsetMs, group }) =>
      [`${letter}${n}`, offsetMs.toFixed(3), ...(group ? [encodeURIComponent(group)] : [])].join(
        "~",
      ),
    )
    .join(" ");
}

/** Reads what `formatMarks` wrote; what makes no sense is left out. */
export function parseMarks(text: string): readonly Mark[] {
  const found = text.split(" ").flatMap((part): Mark[] => {
    const match = /^([A-Z])(\d{1,15})~(-?\d{1,12}(?:\.\d{1,6})?)(?:~(.*))?$/u.exec(part);
    const group = match && decoded(match[4] ?? "");
    return match && group !== null
      ? [{ letter: match[1] ?? "", n: Number(match[2]), offsetMs: Number(match[3]), group }]
      : [];
  });
  return found.filter((mark, place) => found.findIndex((m) => m.letter === mark.letter) === place);
}

/** Writes a stretch for an address: `4711~1.250~35.000`; empty for none. */
export function formatStretch(stretch: Anchored | null): string {
  if (!stretch) {
    return "";
  }
  const { n, offsetMs, lengthMs, group } = stretch;
  const parts = [String(n), offsetMs.toFixed(3), lengthMs.toFixed(3)];
  return [...parts, ...(group ? [encodeURIComponent(group)] : [])].join("~");
}

/** Reads what `formatStretch` wrote; null where it makes no sense. */
export function parseStretch(text: string): Anchored | null {
  const match = /^(\d{1,15})~(-?\d{1,12}(?:\.\d{1,6})?)~(\d{1,12}(?:\.\d{1,6})?)(?:~(.*))?$/u.exec(
    text,
  );
  const group = match && decoded(match[4] ?? "");
  const lengthMs = Number(match?.[3]);
  return match && group !== null && lengthMs > 0
    ? { n: Number(match[1]), offsetMs: Number(match[2]), lengthMs, group }
    : null;
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
