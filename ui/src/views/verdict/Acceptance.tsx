// How often the draft at each position is accepted, if all before it were.
import { estimateText } from "../../lib/estimate.ts";
import { length, share, whole } from "../../lib/format.ts";
import type { Acceptance as Accepted } from "../../lib/report.ts";
import { Term } from "../Card.tsx";
import { PositionChart, PositionTable } from "./PositionChart.tsx";
import { PositionsHead, useSetting } from "./PositionsHead.tsx";
import { Slices } from "./Slices.tsx";

/** A bar for each position with Wilson's interval, its counts, and the lengths by definition. */
export function Acceptance({ found }: { readonly found: readonly Accepted[] }) {
  const chosen = useSetting(found);
  const { one } = chosen;
  return (
    <section class="part">
      <PositionsHead
        about="Of the verifies in which all drafts before a position were correct, the share in which that one was too. A verify that was cut counts up to the cut. Whiskers are Wilson's interval at 95 %."
        chosen={chosen}
      />
      {one ? <Positions one={one} /> : <p class="soft">Nothing was verified.</p>}
    </section>
  );
}

function Positions({ one }: { readonly one: Accepted }) {
  return (
    <>
      <PositionChart positions={one.positions} />
      <PositionTable positions={one.positions} />
      <Lengths one={one} />
      <Slices one={one} />
    </>
  );
}

function Lengths({ one }: { readonly one: Accepted }) {
  return (
    <dl class="facts">
      <div>
        <dt>
          <Term about="(correct drafts + verifies) / verifies. vLLM's mean acceptance length is the same.">
            accept length
          </Term>
        </dt>
        <dd>
          <b>{estimateText(one.acceptLength)}</b>
        </dd>
      </div>
      <div>
        <dt>
          <Term about="spec_accept_length: completion tokens / verifies. It counts the token of the prefill and the cut at the token limit.">
            SGLang's
          </Term>
        </dt>
        <dd>
          <b>{length(one.serverAcceptLength)}</b>
        </dd>
      </div>
      <div>
        <dt>
          <Term about="Correct drafts / drafts, vLLM's draft acceptance rate.">
            drafts accepted
          </Term>
        </dt>
        <dd>
          <b>{share(one.draftsAccepted)}</b>
        </dd>
      </div>
      <div>
        <dt>
          <Term about="Requests verified, cycle by cycle, without overshoot and health checks; and of how many a request got less than was correct.">
            verifies
          </Term>
        </dt>
        <dd>
          <b>
            {whole(one.verifies)}, {whole(one.cut)} cut
          </b>
        </dd>
      </div>
    </dl>
  );
}
