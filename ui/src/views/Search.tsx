// The search field: finds cycles among those that are here, and goes from one to the next.
import { useId } from "preact/hooks";
import { plural, whole } from "../lib/format.ts";
import { nextFound, parseQuery } from "../lib/search.ts";
import { find } from "../pointing.ts";
import { cycles, run, select, selectedCycle } from "../state.ts";
import { found } from "./timeline/model.ts";

/** Puts the keyboard into the field; false where there is none. */
export function focusSearch(): boolean {
  const field = document.querySelector<HTMLInputElement>(".search input");
  field?.focus();
  field?.select();
  return field !== null;
}

/** The field, what it found, and the way to it. */
export function Search() {
  const field = useId();
  const said = useId();
  const some = (found.value?.length ?? 0) > 0;
  return (
    <search class="search">
      <label class="unseen" for={field}>
        Search cycles
      </label>
      <input
        id={field}
        type="text"
        autocomplete="off"
        spellcheck={false}
        placeholder="/  cycle, request, slower than 35 ms, accepted < 2"
        value={find.value}
        aria-describedby={said}
        onInput={(event) => {
          find.value = event.currentTarget.value;
        }}
        onKeyDown={onKeyDown}
      />
      <span class="caption found" id={said} role="status">
        {inWords()}
      </span>
      {some && (
        <>
          <button
            type="button"
            class="button icon"
            aria-label="Found before"
            title="Found before (Enter)"
            onClick={() => go(-1)}
          >
            ‹
          </button>
          <button
            type="button"
            class="button icon"
            aria-label="Found after"
            title="Found after (Shift + Enter)"
            onClick={() => go(1)}
          >
            ›
          </button>
        </>
      )}
    </search>
  );
}

function onKeyDown(event: KeyboardEvent): void {
  const field = event.currentTarget as HTMLInputElement;
  if (event.key === "Enter") {
    go(event.shiftKey ? 1 : -1);
    event.preventDefault();
  } else if (event.key === "Escape") {
    if (find.value === "") {
      field.blur();
    }
    find.value = "";
    event.preventDefault();
  }
}

/** Selects what is found before or after the selected cycle. */
function go(by: 1 | -1): void {
  const query = parseQuery(find.value);
  const here = found.value ?? [];
  if (query && query.n !== null && here.length === 0) {
    // Not among those that are here; the server may still have it.
    select({ group: cycles.value.at(-1)?.group ?? "", n: query.n });
    return;
  }
  const next = nextFound(here, selectedCycle.value?.t0Ms ?? null, by);
  if (next) {
    select({ group: next.group, n: next.n });
  }
}

function inWords(): string {
  const here = found.value;
  if (!here) {
    return "";
  }
  const query = parseQuery(find.value);
  if (here.length === 0 && query !== null && query.n !== null && run.value) {
    return "Not here: Enter asks the store";
  }
  const place = selectedCycle.value ? here.indexOf(selectedCycle.value) : -1;
  const all = plural(cycles.value.length, "cycle");
  return place < 0
    ? `${whole(here.length)} of ${all} here`
    : `${whole(place + 1)} of ${whole(here.length)}`;
}
