// What floats: a card at a point of the window, and words that explain themselves in one.
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

const OFFSET = 12;
const MARGIN = 8;

/** A card beside a point, kept inside the window. */
export function Card(props: {
  readonly x: number;
  readonly y: number;
  readonly id?: string;
  readonly children: ComponentChildren;
}) {
  const { x, y, id, children } = props;
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const card = box.current;
    if (!card) {
      return;
    }
    const { width, height } = card.getBoundingClientRect();
    const left = x + OFFSET + width > innerWidth - MARGIN ? x - OFFSET - width : x + OFFSET;
    const top = y + OFFSET + height > innerHeight - MARGIN ? y - OFFSET - height : y + OFFSET;
    card.style.left = `${Math.max(MARGIN, Math.min(left, innerWidth - width - MARGIN))}px`;
    card.style.top = `${Math.max(MARGIN, top)}px`;
  });
  return (
    <div class="card" role="tooltip" id={id} ref={box}>
      {children}
    </div>
  );
}

/** Words with a definition, shown on hover and on keyboard focus. */
export function Term(props: {
  readonly about: ComponentChildren;
  readonly children: ComponentChildren;
  readonly class?: string;
}) {
  const { about, children } = props;
  const id = useId();
  const [at, setAt] = useState<{ x: number; y: number } | null>(null);
  const show = (event: Event) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    setAt({ x: box.left - OFFSET, y: box.bottom - OFFSET + 4 });
  };
  const hide = () => setAt(null);
  return (
    <>
      <button
        type="button"
        class={`term ${props.class ?? ""}`}
        aria-describedby={at ? id : undefined}
        onPointerEnter={show}
        onPointerLeave={hide}
        onFocus={show}
        onBlur={hide}
        onKeyDown={(event) => event.key === "Escape" && hide()}
      >
        {children}
      </button>
      {at && (
        <Card x={at.x} y={at.y} id={id}>
          <p>{about}</p>
        </Card>
      )}
    </>
  );
}
