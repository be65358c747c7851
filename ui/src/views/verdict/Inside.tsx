// Of what phases are made, where somebody looked at the kernels of the run.
import { msCell, shareCell } from "../../lib/format.ts";
import { classInWords } from "../../lib/kernelLook.ts";
import { phaseLabel } from "../../lib/phases.ts";
import { classesOf, lookInWords, type ReportedLook, trustInWords } from "../../lib/reportedLook.ts";
import { Term } from "../Card.tsx";
import { Sideways } from "./Sideways.tsx";

/** The newest look: a row for each phase, a column for each class; nothing where nobody looked. */
export function Inside({ look }: { readonly look: ReportedLook | null }) {
  if (look === null) {
    return null;
  }
  const classes = classesOf(look);
  return (
    <section class="part">
      <h3>
        <Term about="For some cycles each kernel was seen. A kernel belongs to the phase that launched it; kernels that ran at once count each.">
          What a phase is made of
        </Term>{" "}
        <span class="caption">ms per cycle, {look.rank}</span>
      </h3>
      <p class="soft">{lookInWords(look).join(" ")}</p>
      <Sideways label="What a phase is made of">
        <table>
          <thead>
            <tr>
              <th scope="col">phase</th>
              <th scope="col">device</th>
              <th scope="col">nothing runs</th>
              {classes.map((kind) => (
                <th scope="col" key={kind}>
                  {classInWords(kind)}
                </th>
              ))}
              <th scope="col">share of communication</th>
            </tr>
          </thead>
          <tbody>
            {look.phases.map((phase) => (
              <tr key={phase.phase}>
                <th scope="row">{phaseLabel(phase.phase)}</th>
                <td>{msCell(phase.deviceMs)}</td>
                <td>{msCell(phase.gapMs)}</td>
                {classes.map((kind) => (
                  <td key={kind}>
                    {msCell(phase.parts.find((one) => one.kernelClass === kind)?.ms ?? null)}
                  </td>
                ))}
                <td>{shareCell(phase.communication)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Sideways>
      <p class="caption">{trustInWords(look).join(" ")}</p>
    </section>
  );
}
