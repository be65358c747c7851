// The small square that carries a phase's colour in legends and tables.
import { phaseProperty } from "../lib/tokens.ts";

/** Outlined, as all that the host did. */
export function Swatch({ phase }: { readonly phase: string }) {
  const property = phaseProperty(phase);
  return (
    <i
      class="swatch"
      aria-hidden="true"
      style={{ "--c": `var(${property})`, "--pale": `var(${property}-pale)` }}
    />
  );
}
