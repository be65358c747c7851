// The mark of break-even in a bar of tokens, with its value.
import { type Estimate, estimateText } from "../lib/estimate.ts";
import { Term } from "./Card.tsx";

/** The legend of the mark. */
export function EvenMark({ even }: { readonly even: Estimate }) {
  return (
    <Term
      class="caption"
      about="The time of a cycle over that of a plain decode of the same batch: from so many tokens on speculation pays."
    >
      <i class="evenmark" aria-hidden="true" /> break-even {estimateText(even)}
    </Term>
  );
}
