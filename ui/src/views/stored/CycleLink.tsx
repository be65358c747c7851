// A cycle's number that leads to it in the waterfall.
import { whole } from "../../lib/format.ts";
import { formatHash } from "../../lib/hash.ts";
import { look } from "../../looked.ts";
import { place, run } from "../../state.ts";

/** A link, so that "back" returns to where it was followed. */
export function CycleLink({ n }: { readonly n: number }) {
  const there = formatHash({
    ...place.value,
    tab: "live",
    run: place.value.run ?? run.value?.run ?? null,
    group: look.value.group,
    cycle: n,
    // These belong to what was in view before.
    stretch: null,
    measured: null,
  });
  return (
    <a href={there} aria-label={`Cycle ${whole(n)} in the waterfall`}>
      {whole(n)}
    </a>
  );
}
