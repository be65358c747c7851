// The cycles in view as a table, for those who do not see the canvas.
import { useRef } from "preact/hooks";
import { cycleKey, cycleMs, foreignInWords, gainInWords, phaseTable } from "../../lib/cycle.ts";
import { ms, whole } from "../../lib/format.ts";
import { deviceInWords, type LaneName } from "../../lib/lanes.ts";
import { phaseLabel } from "../../lib/phases.ts";
import type { Cycle } from "../../lib/wire.ts";
import { paused } from "../../state.ts";

const EVERY_MS = 5000;

interface Kept {
  readonly cycles: readonly Cycle[];
  readonly atMs: number;
  readonly at: string;
}

/**
 * `cycles`, newest first, as seen from `at`: with another `at` they are others. While live they are
 * brought up to date at most every five seconds: a reader must get through them.
 */
export function CycleTable({ cycles, at }: Pick<Kept, "cycles" | "at">) {
  const kept = useRef<Kept>({ cycles: [], atMs: 0, at: "" });
  const now = Date.now();
  const { current } = kept;
  const old = now - current.atMs > EVERY_MS || current.cycles.length === 0;
  if ((old && !paused.value) || current.at !== at) {
    kept.current = { cycles, atMs: now, at };
  }
  return (
    <table>
      <caption>Cycles in view, newest first</caption>
      <thead>
        <tr>
          <th scope="col">cycle</th>
          <th scope="col">kind</th>
          <th scope="col">batch</th>
          <th scope="col">time</th>
          <th scope="col">gain</th>
          <th scope="col">phases on the first rank, by host clock</th>
          <th scope="col">on its device</th>
          <th scope="col">of an earlier cycle</th>
        </tr>
      </thead>
      <tbody>
        {kept.current.cycles.map((cycle) => (
          <tr key={cycleKey(cycle)}>
            <th scope="row">{whole(cycle.n)}</th>
            <td>{cycle.kind}</td>
            <td>{whole(cycle.batch)}</td>
            <td>{ms(cycleMs(cycle))}</td>
            <td>{gainInWords(cycle)}</td>
            <td>{phasesInWords(cycle, "host")}</td>
            <td>{phasesInWords(cycle, "device")}</td>
            <td>{foreignInWords(cycle) ?? "–"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function phasesInWords(cycle: Cycle, lane: LaneName): string {
  const first = cycle.ranks[0];
  const table = first ? phaseTable(cycle, first, lane) : [];
  const phases = table.map((row) => `${phaseLabel(row.name)} ${ms(row.ms)}`);
  const lacking = first && lane === "device" ? deviceInWords(first) : null;
  return [...phases, ...(lacking === null ? [] : [lacking])].join(", ") || "–";
}
