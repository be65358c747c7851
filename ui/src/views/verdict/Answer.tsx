// The answer, the tokens of a cycle against break-even, and where a cycle goes.
import { estimateText } from "../../lib/estimate.ts";
import { whole } from "../../lib/format.ts";
import type { BatchVerdict, Report } from "../../lib/report.ts";
import { lanesOf } from "../../lib/shares.ts";
import {
  basisInWords,
  factorText,
  leadInWords,
  mainStratum,
  phasesInWords,
  settingInWords,
  throughputInWords,
} from "../../lib/verdict.ts";
import { Bullet } from "../Bullet.tsx";
import { Term } from "../Card.tsx";
import { EvenMark } from "../EvenMark.tsx";
import { Panel } from "../Panel.tsx";
import { Lanes, Table } from "../Shares.tsx";

const TONE: Readonly<Record<string, string>> = { pays: "good", loses: "bad" };

/** Three cells beside each other. */
export function Answer({ report }: { readonly report: Report }) {
  const { verdict } = report;
  const [main] = verdict.byBatch;
  return (
    <section class="band" aria-label="Answer">
      <div class="cell">
        <div class="answer">
          <div>
            <div class={`factor ${TONE[verdict.answer] ?? ""}`}>{factorText(report)}</div>
            <Term
              class="caption"
              about="The time that plain decode would have taken for the same tokens over the time that was taken; over several batch sizes weighted by the time that they took."
            >
              speed-up
            </Term>
          </div>
          <div>
            <h2 class="sentence">{leadInWords(report)}</h2>
            {main &&
              basisInWords(main, verdict.covered).map((sentence) => (
                <p class="soft" key={sentence}>
                  {sentence}
                </p>
              ))}
            {main && (
              <dl class="facts">
                <div>
                  <dt>
                    <Term about="Tokens that all requests together get per second: batch size × tokens per cycle / cycle time, beside what plain decode gives at the same batch size.">
                      throughput
                    </Term>
                  </dt>
                  <dd>
                    <b>{throughputInWords(main)}</b>
                  </dd>
                </div>
              </dl>
            )}
          </div>
        </div>
      </div>
      <Even main={main ?? null} />
      <Where report={report} />
    </section>
  );
}

/** What a request gets from a cycle, and what it would have to. */
function Even({ main }: { readonly main: BatchVerdict | null }) {
  return (
    <div class="cell">
      <div class="between">
        <Term about="What a request really got from a cycle: the accept length less what was cut, and less the cycles that came behind its end (the overlap scheduler runs one too far).">
          <span class="soft">Tokens per cycle</span>
        </Term>
        <span class="nowrap">
          <b>{main ? estimateText(main.tokensPerCycle) : "–"}</b>
        </span>
      </div>
      {main ? (
        <Bullet
          value={main.tokensPerCycle.value}
          estimate={main.tokensPerCycle}
          even={main.breakEven}
          most={Math.max(main.setting.draftTokens, 2, Math.ceil(main.breakEven?.value ?? 0))}
        />
      ) : (
        <p class="caption">Nothing was verified.</p>
      )}
      {main?.breakEven && <EvenMark even={main.breakEven} />}
      {main && !main.breakEven && <p class="caption">Break-even is not known.</p>}
      <p class="caption">
        {main &&
          `${settingInWords(main.setting)}, batch size ${whole(main.batch)}${mostInWords(main)}`}
      </p>
    </div>
  );
}

function mostInWords({ setting }: BatchVerdict): string {
  return setting.draftTokens > 0 ? `, at most ${whole(setting.draftTokens)}` : "";
}

function Where({ report }: { readonly report: Report }) {
  const found = mainStratum(report);
  const known = found !== null && lanesOf(found.times).length > 0;
  return (
    <div class="cell shares">
      <div class="between">
        <span class="soft">Where a cycle goes</span>
        {known && (
          <span class="caption nowrap head">
            median, ms
            <Panel label="Table" class="small">
              <Table
                rows={lanesOf(found.times)}
                times={found.times}
                timed={found.times.device.length > 0}
              />
            </Panel>
          </span>
        )}
      </div>
      {known ? (
        <>
          <Lanes times={found.times} />
          <p class="caption">{phasesInWords(found)}</p>
        </>
      ) : (
        <p class="caption">No cycle to divide.</p>
      )}
    </div>
  );
}
