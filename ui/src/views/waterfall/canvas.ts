// A canvas in a box that scrolls: where it is, and how many px it has.
import type { Signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import type { Box } from "./model.ts";

/** Follows the place and the size of the scrolled box. */
export function useBox(
  scroller: { readonly current: HTMLDivElement | null },
  box: Signal<Box>,
): void {
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) {
      return;
    }
    const measure = () => {
      const { left, top } = element.getBoundingClientRect();
      box.value = { left, top, width: element.clientWidth, height: element.clientHeight };
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    // What stands above can grow without a change of this box's own size.
    observer.observe(document.body);
    addEventListener("scroll", measure, { passive: true });
    element.addEventListener("pointerenter", measure);
    return () => {
      observer.disconnect();
      removeEventListener("scroll", measure);
      element.removeEventListener("pointerenter", measure);
    };
  }, [scroller, box]);
}

/** Gives a canvas its size in CSS px at a scale of the screen; a new size empties it. */
export function resize(
  surface: HTMLCanvasElement,
  width: number,
  height: number,
  scale: number,
): void {
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (surface.width !== w || surface.height !== h) {
    surface.width = w;
    surface.height = h;
    surface.style.width = `${width}px`;
    surface.style.height = `${height}px`;
  }
}
