// Numbers, times and ids as text, by the rules of the page.

/** What stands where a value is missing. */
export const MISSING = "–";

const MINUS = "−";
const THOUSANDS = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const NS_PER_MS = 1e6;
const MS_PER_S = 1000;

/** A time in ms with its unit: whole µs below 0.1 ms, s from 1000 ms. */
export function ms(value: number): string {
  const size = Math.abs(value);
  const sign = value < 0 ? MINUS : "";
  if (size < 0.0995) {
    return `${sign}${Math.round(size * 1000)} µs`;
  }
  if (size >= 999.95) {
    return `${sign}${fixed(size / MS_PER_S, 2)} s`;
  }
  return `${sign}${decimals(size)} ms`;
}

/** A time in ns with the unit that suits it. */
export function ns(value: number): string {
  return ms(value / NS_PER_MS);
}

/** A time in ms for a column whose head carries the unit. */
export function msCell(value: number | null): string {
  if (value === null) {
    return MISSING;
  }
  const size = Math.abs(value);
  if (size > 0 && size < 0.005) {
    return "< 0.01";
  }
  const sign = value < 0 ? MINUS : "";
  return size < 999.95 ? sign + decimals(size) : sign + THOUSANDS.format(size);
}

/** How late something was, always with two decimals: such values stand below each other. */
export function lateMs(value: number): string {
  const size = Math.abs(value);
  const text = size < 999.995 ? `${size.toFixed(2)} ms` : `${fixed(size / MS_PER_S, 2)} s`;
  return `${value < 0 ? MINUS : "+"}${text}`;
}

/** A whole number with commas. */
export function whole(value: number | null): string {
  return value === null ? MISSING : THOUSANDS.format(value).replace("-", MINUS);
}

/** A number with so many decimals, and with commas. */
export function fixed(value: number, places: number): string {
  const [integer = "", fraction] = Math.abs(value).toFixed(places).split(".");
  const grouped = (value < 0 ? MINUS : "") + THOUSANDS.format(Number(integer));
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

/** A length in tokens with two decimals. */
export function length(value: number | null): string {
  return value === null ? MISSING : value.toFixed(2);
}

/** A rate: whole from 10 on, one decimal below. */
export function rate(value: number | null): string {
  if (value === null) {
    return MISSING;
  }
  return value >= 9.95 || value === 0 ? THOUSANDS.format(value) : value.toFixed(1);
}

/** A share from 0 to 1 in whole percent; one that is not 0 is never "0 %". */
export function share(value: number | null): string {
  if (value === null) {
    return MISSING;
  }
  return value > 0 && value < 0.005 ? "< 1 %" : `${(value * 100).toFixed(0)} %`;
}

/** A share from 0 to 1 for a table: one decimal below 10 %. */
export function shareCell(value: number | null): string {
  if (value === null) {
    return MISSING;
  }
  if (value > 0 && value < 0.0005) {
    return "< 0.1 %";
  }
  return value > 0 && value < 0.0995 ? `${(value * 100).toFixed(1)} %` : share(value);
}

/** What tracing costs, a share from 0 to 1: with one decimal, for it is small. */
export function costShare(value: number | null): string {
  if (value === null || value === 0 || value >= 0.0995) {
    return share(value);
  }
  return value < 0.0005 ? "< 0.1 %" : `${(value * 100).toFixed(1)} %`;
}

/** A clock time of 24 h, with ms on demand. */
export function clock(unixMs: number, withMs = false): string {
  const time = new Date(unixMs);
  const part = (value: number, digits = 2) => String(value).padStart(digits, "0");
  const seconds = `${part(time.getHours())}:${part(time.getMinutes())}:${part(time.getSeconds())}`;
  return withMs ? `${seconds}.${part(time.getMilliseconds(), 3)}` : seconds;
}

/** An id shortened in the middle to at most `most` characters. */
export function shortId(id: string, most = 12): string {
  if (id.length <= most) {
    return id;
  }
  const tail = Math.floor((most - 1) / 3);
  return `${id.slice(0, most - 1 - tail)}…${id.slice(-tail)}`;
}

/** A long time in the fewest letters, for where `ms` does not fit. */
export function msShort(value: number): string {
  const size = Math.abs(value) / MS_PER_S;
  const text = size < 1e4 ? size.toFixed(0) : size.toExponential(1).replace("e+", "e");
  return `${value < 0 ? MINUS : ""}${text} s`;
}

/**
 * As much of a text as fits into `room`, with "…" where it was cut; empty where not even one
 * letter fits. `measure` says how wide a text is.
 */
export function fitText(text: string, room: number, measure: (text: string) => number): string {
  if (measure(text) <= room) {
    return text;
  }
  const letters = [...text];
  const cut = (count: number) => `${letters.slice(0, count).join("").trimEnd()}…`;
  let fits = 0;
  let tooMany = letters.length;
  while (tooMany - fits > 1) {
    const middle = Math.floor((fits + tooMany) / 2);
    if (measure(cut(middle)) <= room) {
      fits = middle;
    } else {
      tooMany = middle;
    }
  }
  return fits > 0 ? cut(fits) : "";
}

/** A size of data in decimal units. */
export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${size < 9.95 && unit > 0 ? size.toFixed(1) : size.toFixed(0)} ${units[unit]}`;
}

/** A span of time in the largest unit that divides it well. */
export function span(seconds: number): string {
  if (seconds < 120) {
    return `${trim(seconds)} s`;
  }
  return seconds < 7200 ? `${trim(seconds / 60)} min` : `${trim(seconds / 3600)} h`;
}

/** A count with its noun, in the singular for 1. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

/** Names in a row: "a", "a and b", "a, b and c". */
export function enumerate(names: readonly string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

function decimals(size: number): string {
  return size < 9.995 ? size.toFixed(2) : size.toFixed(1);
}

function trim(value: number): string {
  return String(Math.round(value * 10) / 10);
}
