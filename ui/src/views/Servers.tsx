// The servers of this machine: their list, and the dialog that asks before one is attached to.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { CHOICES } from "../lib/control.ts";
import {
  costInWords,
  type FoundServer,
  nameOf,
  partsInWords,
  statusInWords,
  tracedHere,
  undoInWords,
} from "../lib/servers.ts";
import {
  type Asked,
  asked,
  attachTo,
  found,
  leave,
  lookFailure,
  lookForServers,
  looking,
} from "../servers.ts";
import { server } from "../state.ts";
import { Dialog } from "./Dialog.tsx";

/** How a server is timed of which nobody asks for anything else. */
const UNASKED = "device";

/** Opens the dialog; there where spectrace may attach to something. */
export function ServersButton() {
  return server.value?.attaches ? (
    <button
      type="button"
      class="button attach"
      aria-haspopup="dialog"
      title="Servers of this machine: attach to one, or leave it"
      onClick={() => {
        asked.value = { kind: "list" };
      }}
    >
      Attach
    </button>
  ) : null;
}

/** Closed until somebody asks for it. */
export function Servers() {
  const title = useId();
  const shown = asked.value;
  return (
    <Dialog
      open={shown !== null}
      title={title}
      class="ask"
      onClose={() => {
        asked.value = null;
      }}
      onClosed={() => {
        if (document.activeElement === document.body) {
          // What opened it went with the empty page.
          document.querySelector<HTMLElement>(".top .attach")?.focus();
        }
      }}
    >
      {shown && <Step key={shown.kind} shown={shown} title={title} />}
    </Dialog>
  );
}

function Step({ shown, title }: { readonly shown: Asked; readonly title: string }) {
  switch (shown.kind) {
    case "attach":
      return <AttachForm found={shown.server} title={title} />;
    case "leave":
      return <LeaveForm found={shown.server} title={title} />;
    default:
      return (
        <form method="dialog">
          <h2 id={title}>Servers of this machine</h2>
          <ServerList />
          <Buttons first="Close">
            <LookAgain />
          </Buttons>
        </form>
      );
  }
}

/** The servers, each with what can be done; looks for them when it appears. */
export function ServerList() {
  const runs = server.value?.runs ?? [];
  const all = found.value ?? [];
  const here = all.filter((one) => tracedHere(one, runs)).map((one) => one.run);
  useEffect(() => {
    void lookForServers();
  }, [here.join(" ")]); // what was found is over with each that is attached to or left
  return (
    <>
      <ul class="servers">
        {all.map((one) => (
          <Server key={one.run} one={one} here={here.includes(one.run)} />
        ))}
      </ul>
      <p class="soft" aria-live="polite">
        {lookedInWords(all.length)}
      </p>
      {lookFailure.value && (
        <p class="bad" role="alert">
          {lookFailure.value}
        </p>
      )}
    </>
  );
}

/** Has the list made anew. */
export function LookAgain() {
  return (
    <button type="button" class="button" onClick={() => void lookForServers()}>
      Look again
    </button>
  );
}

function lookedInWords(count: number): string {
  if (looking.value) {
    return "Looking for servers.";
  }
  const none = found.value !== null && count === 0;
  return none ? "No SGLang server runs here, or none that you may see." : "";
}

function Server({ one, here }: { readonly one: FoundServer; readonly here: boolean }) {
  const verb = here ? "End tracing" : "Attach";
  return (
    <li>
      <div>
        <b>{nameOf(one)}</b>
        <p>{partsInWords(one)}</p>
        <p class="soft">{statusInWords(one, here)}</p>
        {!here && <Obstacle one={one} />}
      </div>
      <button
        type="button"
        class="button"
        aria-haspopup="dialog"
        aria-label={`${verb}${here ? " of" : " to"} server ${one.pid}`}
        onClick={() => {
          asked.value = { kind: here ? "leave" : "attach", server: one };
        }}
      >
        {verb}
      </button>
    </li>
  );
}

