// What plain decode takes, where a person knows it and the run does not tell.
import { useSignal, useSignalEffect } from "@preact/signals";
import { useId } from "preact/hooks";
import { parseMs } from "../../lib/verdict.ts";
import { baselineMs } from "../../state.ts";

/** A field and the button that holds the run against it. `known`: the run itself tells. */
export function Baseline({ known }: { readonly known: boolean }) {
  const written = useSignal("");
  const refused = useSignal(false);
  const id = useId();
  // An address can set it too.
  useSignalEffect(() => {
    written.value = baselineMs.value === null ? "" : String(baselineMs.value);
  });
  const submit = (event: Event) => {
    event.preventDefault();
    const value = parseMs(written.value);
    refused.value = value === null;
    if (value !== null) {
      baselineMs.value = value;
    }
  };
  const clear = () => {
    written.value = "";
    refused.value = false;
    baselineMs.value = null;
  };
  return (
    <form class="baseline" onSubmit={submit} noValidate={true}>
      <label for={id} class="soft">
        Plain decode, ms
      </label>
      <input
        id={id}
        type="text"
        inputMode="decimal"
        autocomplete="off"
        placeholder={known ? "as measured" : "such as 11.1"}
        value={written.value}
        aria-invalid={refused.value}
        aria-describedby={refused.value ? `${id}-why` : undefined}
        onInput={(event) => {
          written.value = event.currentTarget.value;
        }}
      />
      <button type="submit" class="button">
        Hold against it
      </button>
      {baselineMs.value !== null && (
        <button type="button" class="button plain" onClick={clear}>
          As measured
        </button>
      )}
      {refused.value && (
        <span class="bad" id={`${id}-why`} role="alert">
          Write a time in ms, such as 11.1.
        </span>
      )}
    </form>
  );
}
