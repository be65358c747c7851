// The options with which to restart the server, to copy.
import { Copy } from "../Copy.tsx";

/** Without any, what turns speculation off. */
export function Flags({ flags }: { readonly flags: readonly string[] }) {
  if (flags.length === 0) {
    return (
      <p class="caption">Restart the server without --speculative-algorithm to turn it off.</p>
    );
  }
  const line = flags.join(" ");
  return (
    <div class="command">
      <code class="mono">{line}</code>
      <Copy text={line} label="Copy" />
    </div>
  );
}
