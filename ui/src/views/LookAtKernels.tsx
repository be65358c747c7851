// The dialog that asks before kernels are looked at, and the line that says how far a look is.
import { useEffect, useId, useState } from "preact/hooks";
import { type Answer, fetched } from "../fetching.ts";
import { lookAsked, watchedLook } from "../kernels.ts";
import { span, whole } from "../lib/format.ts";
import { formatHash } from "../lib/hash.ts";
import { isUnderWay, lookingInWords } from "../lib/kernelLook.ts";
import {
  cyclesOf,
  decodeProspect,
  MOST_CYCLES,
  type Prospect,
  USUAL_CYCLES,
} from "../lib/prospect.ts";
import type { RunState } from "../lib/wire.ts";
import { figures, place, run, tab } from "../state.ts";
import { wished } from "../wishing.ts";
import { Dialog } from "./Dialog.tsx";

const PATIENCE_MS = 30_000;

/** Opens the dialog; there where this server can be timed from here. */
export function LookButton(props: { readonly current: RunState; readonly onClick?: () => void }) {
  const { current, onClick } = props;
  return current.steerable ? (
    <button
      type="button"
      class="button"
      aria-haspopup="dialog"
      disabled={isUnderWay(current.looking)}
      onClick={() => {
        onClick?.();
        lookAsked.value = true;
      }}
    >
      Look at kernels…
    </button>
  ) : null;
}

/** Closed until somebody asks for it. */
export function LookAtKernels() {
  const title = useId();
  const current = run.value;
  const close = () => {
    lookAsked.value = false;
  };
  return (
    <Dialog
      open={lookAsked.value && current !== null}
      title={title}
      class="ask"
      onClose={close}
      onClosed={() => {
        if (document.activeElement === document.body) {
          // What opened it went with its own dialog.
          document.querySelector<HTMLElement>(".top .steers")?.focus();
        }
      }}
    >
      {current && <Form key={current.run} current={current} title={title} close={close} />}
    </Dialog>
  );
}

interface FormProps {
  readonly current: RunState;
  /** Id of its heading. */
  readonly title: string;
  readonly close: () => void;
}

function Form({ current, title, close }: FormProps) {
  const [prospect, setProspect] = useState<Answer<Prospect> | null>(null);
  useEffect(() => {
    const gone = new AbortController();
    const path = `runs/${encodeURIComponent(current.run)}/kernels/prospect`;
    const signal = AbortSignal.any([gone.signal, AbortSignal.timeout(PATIENCE_MS)]);
    fetched(path, decodeProspect, signal).then((answer) => {
      if (!gone.signal.aborted) {
        setProspect(answer);
      }
    });
    return () => gone.abort();
  }, []);
  const found = prospect && "value" in prospect ? prospect.value : null;
  return (
    <form method="dialog" onSubmit={close}>
      <h2 id={title}>Look at kernels</h2>
      <p class="soft">
        Says of what each phase is made on the GPU: which kernels run, for how long, with what gaps,
        and what share of it is communication.
      </p>
      <p aria-live="polite">{prospect ? "" : "spectrace looks whether the way is open."}</p>
      {prospect && "failure" in prospect && (
        <p class="bad" role="alert">
          {prospect.failure}
        </p>
      )}
      {found && !found.open && <Closed prospect={found} />}
      {found?.open ? (
        <Open current={current} close={close} />
      ) : (
        <div class="row">
          <button type="submit" class="button" autofocus={true}>
            Close
          </button>
        </div>
      )}
    </form>
  );
}

/** Why not, and what to do instead. */
function Closed({ prospect }: { readonly prospect: Prospect }) {
  return (
    <>
      <p>
        <b>There can be no look.</b> {prospect.why}
      </p>
      {prospect.mend && <p class="soft">{prospect.mend}</p>}
    </>
  );
}

function Open({ current, close }: Omit<FormProps, "title">) {
  const about = useId();
  const [typed, setTyped] = useState(String(USUAL_CYCLES));
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState("");
  const cycles = cyclesOf(typed);
  const can = cycles !== null && !busy && current.steerable && !isUnderWay(current.looking);
  const look = async () => {
    setBusy(true);
    setRefused("");
    const path = `runs/${encodeURIComponent(current.run)}/kernels`;
    const answer = await wished(path, { cycles }, () => null);
    setBusy(false);
    if ("failure" in answer) {
      setRefused(answer.failure);
    } else {
      watchedLook.value = current.run;
      close();
    }
  };
  return (
    <>
      <p>
        NVIDIA's CUPTI records what the GPU does, on all ranks of process {current.server_pid} in
        the same cycles. Loading it holds each rank up once, for a tenth of a second to some
        seconds, and cycles in the window take longer. It closes behind its last cycle, and before
        if these take four times as long as usual and more than 10 s.
      </p>
      <p>
        <b>What stays in the server until it ends:</b> CUPTI's library and its worker thread, which
        then has nothing to do. A restart of the server undoes that, nothing else.
      </p>
      <label class="field">
        <span>Cycles</span>
        <input
          type="number"
          inputMode="numeric"
          min={1}
          max={MOST_CYCLES}
          step={1}
          value={typed}
          aria-describedby={about}
          onInput={(event) => {
            setTyped(event.currentTarget.value);
            setRefused("");
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter") {
              event.preventDefault(); // which would close the dialog
              if (can) {
                void look();
              }
            }
          }}
        />
      </label>
      <p class="soft" id={about}>
        {cycles === null
          ? `From 1 to ${whole(MOST_CYCLES)}.`
          : `A quarter of them with graphs seen whole, the others kernel by kernel.${lengthInWords(cycles)}`}
      </p>
      <div class="row">
        {/* Of what costs a server something, nothing is the first choice. */}
        <button type="submit" class="button" autofocus={true} ref={focusAtFirst}>
          Cancel
        </button>
        <button type="button" class="button primary" disabled={!can} onClick={() => void look()}>
          Look at {cycles === null ? "" : whole(cycles)} {cycles === 1 ? "cycle" : "cycles"}
        </button>
      </div>
      {refused && (
        <p class="bad" role="alert">
          {refused}
        </p>
      )}
    </>
  );
}

/** The dialog is open already when its question comes. */
function focusAtFirst(button: HTMLButtonElement | null): void {
  if (button && !button.closest("dialog")?.contains(document.activeElement)) {
    button.focus();
  }
}

/** How long so many cycles take at the rate of now. */
function lengthInWords(cycles: number): string {
  const rate = figures.value.summary?.cycles_per_s ?? 0;
  return rate > 0 ? ` At this rate that is about ${span(Math.max(0.1, cycles / rate))}.` : "";
}

/** How far a look is; what came of it where this page saw it begin. */
export function LookNotice({ current }: { readonly current: RunState }) {
  const { looking } = current;
  if (!(looking && (isUnderWay(looking) || watchedLook.value === current.run))) {
    return null;
  }
  const { head, text } = lookingInWords(looking);
  const link = looking.stage === "done" && tab.value !== "kernels";
  return (
    <div class="notice">
      <p>
        <b>{head}</b> {text}{" "}
        {link && (
          <a href={formatHash({ ...place.value, tab: "kernels" })}>See what phases are made of</a>
        )}
      </p>
    </div>
  );
}
