// The row above the waterfall: search, layout, requests, notes, which ranks, and the zoom.
import type { Layout } from "../lib/hash.ts";
import { layout, measured, spanMs, stretch } from "../pointing.ts";
import { onlyOpenRank, openRank, rankNames, zoomed } from "../state.ts";
import { Notes } from "./Notes.tsx";
import { Requests } from "./Requests.tsx";
import { Search } from "./Search.tsx";
import { fit, zoomSteps } from "./timeline/model.ts";
import { zoomAtFocus } from "./waterfall/model.ts";

const LAYOUTS: readonly (readonly [layout: Layout, name: string, about: string])[] = [
  ["time", "Time", "All ranks on one axis of time"],
  ["rows", "Rows", "A row a cycle, each from its own start, the newest first"],
];

/** What is shown, and how much of it. */
export function Tools() {
  return (
    <div class="tools">
      <Search />
      <Layouts />
      <Requests />
      <Notes />
      <Ranks />
      {layout.value === "time" ? <TimeZoom /> : <RowsZoom />}
    </div>
  );
}

function Layouts() {
  return (
    <fieldset class="segments" aria-label="Layout of the waterfall">
      {LAYOUTS.map(([each, name, about]) => (
        <button
          key={each}
          type="button"
          title={about}
          aria-pressed={layout.value === each}
          onClick={() => {
            layout.value = each;
          }}
        >
          {name}
        </button>
      ))}
    </fieldset>
  );
}

function TimeZoom() {
  return (
    <Zoom
      canFit={stretch.value !== null || spanMs.value !== null || measured.value !== null}
      onFit={fit}
      onZoom={zoomSteps}
    />
  );
}

function RowsZoom() {
  return (
    <Zoom
      canFit={zoomed.value !== null}
      onFit={() => {
        zoomed.value = null;
      }}
      onZoom={zoomAtFocus}
    />
  );
}

function Zoom(props: {
  readonly canFit: boolean;
  readonly onFit: () => void;
  readonly onZoom: (steps: number) => void;
}) {
  return (
    <>
      <button type="button" class="button" disabled={!props.canFit} onClick={props.onFit}>
        Fit
      </button>
      <button
        type="button"
        class="button icon"
        aria-label="Zoom out"
        onClick={() => props.onZoom(-1)}
      >
        −
      </button>
      <button
        type="button"
        class="button icon"
        aria-label="Zoom in"
        onClick={() => props.onZoom(1)}
      >
        +
      </button>
    </>
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
