// Whether the picture follows the server, and the button that changes it.
import { secondsToRetry } from "../lib/connection.ts";
import { clock, whole } from "../lib/format.ts";
import { endInWords, isTraced } from "../lib/run.ts";
import { clockMs, connection, pause, paused, resume, run } from "../state.ts";

/** The live dot, or what stands in its place, with its button. */
export function LiveControl() {
  const state = connection.value;
  if (state.kind === "lost") {
    return <Lost />;
  }
  const current = run.value;
  const ended = current !== null && !isTraced(current);
  const frozen = paused.value;
  if (frozen) {
    return (
      <div class="live">
        <span class="dot ring" />
        <b>Paused</b>
        {frozen.fresh > 0 ? (
          <span class="soft">{whole(frozen.fresh)} new</span>
        ) : (
          <span class="soft roomy">at {clock(frozen.atMs)}</span>
        )}
        <button type="button" class="button primary" onClick={resume}>
          {ended ? "Back to the newest" : "Back to live"} <kbd class="roomy">Space</kbd>
        </button>
      </div>
    );
  }
  return (
    <div class="live">
      <Dot />
      <span>{statusWord()}</span>
      {current && !ended && (
        <button type="button" class="button" onClick={pause}>
          <svg width="8" height="10" viewBox="0 0 8 10" aria-hidden="true">
            <path d="M0 0h3v10H0zM5 0h3v10H5z" fill="currentColor" />
          </svg>
          Pause
        </button>
      )}
    </div>
  );
}

function Dot() {
  const current = run.value;
  const alive =
    connection.value.kind === "open" && current !== null && endInWords(current) === null;
  return <span class={alive ? "dot breathes" : "dot ring"} />;
}

function statusWord(): string {
  const current = run.value;
  if (connection.value.kind === "connecting") {
    return "Connecting";
  }
  if (!current) {
    return "Waiting";
  }
  if (!isTraced(current)) {
    return "Ended";
  }
  if (current.state === "lost_sender") {
    return "Silent";
  }
  return current.state === "idle" ? "Live, idle" : "Live";
}

function Lost() {
  const seconds = secondsToRetry(connection.value, clockMs.value);
  return (
    <div class="live">
      <span class="dot ring" />
      <span class="soft">
        {seconds > 0 ? `Not connected, trying again in ${seconds} s` : "Not connected, trying now"}
      </span>
    </div>
  );
}
