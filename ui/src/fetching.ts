// One answer of the server's API: its JSON, or a sentence that says why there is none.

/** What was asked for, or why it did not come. */
export type Answer<T> = { readonly value: T } | { readonly failure: string };

/** Asks for a path below `api/`. `decode` reads the JSON and throws at what it does not know. */
export async function fetched<T>(
  path: string,
  decode: (body: unknown) => T,
  signal: AbortSignal,
): Promise<Answer<T>> {
  const response = await fetch(`api/${path}`, { signal }).catch(() => null);
  return answered(response, decode, "spectrace does not answer. Read again when it is back.");
}

/** What a response says; `silent` is said where there is none. */
export async function answered<T>(
  response: Response | null,
  decode: (body: unknown) => T,
  silent: string,
): Promise<Answer<T>> {
  if (response === null) {
    return { failure: silent };
  }
  const body: unknown = await response.json().catch(() => null);
  if (!response.ok) {
    const detail = (body as { detail?: unknown } | null)?.detail;
    const said = typeof detail === "string" ? detail : `The server answered ${response.status}.`;
    return { failure: said };
  }
  try {
    return { value: decode(body) };
  } catch {
    return { failure: "The answer is of a form that this page does not know. Reload the page." };
  }
}
