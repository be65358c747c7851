// The button that opens the dialog in which cycles are saved, and the dialog.
import { useEffect, useId, useState } from "preact/hooks";
import { bytes } from "../lib/format.ts";
import { exportInWords, formatName, type Part, partsOf } from "../lib/saving.ts";
import type { RunState } from "../lib/wire.ts";
import { layout } from "../pointing.ts";
import {
  askFormats,
  dropFile,
  exported,
  exportRefused,
  formats,
  makeFile,
  saving,
} from "../saving.ts";
import { cycles, run, tab } from "../state.ts";
import { Dialog } from "./Dialog.tsx";
import { canRecord, Record } from "./Record.tsx";
import { measuredRange, view } from "./timeline/model.ts";

/** Opens the dialog; it stands wherever the live dot does. */
export function SaveButton() {
  const recording = run.value?.recording ?? null;
  const active = recording?.active === true;
  return run.value === null ? null : (
    <button
      type="button"
      class="button save"
      aria-haspopup="dialog"
      title={active ? `Recording into ${recording.name}` : "Save what is collected, or record"}
      onClick={() => {
        saving.value = true;
      }}
    >
      {active && <span class="dot records" />}
      {active ? "Recording" : "Save"}
    </button>
  );
}

/** Closed until somebody asks for it. */
export function Save() {
  const title = useId();
  return (
    <Dialog
      open={saving.value && run.value !== null}
      title={title}
      class="ask"
      onClose={() => {
        saving.value = false;
      }}
    >
      {run.value && <Form current={run.value} title={title} />}
    </Dialog>
  );
}

function Form({ current, title }: { readonly current: RunState; readonly title: string }) {
  useEffect(() => {
    askFormats();
  }, []);
  return (
    <form
      method="dialog"
      onSubmit={() => {
        saving.value = false;
      }}
    >
      <h2 id={title}>Save what is collected</h2>
      <ExportPart current={current} />
      {canRecord(current) && (
        <>
          <hr />
          <Record current={current} />
        </>
      )}
    </form>
  );
}

/** What is in view when the dialog opens: behind it the picture goes on. */
function inViewNow() {
  const timed = tab.value === "live" && layout.value === "time" && cycles.value.length > 0;
  return timed ? view.value : null;
}

function ExportPart({ current }: { readonly current: RunState }) {
  const id = useId();
  const [stretches] = useState(() => ({ measured: measuredRange.value, view: inViewNow() }));
  const parts = partsOf(current.stored, stretches.measured, stretches.view);
  const [part, setPart] = useState<Part>(stretches.measured ? "measured" : "run");
  const [format, setFormat] = useState("spectrace");
  const found = exported.value;
  const making = found?.stage === "making";
  const chosen = parts.find((one) => one.part === part) ?? parts[0];
  const toggle = () => (making ? dropFile() : makeFile(current.run, format, chosen?.range ?? null));
  return (
    <>
      <p class="soft">
        The server is not asked: spectrace reads its own store, {bytes(current.stored.bytes)} in
        all, beside its other work, and makes a file of it.
      </p>
      <fieldset disabled={making}>
        <legend class="caption">Which cycles</legend>
        {parts.map((one) => (
          <label key={one.part} class="choice">
            <input
              type="radio"
              name="part"
              value={one.part}
              aria-label={one.name}
              aria-describedby={`${id}-${one.part}`}
              checked={chosen?.part === one.part}
              onChange={() => setPart(one.part)}
            />
            <span id={`${id}-${one.part}`}>
              <b>{one.name}</b> {one.what}
            </span>
          </label>
        ))}
        <label class="field">
          Format
          <select value={format} onChange={(event) => setFormat(event.currentTarget.value)}>
            {(formats.value.length > 0 ? formats.value : ["spectrace"]).map((one) => (
              <option key={one} value={one}>
                {formatName(one)}
              </option>
            ))}
          </select>
        </label>
      </fieldset>
      <div class="row">
        <button type="submit" class="button" autofocus={true}>
          Close
        </button>
        {/* One button, so that the keyboard does not lose its place. */}
        <button type="button" class="button primary" onClick={toggle}>
          {making ? "Cancel" : "Make the file"}
        </button>
      </div>
      <p aria-live="polite">{found && exportInWords(found)}</p>
      {found?.stage === "ready" && (
        <p>
          <a href={`api/exports/${encodeURIComponent(found.id)}/file`} download={found.name}>
            {found.name}
          </a>{" "}
          <span class="soft">{bytes(found.bytes)}</span>
        </p>
      )}
      {exportRefused.value && (
        <p class="bad" role="alert">
          {exportRefused.value}
        </p>
      )}
    </>
  );
}
