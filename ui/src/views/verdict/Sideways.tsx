// A box in which a wide table scrolls sideways, so that the page does not.
import type { ComponentChildren } from "preact";

/** Can be reached by keyboard, since arrows scroll it. */
export function Sideways(props: { readonly label: string; readonly children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keys
    <section class="wide-table" aria-label={props.label} tabIndex={0}>
      {props.children}
    </section>
  );
}
