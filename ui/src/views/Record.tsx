// The part of the dialog in which a run is recorded into a file where spectrace runs.
import { useId, useState } from "preact/hooks";
import type { Answer } from "../fetching.ts";
import { bytes } from "../lib/format.ts";
import {
  bytesPerMinute,
  decodeRecording,
  newName,
  type Recording,
  recordingInWords,
  SIZES,
} from "../lib/recording.ts";
import { isTraced } from "../lib/run.ts";
import type { RunState } from "../lib/wire.ts";
import { figures } from "../state.ts";
import { wished } from "../wishing.ts";

/** Starts and stops; the file is made, whatever becomes of this page. */
export function Record({ current }: { readonly current: RunState }) {
  const id = useId();
  const [name, setName] = useState(() => newName(Date.now()));
  const [most, setMost] = useState(1e9);
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState("");
  const found = current.recording;
  const active = found?.active === true;
  const toggle = async () => {
    setBusy(true);
    setRefused("");
    const answer = await (active ? stop(current.run) : start(current.run, name, most));
    setBusy(false);
    if ("failure" in answer) {
      setRefused(answer.failure);
    } else if (active) {
      setName(newName(Date.now())); // the other is taken
    }
  };
  return (
    <>
      <h3 id={id}>Record what comes from now on</h3>
      <p class="soft">
        The server does not notice: spectrace stores each cycle a second time, in the folder where
        it runs. {costInWords(current)} The file is whole when you stop, the run ends or spectrace
        does.
      </p>
      <fieldset disabled={busy || active} aria-labelledby={id}>
        <label class="field">
          Name
          <input
            type="text"
            autocomplete="off"
            spellcheck={false}
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <label class="field">
          At most
          <select
            value={String(most)}
            onChange={(event) => setMost(Number(event.currentTarget.value))}
          >
            {SIZES.map((one) => (
              <option key={one} value={String(one)}>
                {bytes(one)}; beyond it the oldest cycles go
              </option>
            ))}
          </select>
        </label>
      </fieldset>
      <div class="row">
        {/* Busy without being disabled, so that the keyboard does not lose its place. */}
        <button
          type="button"
          class="button"
          aria-disabled={busy}
          onClick={() => {
            if (!busy) {
              toggle();
            }
          }}
        >
          {active ? "Stop recording" : "Record"}
        </button>
      </div>
      <p aria-live="polite">{found && recordingInWords(found)}</p>
      {(refused || found?.problem) && (
        <p class="bad" role="alert">
          {refused || found?.problem}
        </p>
      )}
    </>
  );
}

/** Whether there is anything to record, or to say of what was. */
export function canRecord(current: RunState): boolean {
  return current.recording !== null || isTraced(current);
}

function costInWords(current: RunState): string {
  const rate = figures.value.summary?.cycles_per_s ?? null;
  const amount = bytesPerMinute(current.stored, rate);
  return amount === null ? "" : `At this rate that is about ${bytes(amount)} a minute.`;
}

function start(run: string, name: string, most: number): Promise<Answer<Recording | null>> {
  const wish = { name, max_bytes: most };
  return wished(`runs/${encodeURIComponent(run)}/recording`, wish, decodeRecording);
}

function stop(run: string): Promise<Answer<Recording | null>> {
  return wished(`runs/${encodeURIComponent(run)}/recording/stop`, {}, decodeRecording);
}
