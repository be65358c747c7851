// What stands in place of the cycles before the first one.
import { run } from "../../state.ts";

/** How many ranks report, and what is waited for. */
export function Waiting() {
  const listed = run.value?.ranks ?? [];
  const reporting = listed.filter((rank) => rank.reporting).length;
  return (
    <div class="waiting">
      <p class="soft">
        {listed.length > 0 && `${reporting} of ${listed.length} ranks report. `}
        Waiting for cycles. The first one shows up here as soon as the server decodes.
      </p>
    </div>
  );
}
