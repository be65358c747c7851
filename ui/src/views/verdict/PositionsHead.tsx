// The heading above what was accepted at each position, and which setting it is of.
import { useSignal } from "@preact/signals";
import { type Setting, settingKey } from "../../lib/report.ts";
import { settingInWords } from "../../lib/verdict.ts";
import { Term } from "../Card.tsx";

/** One of several, and how to choose another. */
export interface Chosen<T> {
  /** The first unless another was chosen; null where there are none. */
  readonly one: T | null;
  readonly settings: readonly Setting[];
  readonly choose: (key: string) => void;
}

/** One setting at a time. */
export function useSetting<T extends { readonly setting: Setting }>(
  found: readonly T[],
): Chosen<T> {
  const chosen = useSignal("");
  return {
    one: found.find(({ setting }) => settingKey(setting) === chosen.value) ?? found[0] ?? null,
    settings: found.map(({ setting }) => setting),
    choose: (key) => {
      chosen.value = key;
    },
  };
}

/** `about` defines the shares; a list of settings where there is a choice. */
export function PositionsHead(props: {
  readonly about: string;
  readonly chosen: Chosen<{ readonly setting: Setting }>;
}) {
  const { one, settings, choose } = props.chosen;
  return (
    <div class="between">
      <h3>
        <Term about={props.about}>Accepted at each position</Term>{" "}
        <span class="caption">if reached</span>
      </h3>
      {one && settings.length > 1 && (
        <select
          aria-label="Setting"
          value={settingKey(one.setting)}
          onChange={(event) => choose(event.currentTarget.value)}
        >
          {settings.map((setting) => (
            <option key={settingKey(setting)} value={settingKey(setting)}>
              {settingInWords(setting)}
            </option>
          ))}
        </select>
      )}
    </div>
  );
}
