// What opens beside a list: its heading, which takes the focus, the ways to close it, and its state.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** `of` names what is shown. Escape closes it too. */
export function DetailHead(props: {
  readonly of: string;
  readonly close: () => void;
  readonly class?: string;
  readonly children: ComponentChildren;
}) {
  const { of, close, children } = props;
  const title = useRef<HTMLHeadingElement>(null);
  // Who chose it wants it next, also by keyboard and where it stands far below.
  useEffect(() => title.current?.focus(), [of]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => event.key === "Escape" && close();
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [of]);
  return (
    <div class="between">
      <h3 ref={title} tabIndex={-1} class={props.class}>
        {children}
      </h3>
      <button
        type="button"
        class="button plain icon"
        aria-label="Close"
        title="Close"
        onClick={close}
      >
        ✕
      </button>
    </div>
  );
}

/** Why nothing came, or that it is under way; nothing where it is here. */
export function DetailState({ had }: { readonly had: { readonly failure: string | null } | null }) {
  if (had === null) {
    return <p class="soft">Reading</p>;
  }
  return had.failure ? (
    <p role="alert" class="bad">
      {had.failure}
    </p>
  ) : null;
}
