// The row above the waterfall: requests, notes, which ranks, and the zoom.
import { onlyOpenRank, openRank, rankNames, zoomed } from "../state.ts";
import { Notes } from "./Notes.tsx";
import { Requests } from "./Requests.tsx";
import { zoomAtFocus } from "./waterfall/model.ts";

/** What is shown, and how much of it. */
export function Tools() {
  return (
    <div class="tools">
      <span class="caption wide">newest cycle first, each from its own start</span>
      <div class="grow" />
      <Requests />
      <Notes />
      <Ranks />
      <button
        type="button"
        class="button"
        disabled={zoomed.value === null}
        onClick={() => {
          zoomed.value = null;
        }}
      >
        Fit
      </button>
      <button
        type="button"
        class="button icon"
        aria-label="Zoom out"
        onClick={() => zoomAtFocus(-1)}
      >
        −
      </button>
      <button type="button" class="button icon" aria-label="Zoom in" onClick={() => zoomAtFocus(1)}>
        +
      </button>
    </div>
  );
}

function Ranks() {
  const names = rankNames.value;
  if (names.length < 2) {
    return null;
  }
  const only = onlyOpenRank.value ? (openRank.value ?? names[0] ?? "") : "";
  return (
    <select
      aria-label="Ranks in the waterfall"
      title={only}
      value={only}
      onChange={(event) => {
        const chosen = event.currentTarget.value;
        onlyOpenRank.value = chosen !== "";
        openRank.value = chosen || openRank.value;
      }}
    >
      <option value="">All {names.length} ranks</option>
      {names.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}
