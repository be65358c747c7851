// Two stored runs held against each other: which is faster, and which phase makes it so.
import {
  basisOf,
  type Comparison,
  type Difference,
  detailsOf,
  excessText,
  headline,
  nameOf,
  type PhaseDifference,
  sideDifferences,
  stacked,
} from "../../lib/comparison.ts";
import { estimateText } from "../../lib/estimate.ts";
import { MISSING, ms, plural, share, shortId } from "../../lib/format.ts";
import { address, modelName } from "../../lib/run.ts";
import { comparison, oneRun, otherRun } from "../../looked.ts";
import { lookAgain, pair } from "../../looking.ts";
import { server } from "../../state.ts";
import { AsOf, Failure, ReadAgain } from "../AsOf.tsx";
import { Swatch } from "../Swatch.tsx";
import { Sideways } from "../verdict/Sideways.tsx";
import { StackedBars } from "./StackedBars.tsx";

/** Two lists of runs, and what was found. */
export function Runs() {
  const runs = server.value?.runs ?? [];
  const now = pair.value;
  const had = comparison.of(now);
  return (
    <section class="served runs" aria-label="Runs" aria-busy={comparison.asking.value}>
      <div class="freshness">
        <fieldset class="picks">
          <legend class="unseen">Which runs</legend>
          <RunPick label="first" value={now?.one ?? null} take={(id) => put(id, now?.other)} />
          <RunPick label="second" value={now?.other ?? null} take={(id) => put(now?.one, id)} />
        </fieldset>
        {now && (
          <button type="button" class="button" onClick={() => put(now.other, now.one)}>
            Swap
          </button>
        )}
        <div class="grow" />
        <AsOf
          ms={had?.value ? had.atMs : null}
          asking={comparison.asking.value}
          reading="Reading both runs"
        />
        <ReadAgain disabled={!now || comparison.asking.value} ask={lookAgain} />
      </div>
      {!now && <Alone count={runs.length} />}
      <Failure what="The runs could not be compared." why={had?.failure} />
      {had?.value && <Found found={had.value} />}
      {now && !had && (
        <div class="skeleton" aria-hidden="true">
          <i />
          <i class="tall" />
        </div>
      )}
    </section>
  );
}

function put(one: string | undefined, other: string | undefined): void {
  oneRun.value = one ?? null;
  otherRun.value = other ?? null;
}

function RunPick(props: {
  readonly label: string;
  readonly value: string | null;
  readonly take: (id: string) => void;
}) {
  const { label, value, take } = props;
  const runs = server.value?.runs ?? [];
  const known = runs.some((each) => each.run === value);
  return (
    <label class="pick">
      <span class="caption">{label}</span>
      <select value={value ?? ""} onChange={({ currentTarget }) => take(currentTarget.value)}>
        {!known && <option value={value ?? ""}>{value ? shortId(value) : "–"}</option>}
        {runs.map((each) => (
          <option key={each.run} value={each.run}>
            {modelName(each)}, {address(each)}
          </option>
        ))}
      </select>
    </label>
  );
}

function Alone({ count }: { readonly count: number }) {
  return (
    <div class="part">
      <p class="sentence">
        {count < 2 ? "Only one run is here." : "Choose two runs that are not the same."}
      </p>
      <p class="soft">
        A second one comes with a server that is started again, or from another machine to{" "}
        <code class="mono">spectrace serve</code>. Two recordings are compared by{" "}
        <code class="mono">spectrace compare A B</code>.
      </p>
    </div>
  );
}

