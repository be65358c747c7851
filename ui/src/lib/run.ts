// What a run is called, and what its state means in words.
import { enumerate, plural, shortId, whole } from "./format.ts";
import type { RunState, Summary } from "./wire.ts";

const MOST_OF_NAME = 40;
const MODEL_FLAGS = ["--served-model-name", "--model-path", "--model"];

/** The model of a run by its command line, else the name of the engine. */
export function modelName(run: RunState): string {
  return modelOf(run.command) || run.engine || `pid ${run.server_pid}`;
}

/** The model that a command line names; empty where it names none. */
export function modelOf(command: readonly string[]): string {
  for (const flag of MODEL_FLAGS) {
    const value = flagValue(command, flag);
    if (value) {
      return value.replace(/\/+$/, "").split("/").at(-1) || value;
    }
  }
  return "";
}

/** "gpu-07:41207": the machine and the server's process. */
export function address(run: RunState): string {
  return run.host ? `${run.host}:${run.server_pid}` : `pid ${run.server_pid}`;
}

/** "EAGLE3, 5 steps, 6 tokens": as much of it as is known. */
export function algorithm(run: RunState, summary: Summary | null): string {
  const steps = summary?.steps_seen ?? [];
  const tokens = summary?.draft_tokens_seen ?? [];
  return [
    run.algorithm.toLowerCase() === "none" ? "" : run.algorithm,
    steps.length > 0 ? seen(steps, "step") : "",
    tokens.length > 0 ? seen(tokens, "token") : "",
  ]
    .filter(Boolean)
    .join(", ");
}

/** Records, cycles and exports that were lost, all together. */
export function lostTotal({ lost }: RunState): number {
  return lost.records + lost.missing + lost.export + lost.stored;
}

/** What was lost, in words; empty if nothing was. */
export function lostInWords(run: RunState): string {
  const { records, missing, export: exported, stored } = run.lost;
  const parts = [
    records > 0 ? `${plural(records, "record")} overwritten in the ring before they were read` : "",
    missing > 0 ? `${plural(missing, "cycle")} that not every rank reported` : "",
    stored > 0 ? `${plural(stored, "cycle")} that could not be stored` : "",
    exported > 0 ? `${plural(exported, "span")} that an exporter could not deliver` : "",
  ].filter(Boolean);
  return parts.length > 0 ? `${enumerate(parts)}.` : "";
}

/** Why nothing comes from a run; null while something does. */
export function endInWords(run: RunState): { head: string; text: string } | null {
  if (run.source === "file") {
    return { head: run.message || "Read from a recording.", text: "" };
  }
  const kept = "What was collected stays.";
  const text = (...facts: string[]) => [...facts, beyondState(run), kept].filter(Boolean).join(" ");
  switch (run.state) {
    case "server_gone":
      return { head: "The server ended.", text: text() };
    case "detached":
      return { head: "Detached.", text: text("The server goes on.") };
    case "lost_sender":
      return { head: "The sender is silent.", text: text() };
    default:
      return null;
  }
}

/** Whether a run can still send cycles; one whose sender is silent can. */
export function isTraced(run: RunState): boolean {
  return run.source !== "file" && run.state !== "server_gone" && run.state !== "detached";
}

/** Whether sampling may have left out cycles of a run: of one that is traced here that is known. */
export function isSampled(run: RunState | null): boolean {
  return run?.source !== "attached" || run.sample_every > 1 || run.skipped.cycles > 0;
}

/** The ranks that do not report, in a sentence; null if all do. */
export function silentRanks(run: RunState): string | null {
  const silent = run.ranks
    .filter((rank) => !rank.reporting)
    .map((rank) => shortId(rank.name, MOST_OF_NAME));
  if (silent.length === 0 || !isTraced(run)) {
    return null;
  }
  const verb = silent.length === 1 ? "does" : "do";
  return `${enumerate(silent)} ${verb} not report. Cycles are drawn without ${silent.length === 1 ? "it" : "them"}.`;
}

/** Sentences of the server's message that say what the page says anyway, by state. */
const RESTATED: Readonly<Record<string, RegExp>> = {
  server_gone: /\bserver\b.*\b(?:ended|exited|died|gone|stopped)\b/i,
  detached: /\b(?:detached|tracing (?:was |has )?ended|server goes on)\b/i,
};
const RESTATED_KEPT = /\b(?:measured|collected)\b.*\b(?:here|stays|kept)\b/i;

/** What the server's message says beyond the run's state: each thing is to be said once. */
function beyondState({ message, state }: RunState): string {
  return message
    .split(/(?<=[.!?])\s+/)
    .filter((sentence) => !(RESTATED[state]?.test(sentence) || RESTATED_KEPT.test(sentence)))
    .join(" ");
}

function seen(values: readonly number[], noun: string): string {
  if (values.length === 1) {
    return plural(values[0] ?? 0, noun);
  }
  return `${whole(values[0] ?? 0)}–${whole(values.at(-1) ?? 0)} ${noun}s`;
}

function flagValue(command: readonly string[], flag: string): string | null {
  for (const [place, word] of command.entries()) {
    if (word === flag) {
      return command[place + 1] ?? null;
    }
    if (word.startsWith(`${flag}=`)) {
      return word.slice(flag.length + 1);
    }
  }
  return null;
}
