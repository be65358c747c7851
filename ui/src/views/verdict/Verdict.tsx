// Does speculation pay: the answer of the analysis first, and below it everything that it rests on.
import { askAgain } from "../../asking.ts";
import type { Report } from "../../lib/report.ts";
import { gapsInWords, groundInWords, leftOutInWords } from "../../lib/verdict.ts";
import { asking, reported, run } from "../../state.ts";
import { AsOf, Failure, ReadAgain } from "../AsOf.tsx";
import { Acceptance } from "./Acceptance.tsx";
import { Answer } from "./Answer.tsx";
import { Baseline } from "./Baseline.tsx";
import { ByBatch } from "./ByBatch.tsx";
import { Caps } from "./Caps.tsx";
import { Gaps } from "./Gaps.tsx";
import { Inside } from "./Inside.tsx";
import { Ranks } from "./Ranks.tsx";
import { VerifyCost } from "./VerifyCost.tsx";
import { WhatIf } from "./WhatIf.tsx";

/** The report of the run in view, or why there is none. */
export function Verdict() {
  const last = reported.value;
  const here = last !== null && last.run === run.value?.run ? last : null;
  const report = here?.report ?? null;
  return (
    <section class="verdict" aria-label="Verdict" aria-busy={asking.value}>
      <div class="freshness">
        <AsOf ms={here?.report ? here.atMs : null} asking={asking.value} />
        <Baseline known={report !== null && report.verdict.speedUp !== null} />
        <div class="grow" />
        <ReadAgain disabled={asking.value} ask={askAgain} />
      </div>
      <Failure
        what={report ? "The report could not be read again." : "There is no report yet."}
        why={here?.failure}
      />
      {report && <Found report={report} />}
      {!(report || here?.failure) && <Skeleton />}
    </section>
  );
}

function Found({ report }: { readonly report: Report }) {
  const gaps = gapsInWords(report);
  return (
    <>
      <Answer report={report} />
      <div class="pair">
        <Caps report={report} />
        <section class="part">
          <h3>What is not known</h3>
          {gaps.length > 0 ? (
            <ul class="notes">
              {gaps.map((gap) => (
                <li key={gap}>{gap}</li>
              ))}
            </ul>
          ) : (
            <p class="soft">Nothing that would change this verdict.</p>
          )}
          <p class="caption">
            {groundInWords(report)} {leftOutInWords(report)}
          </p>
        </section>
      </div>
      <WhatIf report={report} />
      <div class="pair">
        <Acceptance found={report.acceptance} />
        <VerifyCost report={report} />
      </div>
      <ByBatch report={report} />
      <Inside look={report.inside} />
      <Gaps found={report.device} />
      <Ranks skew={report.skew} />
    </>
  );
}

/** Of the size of what is to come; seen only where that takes longer than a moment. */
function Skeleton() {
  return (
    <div class="skeleton" aria-hidden="true">
      <i class="tall" />
      <i />
      <i class="tall" />
    </div>
  );
}
