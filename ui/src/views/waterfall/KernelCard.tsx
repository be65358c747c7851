// What a kernel of the waterfall is, or several that share a px: in a card, and in a sentence.
import { cycleKey } from "../../lib/cycle.ts";
import { ns, plural, share, whole } from "../../lib/format.ts";
import { type Kernel, kernelAt, shortKernel } from "../../lib/kernels.ts";
import { phaseLabel } from "../../lib/phases.ts";
import { Card } from "../Card.tsx";
import { Swatch } from "../Swatch.tsx";
import type { ExplainedKernels, KernelRow } from "./kernelRow.ts";

const MOST_CLASSES = 4;
const NS_PER_MS = 1e6;

/** Name, class, time, stream, phase; of several the time by class. */
export function KernelCard({ row, places, x, y }: ExplainedKernels) {
  const all = places.map((place) => kernelAt(row.kernels, place));
  const [only] = all;
  if (!only) {
    return null;
  }
  return (
    <Card x={x} y={y} key={`${cycleKey(row.cycle)} ${places[0]}`}>
      {all.length === 1 ? <One row={row} kernel={only} /> : <Several row={row} all={all} />}
    </Card>
  );
}

function One({ row, kernel }: { readonly row: KernelRow; readonly kernel: Kernel }) {
  const { name, kernelClass, phase, stream, graph } = kernel;
  return (
    <>
      <Head words={shortKernel(name)} row={row} />
      <table>
        <tbody>
          <tr>
            <th scope="row" class="soft">
              took, on the device
            </th>
            <td>
              <b>{ns(kernel.ns)}</b>
            </td>
          </tr>
          <tr>
            <th scope="row" class="soft">
              class
            </th>
            <td>{kernelClass}</td>
          </tr>
          <OfPhase phase={phase} />
          <tr>
            <th scope="row" class="soft">
              begins at
            </th>
            <td>{ns(kernel.startNs + row.shiftMs * NS_PER_MS)}</td>
          </tr>
          <tr>
            <th scope="row" class="soft">
              stream
            </th>
            <td>{whole(stream)}</td>
          </tr>
          <tr>
            <th scope="row" class="soft">
              put there by
            </th>
            <td>{launchInWords(graph)}</td>
          </tr>
        </tbody>
      </table>
      <p class="mono kernelname">{name}</p>
    </>
  );
}

function Several({ row, all }: { readonly row: KernelRow; readonly all: readonly Kernel[] }) {
  const total = sumOf(all);
  const classes = [...new Set(all.map(({ kernelClass }) => kernelClass))]
    .map((name) => ({ name, ns: sumOf(all.filter(({ kernelClass }) => kernelClass === name)) }))
    .toSorted((one, other) => other.ns - one.ns);
  return (
    <>
      <Head words={plural(all.length, "kernel")} row={row} />
      <table>
        <tbody>
          <tr>
            <th scope="row" class="soft">
              took, on the device
            </th>
            <td>
              <b>{ns(total)}</b>
            </td>
          </tr>
          {[...new Set(all.map(({ phase }) => phase))].map((phase) => (
            <OfPhase key={phase} phase={phase} />
          ))}
          {classes.slice(0, MOST_CLASSES).map(({ name, ns: time }) => (
            <tr key={name}>
              <th scope="row" class="soft">
                {name}
              </th>
              <td>
                {ns(time)}, {share(total > 0 ? time / total : 0)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p>They share a px of the picture: zoom in to see each.</p>
    </>
  );
}

function Head({ words, row }: { readonly words: string; readonly row: KernelRow }) {
  return (
    <div class="between">
      <b>{words}</b>
      <span class="caption cut">{row.kernels.rank}, device</span>
    </div>
  );
}

function OfPhase({ phase }: { readonly phase: string }) {
  return (
    <tr>
      <th scope="row" class="soft">
        phase
      </th>
      <td>
        <Swatch phase={phase} lane="device" />
        {phaseLabel(phase)}
      </td>
    </tr>
  );
}

/** The same in a sentence. */
export function spokenKernels({ row, places }: ExplainedKernels): string {
  const { cycle, kernels, shiftMs } = row;
  return places
    .map((place) => kernelAt(kernels, place))
    .map(({ name, kernelClass, phase, stream, graph, startNs, ns: time }) =>
      [
        `Kernel ${shortKernel(name)}`,
        kernelClass,
        ns(time),
        `of ${phaseLabel(phase)}`,
        `from ${ns(startNs + shiftMs * NS_PER_MS)}`,
        `stream ${whole(stream)}`,
        `put there by ${launchInWords(graph)}`,
        kernels.rank,
        `cycle ${whole(cycle.n)}`,
      ].join(", "),
    )
    .join("; ");
}

function launchInWords(graph: boolean): string {
  return graph ? "a graph" : "its own launch";
}

function sumOf(all: readonly Kernel[]): number {
  return all.reduce((sum, { ns: time }) => sum + time, 0);
}