function Found({ found }: { readonly found: Comparison }) {
  const differ = [...found.settings, ...sideDifferences(found.sides)];
  return (
    <>
      <div class="part">
        <h2 class="sentence">{headline(found)}</h2>
        {detailsOf(found).map((sentence) => (
          <p key={sentence} class="soft">
            {sentence}
          </p>
        ))}
      </div>
      {differ.length > 0 && (
        <section class="part" aria-label="What differs in the runs">
          <h3>What differs in the runs</h3>
          <Sideways label="Settings that differ">
            <table class="differ">
              <thead>
                <tr>
                  <th scope="col">setting</th>
                  <th scope="col">first</th>
                  <th scope="col">second</th>
                </tr>
              </thead>
              <tbody>
                {differ.map(({ what, one, other }) => (
                  <tr key={what}>
                    <th scope="row">{what}</th>
                    <td>{one}</td>
                    <td>{other}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Sideways>
        </section>
      )}
      {found.cycleMs && <Whole found={found} />}
      {found.device.length > 0 && <Phases where="on the device" phases={found.device} />}
      {found.host.length > 0 && <Phases where="by host clock" phases={found.host} />}
      <p class="part caption">{basisOf(found)}</p>
    </>
  );
}

function Whole({ found }: { readonly found: Comparison }) {
  const several = Math.max(...found.sides.map((side) => side.groups)) > 1;
  const rows: readonly (readonly [name: string, of: Difference | null, places: number])[] = [
    [`tokens/s of decoding${several ? " per group" : ""}`, found.tokensPerS, 1],
    ["cycle, ms", found.cycleMs, 2],
    ["ms per token of a request", found.msPerToken, 2],
    ["accept length", found.acceptLength, 2],
  ];
  return (
    <section class="part" aria-label="Whole cycles">
      <h3>Whole cycles</h3>
      <Differences
        label="Figures of both runs"
        rows={rows.flatMap(([name, of, places]) => (of ? [{ name, of, places, share: null }] : []))}
      />
    </section>
  );
}

function Phases(props: { readonly where: string; readonly phases: readonly PhaseDifference[] }) {
  const { where, phases } = props;
  return (
    <section class="part" aria-label={`Phases ${where}`}>
      <h3>
        Phases {where} <span class="caption">mean of a cycle, largest difference first</span>
      </h3>
      <Stacked where={where} phases={phases} />
      <Differences
        label={`Phases of both runs ${where}`}
        rows={phases.map((each) => ({
          name: nameOf(each),
          phase: each.name,
          of: each.ms,
          places: 2,
          share: each.share,
        }))}
        device={where === "on the device"}
      />
    </section>
  );
}

function Differences(props: {
  readonly label: string;
  readonly device?: boolean;
  readonly rows: readonly {
    readonly name: string;
    readonly phase?: string | null;
    readonly of: Difference;
    readonly places: number;
    readonly share: number | null;
  }[];
}) {
  const { label, device = false, rows } = props;
  const shares = rows.some((row) => row.share !== null);
  return (
    <Sideways label={label}>
      <table>
        <thead>
          <tr>
            <th scope="col">
              <span class="unseen">what</span>
            </th>
            <th scope="col">first</th>
            <th scope="col">second</th>
            <th scope="col">difference</th>
            {shares && <th scope="col">of the cycle's</th>}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, phase, of, places, share: part }) => (
            <tr key={name}>
              <th scope="row">
                {phase && <Swatch phase={phase} lane={device ? "device" : "host"} />}
                {name}
              </th>
              <td>{estimateText(of.one, places)}</td>
              <td>{estimateText(of.other, places)}</td>
              <td>{excessText(of, places)}</td>
              {shares && <td>{partText(of, part)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </Sideways>
  );
}

/** Which part of the cycle's difference it is; where it is none there is no part. */
function partText({ verdict }: Difference, part: number | null): string {
  return verdict === "same" || part === null ? MISSING : share(part).replace("-", "−");
}

/** Both runs as bars on one axis that begins at 0. */
function Stacked(props: { readonly where: string; readonly phases: readonly PhaseDifference[] }) {
  const { where, phases } = props;
  const { bars, whole } = stacked(phases);
  const names = ["first", "second"] as const;
  const said = names.map((name, at) => `${name} ${ms(whole[at] ?? 0)}`).join(", ");
  return (
    <>
      <StackedBars
        label={`Both runs ${where}: ${said}`}
        bars={names.map((name, at) => ({
          name,
          pieces: bars[at] ?? [],
          filled: where === "on the device",
          words: name,
        }))}
        named={false}
        left={8}
        right={64}
        row={28}
        free={4}
      />
      <span class="unseen">{plural(phases.length, "phase")}, listed below.</span>
    </>
  );
}
