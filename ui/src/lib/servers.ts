// Servers of this machine before they are attached to, and what attaching does to one.
import { enumerate } from "./format.ts";
import { maybeText, number, object, objects, text, texts } from "./json.ts";
import { isTraced, modelOf } from "./run.ts";
import type { RunState } from "./wire.ts";

/** A server that runs where spectrace does. */
export interface FoundServer {
  readonly run: string;
  readonly pid: number;
  readonly command: readonly string[];
  /** Such as "sglang 0.5.23"; empty where it is not known. */
  readonly engine: string;
  readonly ranks: readonly string[];
  /** How the probe would go in. */
  readonly way: string;
  /** Who traces it and decides how, such as "process 41"; empty where nobody does. */
  readonly reader: string;
  /** How it is timed; null where it is not traced. */
  readonly mode: string | null;
  /** What keeps spectrace out, a sentence; empty for nothing. */
  readonly obstacle: string;
  /** What mends that. */
  readonly mend: string;
}

/** Reads the servers that were found. */
export function decodeServers(value: unknown): FoundServer[] {
  return objects(object(value, "answer"), "servers").map((one) => ({
    run: text(one, "run"),
    pid: number(one, "pid"),
    command: texts(one, "command"),
    engine: text(one, "engine", ""),
    ranks: texts(one, "ranks"),
    way: text(one, "way", ""),
    reader: text(one, "reader", ""),
    mode: maybeText(one, "mode"),
    obstacle: text(one, "obstacle", ""),
    mend: text(one, "mend", ""),
  }));
}

/** Reads which run a server that was attached to is. */
export function decodeAttached(value: unknown): string {
  return text(object(value, "answer"), "run");
}

/** The run of a server that this page traces; null where it does not. */
export function tracedHere(found: FoundServer, runs: readonly RunState[]): RunState | null {
  const run = runs.find((one) => one.run === found.run);
  return run?.source === "attached" && isTraced(run) ? run : null;
}

/** Its model, else its release. */
export function nameOf(found: FoundServer): string {
  return modelOf(found.command) || found.engine || "Release not known";
}

/** "Process 41207, sglang 0.5.23, ranks TP0 and TP1.": what its name does not say. */
export function partsInWords(found: FoundServer): string {
  const engine = found.engine === nameOf(found) ? "" : found.engine;
  const ranks = `${found.ranks.length === 1 ? "rank" : "ranks"} ${enumerate(found.ranks)}`;
  return `${[`Process ${found.pid}`, engine, ranks].filter(Boolean).join(", ")}.`;
}

/** Whether it is traced, and by whom. */
export function statusInWords(found: FoundServer, here: boolean): string {
  if (here) {
    return "Traced on this page.";
  }
  if (found.reader) {
    return `Traced by ${found.reader}${found.mode ? `, timing ${found.mode}` : ""}.`;
  }
  if (found.way === "joined") {
    return "A spectrace that ended has left its probe there, and nobody reads.";
  }
  if (found.way === "plugin" || found.way === "loop") {
    return "Not traced: the probe that it brought itself sleeps.";
  }
  // Another release may trace it, which is what stands in the way then.
  return found.obstacle ? "Not traced by this release of spectrace." : "Not traced.";
}

const ONCE = "Each is held up once, for a few ms, and this page then says for how long.";
const WAYS: Readonly<Record<string, string>> = {
  ptrace: `By ptrace: the main thread of each rank stops for a fraction of a ms and then loads the probe itself. ${ONCE}`,
  "remote-exec": `By sys.remote_exec: nothing stops, the main thread of each rank loads the probe itself. ${ONCE}`,
  gdb: "By gdb: it stops each rank while it puts the probe in, which takes longer than the few ms of other ways. This page then says for how long.",
  plugin: "The plugin that sleeps in it is woken: nothing is put in, and nothing stops.",
  loop: "The loop traces itself as soon as somebody reads: nothing is put in, and nothing stops.",
  joined: "The probe is there already and is taken over: nothing is put in, and nothing stops.",
};

/** What attaching does to a server. */
export function costInWords(found: FoundServer): string {
  if (found.reader) {
    return `${capital(found.reader)} traces this server and decides how it is timed. This page reads along: nothing is put in, and nothing stops.`;
  }
  return WAYS[found.way] ?? ONCE;
}

/** How it is undone. */
export function undoInWords(found: FoundServer): string {
  return found.reader
    ? "When this page leaves, the probe stays for the other one."
    : "When this page leaves, or spectrace ends, the probe is taken out and every function put back.";
}

function capital(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
