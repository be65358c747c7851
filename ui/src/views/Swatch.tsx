// The small square that carries a phase's colour in legends and tables.
import type { LaneName } from "../lib/lanes.ts";
import { GAP } from "../lib/phases.ts";
import { phaseProperty } from "../lib/tokens.ts";

/** Filled for what the device did, outlined for what the host did, hatched for a gap. */
export function Swatch(props: { readonly phase: string; readonly lane?: LaneName }) {
  const { phase, lane = "host" } = props;
  const property = phaseProperty(phase);
  const filled = lane === "device" ? "filled" : "";
  return (
    <i
      class={`swatch ${phase === GAP ? "hatched" : filled}`}
      aria-hidden="true"
      style={{ "--c": `var(${property})`, "--pale": `var(${property}-pale)` }}
    />
  );
}
