// A canvas in a box that scrolls: where it is, how it is drawn, and the wheel above it.
import type { Signal } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";
import type { Box } from "./model.ts";

/** So long a pointer rests before what is below it is explained. */
export const HOVER_MS = 60;
/** The zoom of a px of the wheel. */
export const WHEEL = 1.0015;

/** An element of the page once it is there. */
interface Held<E> {
  readonly current: E | null;
}

/** What a picture is drawn on, in CSS px. */
interface Sized {
  readonly width: number;
  readonly height: number;
}

/** Follows the place and the size of the scrolled box. */
export function useBox(scroller: Held<HTMLDivElement>, box: Signal<Box>): void {
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

/** Draws each new scene onto the canvas, in CSS px and as sharp as the screen is. */
export function usePainting<S extends Sized>(
  canvas: Held<HTMLCanvasElement>,
  scene: S,
  paint: (ctx: CanvasRenderingContext2D, scene: S, font: string) => void,
): void {
  useLayoutEffect(() => {
    const surface = canvas.current;
    const ctx = surface?.getContext("2d");
    if (surface && ctx) {
      const scale = devicePixelRatio || 1;
      resize(surface, scene.width, scene.height, scale);
      ctx.setTransform(scale, 0, 0, scale, 0, 0);
      paint(ctx, scene, getComputedStyle(document.body).fontFamily);
    }
  }, [scene, canvas]);
}

/** Listens to the wheel so that `onWheel` can prevent the page's own zoom. */
export function useWheel(
  scroller: Held<HTMLDivElement>,
  onWheel: (event: WheelEvent) => void,
): void {
  useEffect(() => {
    // Not through a prop: those listeners are passive.
    const element = scroller.current;
    element?.addEventListener("wheel", onWheel, { passive: false });
    return () => element?.removeEventListener("wheel", onWheel);
  }, [scroller, onWheel]);
}

/** Gives a canvas its size in CSS px at a scale of the screen; a new size empties it. */
function resize(surface: HTMLCanvasElement, width: number, height: number, scale: number): void {
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (surface.width !== w || surface.height !== h) {
    surface.width = w;
    surface.height = h;
    surface.style.width = `${width}px`;
    surface.style.height = `${height}px`;
  }
}
