// Fields of parsed JSON, taken only if they are of the right type.

/** A parsed object. */
export type Json = Readonly<Record<string, unknown>>;

/** The server sent something that is not in the contract. */
export class WireError extends Error {
  override readonly name = "WireError";
}

/** The value as an object. */
export function object(value: unknown, what: string): Json {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new WireError(`${what} is no object`);
  }
  return value as Json;
}

/** The value as a list. */
export function list(value: unknown, what: string): readonly unknown[] {
  if (!Array.isArray(value)) {
    throw new WireError(`${what} is no list`);
  }
  return value;
}

/** A field that is a list of objects. */
export function objects(from: Json, key: string): readonly Json[] {
  return list(from[key], key).map((each) => object(each, `one of ${key}`));
}

/** A field that is a list of texts. */
export function texts(from: Json, key: string): readonly string[] {
  return list(from[key], key).map(String);
}

/** A field that is a list of texts, empty if absent. */
export function maybeTexts(from: Json, key: string): readonly string[] {
  return from[key] === undefined || from[key] === null ? [] : texts(from, key);
}

/** A field that is a list of numbers. */
export function numbers(from: Json, key: string): readonly number[] {
  return list(from[key], key).map(Number);
}

/** A text; `missing` stands for one that is absent, without it one has to be there. */
export function text(from: Json, key: string, missing?: string): string {
  const value = from[key] ?? missing;
  if (typeof value !== "string") {
    throw new WireError(`${key} is no text`);
  }
  return value;
}

/** A number, as `text`. */
export function number(from: Json, key: string, missing?: number): number {
  const value = from[key] ?? missing;
  if (typeof value !== "number") {
    throw new WireError(`${key} is no number`);
  }
  return value;
}

/** Whether something is marked; absent is no. */
export function flag(from: Json, key: string): boolean {
  return maybeFlag(from, key) ?? false;
}

/** A text, null if absent. */
export function maybeText(from: Json, key: string): string | null {
  return from[key] === undefined || from[key] === null ? null : text(from, key);
}

/** A number, null if absent. */
export function maybeNumber(from: Json, key: string): number | null {
  return from[key] === undefined || from[key] === null ? null : number(from, key);
}

/** Yes or no, null if absent. */
export function maybeFlag(from: Json, key: string): boolean | null {
  const value = from[key] ?? null;
  if (value !== null && typeof value !== "boolean") {
    throw new WireError(`${key} is neither true nor false`);
  }
  return value;
}
