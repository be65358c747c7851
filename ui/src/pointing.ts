// What the reader points at in the waterfall: part of the one store, and of the address.
import { type Signal, signal } from "@preact/signals";
import { type Layout, parseHash } from "./lib/hash.ts";
import type { Mark } from "./lib/marks.ts";
import type { Anchored } from "./lib/timeline.ts";

const initial = parseHash(globalThis.location?.hash ?? "");

export const layout: Signal<Layout> = signal(initial.layout);
/** The stretch of the axis of time that is in view; null follows the newest cycles. */
export const stretch: Signal<Anchored | null> = signal(initial.stretch);
/** How much time is in view while the newest cycles are followed, in ms; null is what suits. */
export const spanMs: Signal<number | null> = signal(initial.stretch?.lengthMs ?? null);
/** The stretch that is measured. */
export const measured: Signal<Anchored | null> = signal(initial.measured);
export const marks: Signal<readonly Mark[]> = signal(initial.marks);
/** The words in the search field. */
export const find: Signal<string> = signal(initial.find);
