// A button that opens a floating panel with more, and closes it again.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

/** `children` are drawn only while it is open; Escape and a press elsewhere close it. */
export function Panel(props: {
  readonly label: string;
  readonly class: string;
  readonly children: ComponentChildren;
}) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const id = useId();
  useEffect(() => {
    if (!open) {
      return;
    }
    const onPress = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) {
        setOpen(false);
      }
    };
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape") {
        setOpen(false);
        box.current?.querySelector("button")?.focus();
        // Else it would close the drawer too.
        event.stopPropagation();
      }
    };
    addEventListener("pointerdown", onPress);
    addEventListener("keydown", onKey, { capture: true });
    return () => {
      removeEventListener("pointerdown", onPress);
      removeEventListener("keydown", onKey, { capture: true });
    };
  }, [open]);
  return (
    <div class="opener" ref={box}>
      <button
        type="button"
        class={props.class}
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setOpen(!open)}
      >
        {props.label}
      </button>
      <div class="panel" id={id} hidden={!open}>
        {open && props.children}
      </div>
    </div>
  );
}
