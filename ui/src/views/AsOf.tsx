// What stands above figures that were read from the store: as of when, and how to read them again.
import { clock } from "../lib/format.ts";

/** `ms` is when what is shown was answered (UNIX ms); null while nothing of the kind is shown. */
export function AsOf(props: {
  readonly ms: number | null;
  readonly asking: boolean;
  readonly reading?: string;
}) {
  const { ms, asking, reading = "Reading what is stored" } = props;
  return (
    <span class="soft" role="status">
      {ms === null ? asking && reading : `As of ${clock(ms)}`}
    </span>
  );
}

/** Asks at once. */
export function ReadAgain(props: { readonly disabled: boolean; readonly ask: () => void }) {
  return (
    <button type="button" class="button" disabled={props.disabled} onClick={props.ask}>
      Read again
    </button>
  );
}

/** What did not come, and why; nothing where there is no reason. */
export function Failure(props: { readonly what: string; readonly why: string | null | undefined }) {
  return props.why ? (
    <p class="failure" role="alert">
      <b>{props.what}</b> {props.why}
    </p>
  ) : null;
}
