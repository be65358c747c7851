// What a reader should know of how the run in view is traced, behind one button.
import { notesOf } from "../lib/notes.ts";
import { run } from "../state.ts";
import { Panel } from "./Panel.tsx";

/** Nothing where there is nothing to say. */
export function Notes() {
  const notes = run.value ? notesOf(run.value) : [];
  return notes.length > 0 ? (
    <Panel label={`Notes ${notes.length}`} class="button">
      <ul class="notes" aria-label="Notes">
        {notes.map((note) => (
          <li key={note}>{note}</li>
        ))}
      </ul>
    </Panel>
  ) : null;
}
