// All keys, and what the search field understands, in a dialog.
import { type Signal, signal } from "@preact/signals";
import { useId } from "preact/hooks";
import { layout } from "../pointing.ts";
import { Dialog } from "./Dialog.tsx";

type Lines = readonly (readonly [keys: readonly string[], does: string])[];

const EVERYWHERE: Lines = [
  [["?"], "this list"],
  [["Esc"], "close what is open, one thing at a time"],
];
const LIVE: Lines = [
  [["Space"], "pause, and back to live"],
  [["/"], "search"],
];
const TIME: Lines = [
  [["W", "S"], "zoom in and out, at the pointer if it is over the picture"],
  [["A", "D"], "move to the left and right"],
  [["\u2190", "\u2192"], "the same; with a cycle selected, the cycle before and after"],
  [["F"], "fit: what is measured, the selected cycle, or as many of the newest as suit"],
  [["0"], "everything that is here"],
  [["M"], "a mark at the pointer or at the selected cycle; there again takes it away"],
  [["Enter"], "select the newest cycle in view, or the one of the phase"],
  [["[", "]"], "phases of a cycle, one after the other"],
  [[",", "."], "kernels, where a look has seen them, beginning with those of the phase"],
  [["J", "K"], "ranks"],
  [["L"], "the other lane"],
];
const POINTER: Lines = [
  [["drag"], "measure a stretch: count, sum and percentiles of each phase"],
  [["Shift", "drag"], "move; a finger moves without it"],
  [["Ctrl", "wheel"], "zoom at the pointer"],
  [["click"], "the details of a cycle; in the strip chart of the slowest one of that second"],
];
const ROWS: Lines = [
  [["\u2191", "\u2193"], "cycles"],
  [["\u2190", "\u2192"], "phases; with Shift the picture moves"],
  [["W", "S"], "zoom in and out"],
  [["A", "D"], "move to the left and right"],
  [["F"], "fit"],
  [[",", "."], "kernels, where a look has seen them"],
  [["J", "K"], "ranks"],
  [["L"], "the other lane"],
  [["Enter"], "details"],
];

/** Whether the list is open. */
export const helping: Signal<boolean> = signal(false);

/** Closed until somebody asks for it. */
export function Help() {
  const title = useId();
  return (
    <Dialog
      open={helping.value}
      title={title}
      class="help"
      onClose={() => {
        helping.value = false;
      }}
    >
      <Contents title={title} />
    </Dialog>
  );
}

function Contents({ title }: { readonly title: string }) {
  return (
    <>
      <div class="title">
        <h2 id={title}>Keys</h2>
        <button
          type="button"
          class="button"
          onClick={() => {
            helping.value = false;
          }}
        >
          Close <kbd>Esc</kbd>
        </button>
      </div>
      <Keys name="Everywhere" lines={EVERYWHERE} />
      <Keys name="Live" lines={LIVE} />
      {layout.value === "time" ? (
        <>
          <Keys name="On the axis of time" lines={TIME} />
          <Keys name="With the pointer" lines={POINTER} />
        </>
      ) : (
        <Keys name="In the rows" lines={ROWS} />
      )}
      <h3>Search</h3>
      <p class="soft">
        A cycle's number, a part of a request's id, <code>slower than 35 ms</code>,{" "}
        <code>faster than 9 ms</code>, <code>accepted fewer than 2</code> (drafts of each verify, on
        average), <code>accepted more than 4</code>, <code>batch 8</code>, <code>prefill</code>.
        Several with a comma between them must all hold. Enter goes to the one before, Shift and
        Enter to the one after.
      </p>
    </>
  );
}

function Keys({ name, lines }: { readonly name: string; readonly lines: Lines }) {
  return (
    <>
      <h3>{name}</h3>
      <table>
        <tbody>
          {lines.map(([keys, does]) => (
            <tr key={does}>
              <th scope="row">
                {keys.map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </th>
              <td>{does}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
