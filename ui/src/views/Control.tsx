// The badge of the timing mode where it can be changed, and the dialog that asks before it is.
import { signal } from "@preact/signals";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import {
  CHOICES,
  decodeSwitches,
  everyInWords,
  everyOf,
  MOST_EVERY,
  SAMPLING,
  switchInWords,
} from "../lib/control.ts";
import { whole } from "../lib/format.ts";
import type { RunState } from "../lib/wire.ts";
import { server } from "../state.ts";
import { wished } from "../wishing.ts";
import { LookButton } from "./LookAtKernels.tsx";

/** Whether the dialog is open: it stays to say what came of a wish, also where nothing can be asked. */
export const controlOpen = signal(false);

/** A button with what it shows, which opens the dialog. */
export function Control(props: {
  readonly current: RunState;
  readonly mode: string;
  readonly slows: boolean;
  /** What the mode means. */
  readonly about: string;
  readonly children: preact.ComponentChildren;
}) {
  const { current, mode, slows, about, children } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const title = useId();
  const [opened, setOpened] = useState(0);
  useEffect(() => {
    if (opened > 0) {
      controlOpen.value = true;
      dialog.current?.showModal(); // with its form in it, else nothing there has the focus
    }
  }, [opened]);
  return (
    <>
      <button
        type="button"
        class={slows ? "badge steers warn" : "badge steers"}
        aria-haspopup="dialog"
        title={`${about} Change how this server is timed, or end tracing.`}
        onClick={() => setOpened(opened + 1)}
      >
        {children}
        <span aria-hidden="true">▾</span>
      </button>
      {/* Keys mean here what they mean in a form, and not what they do to the picture behind. */}
      <dialog
        class="ask"
        ref={dialog}
        aria-labelledby={title}
        onClose={() => {
          controlOpen.value = false;
        }}
        onKeyDown={(event) => event.stopPropagation()}
      >
        <Form
          key={opened}
          current={current}
          title={title}
          mode={mode}
          about={about}
          close={() => dialog.current?.close()}
        />
      </dialog>
    </>
  );
}

function Form(props: {
  readonly current: RunState;
  /** Id of its heading. */
  readonly title: string;
  readonly mode: string;
  readonly about: string;
  readonly close: () => void;
}) {
  const { current, title, mode, about, close } = props;
  const over = !current.steerable;
  const [chosen, setChosen] = useState(mode);
  const [typed, setTyped] = useState(String(current.sample_every));
  const every = everyOf(typed);
  const [busy, setBusy] = useState(false);
  const [said, setSaid] = useState("");
  const [refused, setRefused] = useState("");
  const wish = async (what: string, body: object, done: (answer: unknown) => string) => {
    setBusy(true);
    setRefused("");
    const answer = await wished(`runs/${encodeURIComponent(current.run)}/${what}`, body, done);
    setBusy(false);
    setSaid("value" in answer ? answer.value : "");
    setRefused("failure" in answer ? answer.failure : "");
  };
  const forget = () => {
    setSaid(""); // of another wish
    setRefused("");
  };
  const choose = (one: string) => {
    setChosen(one);
    forget();
  };
  const time = () =>
    wish("timing", { mode: chosen }, (answer) => switchInWords(chosen, decodeSwitches(answer)));
  const samples = every !== null && every !== current.sample_every && !busy && !over;
  const sample = () =>
    wish("timing", { sample_every: every }, (answer) =>
      switchInWords(`${everyInWords(every ?? 1)} in full`, decodeSwitches(answer)),
    );
  return (
    <form method="dialog" onSubmit={close}>
      <h2 id={title}>How this server is timed</h2>
      <p class="soft">{about}</p>
      <fieldset disabled={busy || over}>
        <legend class="caption">Asked of process {current.server_pid}, on all of its ranks.</legend>
        {CHOICES.map((one) => (
          <label key={one.mode} class="choice">
            <input
              type="radio"
              name="mode"
              value={one.mode}
              aria-label={one.mode}
              aria-describedby={`${title}-${one.mode}`}
              checked={chosen === one.mode}
              onChange={() => choose(one.mode)}
            />
            <span id={`${title}-${one.mode}`}>
              <b>{one.mode}</b> {one.what} <span class="soft">{one.cost}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <div class="row">
        {/* Of what costs a server something, nothing is the first choice. */}
        <button type="submit" class="button" autofocus={true}>
          {said || over ? "Close" : "Cancel"}
        </button>
        <button
          type="button"
          class="button primary"
          disabled={busy || over || chosen === mode}
          onClick={time}
        >
          Time by {chosen}
        </button>
      </div>
      <hr />
      <fieldset disabled={busy || over}>
        <label class="field">
          <span>Record in full 1 cycle in</span>
          <input
            type="number"
            inputMode="numeric"
            min={1}
            max={MOST_EVERY}
            step={1}
            value={typed}
            aria-describedby={`${title}-sampling`}
            onInput={(event) => {
              setTyped(event.currentTarget.value);
              forget();
            }}
            onKeyDown={(event) => {
              if (event.key === "Enter") {
                event.preventDefault(); // which would close the dialog
                if (samples) {
                  sample();
                }
              }
            }}
          />
        </label>
        <p class="soft" id={`${title}-sampling`}>
          {every === null ? `From 1 to ${whole(MOST_EVERY)}. ` : ""}
          {SAMPLING}
        </p>
      </fieldset>
      <div class="row">
        <button type="button" class="button primary" disabled={!samples} onClick={sample}>
          Record {everyInWords(every ?? current.sample_every)} in full
        </button>
      </div>
      <p aria-live="polite">{over ? "Tracing has ended. What was collected stays here." : said}</p>
      {refused && (
        <p class="bad" role="alert">
          {refused}
        </p>
      )}
      <hr />
      <p class="soft">
        Of which kernels each phase is made is seen in some cycles, if their server lets them be
        looked at. That asks first.
      </p>
      {!over && <LookButton current={current} onClick={close} />}
      <hr />
      <p class="soft">
        Ending takes the probe out and puts every function back; where another spectrace reads it,
        it stays for that one. What was collected stays here until the command ends;{" "}
        {server.value?.attaches ? (
          "Attach, in the header, begins anew."
        ) : (
          <>
            <code>spectrace attach {current.server_pid}</code> begins anew.
          </>
        )}
      </p>
      <button
        type="button"
        class="button"
        disabled={busy || over}
        onClick={() => wish("detach", {}, () => "Tracing ends.")}
      >
        End tracing
      </button>
    </form>
  );
}
