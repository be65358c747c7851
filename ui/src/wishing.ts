// Asks spectrace to do something, and says what came of it.
import { type Answer, answered } from "./fetching.ts";

/** Asks by POST for a path below `api/`. `decode` reads the JSON of the answer. */
export async function wished<T>(
  path: string,
  body: object,
  decode: (answer: unknown) => T,
): Promise<Answer<T>> {
  const response = await fetch(`api/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  }).catch(() => null);
  return answered(response, decode, "spectrace does not answer: nothing was asked for.");
}
