// What a stretch of cycles had to do: batch and its padding, graphs, context, and who waits.
import { enumerate, plural, whole } from "./format.ts";
import { phaseLabel, topLevel } from "./phases.ts";
import { median } from "./summary.ts";
import type { Cycle } from "./wire.ts";

/** Null where nothing is known. */
export interface Load {
  /** What the target's graph was made for, in the median cycle. */
  readonly padded: number | null;
  /** Tokens of all requests in the newest cycle that says. */
  readonly contextSum: number | null;
  readonly contextMax: number | null;
  readonly queued: number | null;
  readonly running: number | null;
  /** Top-level phases that ran as a graph, and those that ran eagerly; some may be in both. */
  readonly graph: readonly string[];
  readonly eager: readonly string[];
}

/** The load of decoding cycles, oldest first. */
export function loadOf(cycles: readonly Cycle[]): Load {
  const decoding = cycles.filter(
    (cycle) => cycle.kind === "speculative" || cycle.kind === "decode",
  );
  const phases = decoding.flatMap((cycle) => cycle.ranks[0]?.phases ?? []);
  const named = (graph: boolean) => [
    ...new Set(phases.filter((p) => p.graph === graph).map((p) => topLevel(p.name))),
  ];
  const newest = <Key extends keyof Cycle>(key: Key) =>
    decoding.findLast((cycle) => cycle[key] !== null)?.[key] ?? null;
  return {
    padded: median(decoding.flatMap((cycle) => cycle.padded ?? [])),
    contextSum: newest("contextSum"),
    contextMax: newest("contextMax"),
    queued: newest("queued"),
    running: newest("running"),
    graph: named(true),
    eager: named(false),
  };
}

/** "verify, eager: draft": what ran as a graph and what did not; null where that is not known. */
export function graphsInWords({ graph, eager }: Pick<Load, "graph" | "eager">): string | null {
  const names = (of: readonly string[]) => enumerate(of.map(phaseLabel));
  if (graph.length + eager.length === 0) {
    return null;
  }
  if (eager.length === 0) {
    return names(graph);
  }
  return graph.length === 0
    ? `none, eager: ${names(eager)}`
    : `${names(graph)}, eager: ${names(eager)}`;
}

/** "3 of 8 slots": a batch and what its graph was padded to; null where it was not padded. */
export function paddedInWords(cycle: Cycle): string | null {
  const { batch, padded } = cycle;
  return padded === null || padded === batch ? null : `padded to ${whole(padded)}`;
}

/** The tokens that a cycle's requests had before it, and who ran and waited; null if unknown. */
export function contextInWords(cycle: Cycle): string | null {
  const { contextSum, contextMax, queued, running } = cycle;
  const context =
    contextSum === null
      ? []
      : [
          `context ${plural(contextSum, "token")}`,
          ...(contextMax === null || cycle.batch < 2 ? [] : [`longest ${whole(contextMax)}`]),
        ];
  const words = [
    ...context,
    ...(running === null ? [] : [`${whole(running)} running`]),
    ...(queued === null ? [] : [`${whole(queued)} queued`]),
  ];
  return words.length > 0 ? words.join(", ") : null;
}
