// A button that copies a text and says so.
import { useState } from "preact/hooks";
import { formatHash } from "../lib/hash.ts";
import { place } from "../state.ts";

const SHOWN_MS = 1500;

/** Copies `text`; where the browser refuses, the button says that instead. */
export function Copy(props: {
  readonly text: string;
  readonly label: string;
  readonly class?: string;
}) {
  const [said, setSaid] = useState<string | null>(null);
  const copy = async () => {
    const done = await navigator.clipboard?.writeText(props.text).then(
      () => true,
      () => false,
    );
    setSaid(done ? "Copied" : "Not allowed");
    setTimeout(() => setSaid(null), SHOWN_MS);
  };
  return (
    <button type="button" class={props.class ?? "button"} onClick={copy}>
      <span aria-live="polite">{said ?? props.label}</span>
    </button>
  );
}

/** Copies the address of what is in view; the address bar may be a moment behind. */
export function CopyLink() {
  const link = `${location.href.replace(/#.*$/, "")}${formatHash(place.value)}`;
  return <Copy text={link} label="Copy link" class="small" />;
}
