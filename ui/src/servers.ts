// The servers of this machine that the page found, and the wish to attach to one or to leave it.
import { batch, effect, type Signal, signal } from "@preact/signals";
import { fetched } from "./fetching.ts";
import { decodeAttached, decodeServers, type FoundServer } from "./lib/servers.ts";
import { chooseRun, server, tab } from "./state.ts";
import { wished } from "./wishing.ts";

const PATIENCE_MS = 30_000; // a machine with many processes takes its time to look through

/** What the dialog shows: all servers, or the question about one of them. */
export type Asked =
  | { readonly kind: "list" }
  | { readonly kind: "attach" | "leave"; readonly server: FoundServer };

/** Null while the dialog is closed. */
export const asked: Signal<Asked | null> = signal(null);
/** What was found last; null before anybody looked. */
export const found: Signal<readonly FoundServer[] | null> = signal(null);
export const looking: Signal<boolean> = signal(false);
/** Why the last look failed, in a sentence; empty where it did not. */
export const lookFailure: Signal<string> = signal("");
/** The run that was attached to and is not known yet; null without any. */
const coming: Signal<string | null> = signal(null);

/** Looks which servers run there; nothing while that is under way. */
export async function lookForServers(): Promise<void> {
  if (looking.value) {
    return;
  }
  looking.value = true;
  const answer = await fetched("servers", decodeServers, AbortSignal.timeout(PATIENCE_MS));
  batch(() => {
    looking.value = false;
    found.value = "value" in answer ? answer.value : found.value;
    lookFailure.value = "failure" in answer ? answer.failure : "";
  });
}

/** Attaches; its run is shown as soon as it is known. Gives why not, empty where it did. */
export async function attachTo({ run, pid }: FoundServer, mode: string | null) {
  const wish = mode === null ? { run } : { run, mode };
  const answer = await wished(`servers/${pid}/attach`, wish, decodeAttached);
  coming.value = "value" in answer ? answer.value : null;
  return "failure" in answer ? answer.failure : "";
}

/** Has tracing of a run end. Gives why not, empty where it does. */
export async function leave(run: string): Promise<string> {
  const answer = await wished(`runs/${encodeURIComponent(run)}/detach`, {}, () => null);
  return "failure" in answer ? answer.failure : "";
}

/** Shows the run that was attached to when it has come. */
export function startFollowingAttached(): void {
  effect(() => {
    const run = coming.value;
    if (run !== null && server.value?.runs.some((one) => one.run === run && isFresh(one.state))) {
      batch(() => {
        coming.value = null;
        asked.value = null;
        tab.value = "live";
        chooseRun(run);
      });
    }
  });
}

/** Whether it is no longer the end of the time before. */
function isFresh(state: string): boolean {
  return state !== "detached" && state !== "server_gone";
}
