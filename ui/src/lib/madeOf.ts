// Of what the phases of a cycle are made: the kernels of one rank, summed up by phase and class.
import { busiestOf, kernelAt, type RankKernels, shortKernel } from "./kernels.ts";
import { phaseOrder } from "./phases.ts";

const NS_PER_MS = 1e6;

/** Kernels of one class. */
export interface ClassShare {
  readonly kernelClass: string;
  readonly ms: number;
  /** Of the time of all kernels, from 0 to 1. */
  readonly share: number;
}

/** Kernels of one name. */
export interface NameShare {
  readonly name: string;
  readonly short: string;
  readonly ms: number;
  readonly kernels: number;
}

/** What the device did for one phase. */
export interface Made {
  readonly phase: string;
  /** From the first kernel to the end of the last one on the stream that did most. */
  readonly deviceMs: number;
  /** Of that without any kernel. */
  readonly gapMs: number;
  /** On all streams. */
  readonly kernels: number;
  /** Of these put there by the launch of a graph. */
  readonly ofGraphs: number;
  /** The most time first; kernels that ran at once count each. */
  readonly classes: readonly ClassShare[];
  readonly biggest: readonly NameShare[];
}

/** The phases in the order of a cycle, each with its `most` biggest kernels. */
export function madeOf(of: RankKernels, most: number): Made[] {
  const places = new Map<string, number[]>();
  for (const [place, phase] of of.phase.entries()) {
    const name = of.phases[phase] ?? "";
    const own = places.get(name) ?? [];
    own.push(place);
    places.set(name, own);
  }
  return [...places]
    .toSorted(([one], [other]) => phaseOrder(one) - phaseOrder(other))
    .map(([phase, own]) => ({ phase, ...spanOf(of, own), ...sumsOf(of, own, most) }));
}

function spanOf(of: RankKernels, own: readonly number[]): Pick<Made, "deviceMs" | "gapMs"> {
  const lengths = own.map((place) => (of.end[place] ?? 0) - (of.start[place] ?? 0));
  const stream = busiestOf(
    own.map((place) => of.stream[place] ?? 0),
    lengths,
  );
  const there = own.filter((place) => of.stream[place] === stream);
  const first = of.start[there[0] ?? 0] ?? 0;
  let end = first;
  let gap = 0;
  for (const place of there) {
    gap += Math.max(0, (of.start[place] ?? 0) - end);
    end = Math.max(end, of.end[place] ?? 0);
  }
  return { deviceMs: (end - first) / NS_PER_MS, gapMs: gap / NS_PER_MS };
}

function sumsOf(
  of: RankKernels,
  own: readonly number[],
  most: number,
): Omit<Made, "phase" | "deviceMs" | "gapMs"> {
  const classes = new Map<string, number>();
  const names = new Map<string, NameShare>();
  let total = 0;
  let ofGraphs = 0;
  for (const place of own) {
    const { name, kernelClass, ns, graph } = kernelAt(of, place);
    const ms = ns / NS_PER_MS;
    total += ms;
    ofGraphs += graph ? 1 : 0;
    classes.set(kernelClass, (classes.get(kernelClass) ?? 0) + ms);
    const before = names.get(name) ?? { name, short: shortKernel(name), ms: 0, kernels: 0 };
    names.set(name, { ...before, ms: before.ms + ms, kernels: before.kernels + 1 });
  }
  return {
    kernels: own.length,
    ofGraphs,
    classes: [...classes]
      .map(([kernelClass, ms]) => ({ kernelClass, ms, share: total > 0 ? ms / total : 0 }))
      .toSorted((one, other) => other.ms - one.ms),
    biggest: [...names.values()].toSorted((one, other) => other.ms - one.ms).slice(0, most),
  };
}
