// Bars that are made of pieces, one after the other from 0.

/** A piece of a bar, along its axis; no name is what no phase covers. */
export interface Piece {
  readonly name: string | null;
  readonly from: number;
  readonly to: number;
}

/** Parts one after the other; one that is below 0, for rounding, takes no room. */
export function piled(
  parts: readonly { readonly name: string | null; readonly size: number }[],
): readonly Piece[] {
  const pieces: Piece[] = [];
  for (const { name, size } of parts) {
    const from = endOf(pieces);
    pieces.push({ name, from, to: from + Math.max(0, size) });
  }
  return pieces;
}

/** Where a bar ends. */
export function endOf(pieces: readonly Piece[]): number {
  return pieces.at(-1)?.to ?? 0;
}
