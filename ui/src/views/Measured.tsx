// What a measured stretch of time holds: how often each phase came, and how long it took.
import type { Range } from "../lib/axis.ts";
import { clock, ms, msCell, plural, whole } from "../lib/format.ts";
import type { LaneName } from "../lib/lanes.ts";
import { type Figures, measure } from "../lib/measure.ts";
import { definition, phaseLabel } from "../lib/phases.ts";
import { measured } from "../pointing.ts";
import { cycles } from "../state.ts";
import { Term } from "./Card.tsx";
import { CopyLink } from "./Copy.tsx";
import { Swatch } from "./Swatch.tsx";
import { fit } from "./timeline/model.ts";
import { open } from "./waterfall/model.ts";

const BY: Readonly<Record<LaneName, string>> = {
  host: "by host clock",
  device: "on the device",
};

/** `range` in UNIX ms. */
export function Measured({ range }: { readonly range: Range }) {
  const found = measure(cycles.value, open.value, range);
  return (
    <>
      <div class="section">
        <div class="title">
          <div>
            <h2>{ms(range.end - range.start)} measured</h2>
            <p class="caption">
              from {clock(range.start, true)} to {clock(range.end, true)}, {open.value}
            </p>
          </div>
          <button
            type="button"
            class="button plain icon"
            aria-label="Close"
            title="Close"
            onClick={() => {
              measured.value = null;
            }}
          >
            ✕
          </button>
        </div>
        <button type="button" class="button" onClick={fit}>
          Zoom to it <kbd>F</kbd>
        </button>{" "}
        <CopyLink />
      </div>
      <div class="section">
        <h3>
          Cycles <span class="caption">ms</span>
        </h3>
        {found.cycles ? (
          <FiguresTable rows={[{ name: "whole cycles", figures: found.cycles }]} />
        ) : (
          <p class="caption">No cycle lies wholly within it.</p>
        )}
      </div>
      {(["host", "device"] as const).map((lane) => {
        const rows = found.phases.filter((each) => each.lane === lane);
        return (
          rows.length > 0 && (
            <div class="section" key={lane}>
              <h3>
                {lane === "host" ? "Host" : "Device"} <span class="caption">ms, {BY[lane]}</span>
              </h3>
              <FiguresTable rows={rows.map((row) => ({ name: row.name, figures: row, lane }))} />
            </div>
          )
        );
      })}
      {found.cut > 0 && (
        <p class="section caption">
          {plural(found.cut, "phase")} that an edge cuts {found.cut === 1 ? "is" : "are"} not
          counted.
        </p>
      )}
    </>
  );
}

interface Row {
  readonly name: string;
  readonly figures: Figures;
  readonly lane?: LaneName;
}

function FiguresTable({ rows }: { readonly rows: readonly Row[] }) {
  return (
    <table class="figures">
      <thead>
        <tr>
          <th scope="col">
            <span class="unseen">what</span>
          </th>
          <th scope="col">count</th>
          <th scope="col">sum</th>
          <th scope="col">p50</th>
          <th scope="col">p95</th>
          <th scope="col">p99</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ name, figures, lane }) => (
          <tr key={name} class={name.includes(".") ? "part" : ""}>
            <th scope="row">
              {lane ? (
                <Term about={definition(name)} class="name cut">
                  <Swatch phase={name} lane={lane} />
                  {phaseLabel(name).replace(/^.*\./, "")}
                </Term>
              ) : (
                name
              )}
            </th>
            <td>{whole(figures.count)}</td>
            <td>{msCell(figures.sum)}</td>
            <td>{msCell(figures.p50)}</td>
            <td>{msCell(figures.p95)}</td>
            <td>{msCell(figures.p99)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