function Obstacle({ one }: { readonly one: FoundServer }) {
  return one.obstacle ? (
    <p>
      <span class="bad">In the way: {one.obstacle}</span> {one.mend && `To mend it: ${one.mend}.`}
    </p>
  ) : null;
}

/** Of what costs a server something, nothing is the first choice: it has the focus. */
function Buttons(props: { readonly first: string; readonly children?: preact.ComponentChildren }) {
  const first = useRef<HTMLButtonElement>(null);
  useEffect(() => first.current?.focus(), []); // where the dialog was open already
  return (
    <div class="row">
      <button type="submit" class="button" autofocus={true} ref={first}>
        {props.first}
      </button>
      {props.children}
    </div>
  );
}

function AttachForm({
  found: one,
  title,
}: {
  readonly found: FoundServer;
  readonly title: string;
}) {
  const [mode, setMode] = useState(UNASKED);
  const [busy, setBusy] = useState(false);
  const [said, setSaid] = useState("");
  const [refused, setRefused] = useState("");
  const along = one.reader !== "";
  const attach = async () => {
    setBusy(true);
    setRefused("");
    const failure = await attachTo(one, along || mode === UNASKED ? null : mode);
    setBusy(false);
    setRefused(failure);
    setSaid(failure ? "" : "Attached. It is shown here in a moment.");
  };
  return (
    <form method="dialog">
      <h2 id={title}>Attach to server {one.pid}</h2>
      <p>
        <b>{nameOf(one)}</b> <span class="soft">{partsInWords(one)}</span>
      </p>
      <Obstacle one={one} />
      <p class="soft">{costInWords(one)}</p>
      {!along && (
        <label class="field">
          Timing
          <select
            disabled={busy}
            value={mode}
            onChange={(event) => setMode(event.currentTarget.value)}
          >
            {CHOICES.map((each) => (
              <option key={each.mode} value={each.mode}>
                {each.mode}
              </option>
            ))}
          </select>
        </label>
      )}
      {!along && <p class="soft">{whatAndCost(mode)}</p>}
      <p class="soft">{undoInWords(one)} What tracing takes of each cycle stands in the header.</p>
      <Buttons first={said ? "Close" : "Cancel"}>
        <button
          type="button"
          class="button primary"
          disabled={busy || said !== ""}
          onClick={attach}
        >
          {along ? "Read along" : "Attach"}
        </button>
      </Buttons>
      <p aria-live="polite">{busy ? "Attaching." : said}</p>
      <Refused why={refused} />
    </form>
  );
}

function whatAndCost(mode: string): string {
  const choice = CHOICES.find((one) => one.mode === mode);
  return choice ? `${choice.what} ${choice.cost}` : "";
}

function LeaveForm({ found: one, title }: { readonly found: FoundServer; readonly title: string }) {
  const run = tracedHere(one, server.value?.runs ?? []);
  const [asking, setAsking] = useState(false);
  const [refused, setRefused] = useState("");
  const end = async () => {
    setAsking(true);
    const failure = await leave(one.run);
    setAsking(failure === "");
    setRefused(failure);
  };
  return (
    <form method="dialog">
      <h2 id={title}>End tracing of server {one.pid}</h2>
      <p>
        <b>{nameOf(one)}</b> <span class="soft">{partsInWords(one)}</span>
      </p>
      <p class="soft">
        The probe is taken out and every function put back; where another spectrace reads it, it
        stays for that one. What was collected stays here until the command ends.
      </p>
      <Buttons first={run ? "Cancel" : "Close"}>
        <button type="button" class="button primary" disabled={asking || !run} onClick={end}>
          End tracing
        </button>
      </Buttons>
      <p aria-live="polite">{leavingInWords(run !== null, asking)}</p>
      <Refused why={refused} />
    </form>
  );
}

function leavingInWords(traced: boolean, asking: boolean): string {
  if (!traced) {
    return "Tracing has ended. What was collected stays here.";
  }
  return asking ? "Tracing ends." : "";
}

function Refused({ why }: { readonly why: string }) {
  return why ? (
    <p class="bad" role="alert">
      {why}
    </p>
  ) : null;
}
