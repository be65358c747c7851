// What a phase is made of as one bar: a piece for each class of kernels, in the colour of the phase.
import { share } from "../lib/format.ts";
import type { ClassShare } from "../lib/madeOf.ts";
import { phaseColour } from "../lib/tokens.ts";
import { theme } from "../state.ts";
import { useWidth } from "./width.ts";

/** So wide is a letter of 11 px at the most, and what is free beside a word. */
const LETTER = 6.6;
const ROOM = 10;
/** Between two pieces, in px. */
const APART = 2;

/** Pieces are told apart by the line between them and by their names, where these fit. */
export function ClassBar(props: {
  readonly phase: string;
  readonly classes: readonly ClassShare[];
  /** Which share of the room it takes, from 0 to 1. */
  readonly length?: number;
}) {
  const { phase, classes, length = 1 } = props;
  const [box, width] = useWidth();
  const { fill, label } = phaseColour(phase === "" ? "schedule" : phase, theme.value);
  const room = Math.max(0, width * length - APART * (classes.length - 1));
  return (
    <div class="classbar" aria-hidden="true" ref={box}>
      <div style={{ width: `${length * 100}%` }}>
        {classes.map((one) => (
          <i key={one.kernelClass} style={{ flex: one.share, background: fill, color: label }}>
            {labelOf(one, room)}
          </i>
        ))}
      </div>
    </div>
  );
}

function labelOf({ kernelClass, share: part }: ClassShare, room: number): string {
  const forms = [`${kernelClass} ${share(part)}`, kernelClass];
  return forms.find((form) => form.length * LETTER + ROOM < part * room) ?? "";
}
