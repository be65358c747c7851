// The export that this page asked for last, and the question how far it is.
import { type Signal, signal } from "@preact/signals";
import { fetched } from "./fetching.ts";
import type { Range } from "./lib/axis.ts";
import { decodeExport, decodeFormats, type Export, exportWish } from "./lib/saving.ts";
import { wished } from "./wishing.ts";

const ASK_MS = 400;

/** Whether the dialog is open. */
export const saving: Signal<boolean> = signal(false);
/** The formats that there are; none before they were asked for. */
export const formats: Signal<readonly string[]> = signal([]);
/** The export that was asked for last; null without any. */
export const exported: Signal<Export | null> = signal(null);
/** Why nothing was made, in a sentence. */
export const exportRefused: Signal<string> = signal("");

/** Asks which formats there are, once. */
export async function askFormats(): Promise<void> {
  if (formats.value.length > 0) {
    return;
  }
  const answer = await fetched("exports", decodeFormats, AbortSignal.timeout(10_000));
  if ("value" in answer) {
    formats.value = answer.value;
  } else {
    exportRefused.value = answer.failure;
  }
}

/** Has a file made; what was made before is dropped. */
export async function makeFile(run: string, format: string, range: Range | null): Promise<void> {
  exportRefused.value = "";
  const path = `runs/${encodeURIComponent(run)}/exports`;
  take(await wished(path, exportWish(format, range), decodeExport));
}

/** Ends what is being made, or drops what was. */
export async function dropFile(): Promise<void> {
  const id = exported.value?.id;
  exported.value = null;
  exportRefused.value = "";
  if (id !== undefined) {
    await fetch(`api/exports/${encodeURIComponent(id)}`, { method: "DELETE" }).catch(() => null);
  }
}

function take(answer: { readonly value: Export } | { readonly failure: string }): void {
  if ("failure" in answer) {
    exported.value = null;
    exportRefused.value = answer.failure;
    return;
  }
  exported.value = answer.value;
  exportRefused.value = answer.value.problem;
  if (answer.value.stage !== "failed") {
    // Also of one that is ready: it is gone some minutes later.
    setTimeout(() => ask(answer.value.id), answer.value.stage === "making" ? ASK_MS : 10 * ASK_MS);
  }
}

async function ask(id: string): Promise<void> {
  if (exported.value?.id !== id) {
    return; // another was asked for, or none is wanted any more
  }
  const path = `exports/${encodeURIComponent(id)}`;
  const answer = await fetched(path, decodeExport, AbortSignal.timeout(10_000));
  if (exported.value?.id === id) {
    take(answer);
  }
}
