// What is picked of the stored cycles: a list for each question that has more than one answer.
import { plural, span, whole } from "../../lib/format.ts";
import type { Look } from "../../lib/look.ts";
import type { Option, Spread } from "../../lib/spread.ts";
import { bar, look } from "../../looked.ts";

const BACK_S = [60, 300, 1800, 7200] as const;
const ANY = "";

/** `spread`: what there is to choose from; null before the first answer. */
export function Picks({ spread }: { readonly spread: Spread | null }) {
  const now = look.value;
  return (
    <fieldset class="picks">
      <legend class="unseen">Which cycles</legend>
      <GroupPick groups={spread?.groups ?? []} />
      <Pick
        label="time"
        value={now.lastS}
        any="all that is kept"
        options={known(BACK_S.map(plainly), now.lastS)}
        words={(seconds) => `last ${span(seconds)}`}
        take={(lastS) => put({ lastS })}
      />
      <Pick
        label="cycles"
        value={now.kind ?? spread?.look.kind ?? null}
        options={known(spread?.kinds ?? [], now.kind)}
        words={String}
        take={(kind) => put({ kind, mode: null, batch: null, steps: null })}
      />
      <ModePick spread={spread} />
      <Pick
        label="batch"
        value={now.batch}
        any="any size"
        options={known(spread?.batches ?? [], now.batch)}
        words={(batch) => `size ${whole(batch)}`}
        take={(batch) => put({ batch })}
      />
      <Pick
        label="steps"
        value={now.steps}
        any="any number"
        options={known(spread?.steps ?? [], now.steps)}
        words={(steps) => plural(steps, "step")}
        take={(steps) => put({ steps })}
      />
      <RankPick spread={spread} />
    </fieldset>
  );
}

/** How they were timed; nothing where all were timed alike. */
function ModePick({ spread }: { readonly spread: Spread | null }) {
  const { mode } = look.value;
  const modes = known(spread?.modes ?? [], mode);
  return modes.length > 1 ? (
    <Pick
      label="timing"
      value={mode ?? spread?.look.mode ?? null}
      options={modes}
      words={String}
      take={(next) => put({ mode: next, batch: null, steps: null })}
    />
  ) : null;
}

/** Whose times; nothing where there is one rank. */
function RankPick({ spread }: { readonly spread: Spread | null }) {
  const { rank } = look.value;
  const ranks = known((spread?.ranks ?? []).map(plainly), rank);
  return ranks.length > 1 ? (
    <Pick
      label="rank"
      value={rank ?? spread?.look.rank ?? null}
      options={ranks}
      words={String}
      take={(next) => put({ rank: next })}
    />
  ) : null;
}

/** Which group; nothing where there is only one. */
export function GroupPick({ groups }: { readonly groups: readonly string[] }) {
  return groups.length > 1 || look.value.group !== "" ? (
    <Pick
      label="group"
      value={look.value.group}
      options={known(groups.map(plainly), look.value.group)}
      words={(name) => name || "the first"}
      take={(group) => put({ group: group ?? "", rank: null })}
    />
  ) : null;
}

function put(change: Partial<Look>): void {
  look.value = { ...look.value, ...change };
  bar.value = null;
}

function plainly<T>(value: T): Option<T> {
  return { value, cycles: 0 };
}

/** The options with the one that is chosen, which an address may name and nobody has. */
function known<T>(options: readonly Option<T>[], chosen: T | null): readonly Option<T>[] {
  return chosen === null || options.some(({ value }) => value === chosen)
    ? options
    : [...options, plainly(chosen)];
}

function Pick<T extends string | number>(props: {
  readonly label: string;
  readonly value: T | null;
  /** What it is called to leave the question open; it has to be answered without. */
  readonly any?: string;
  readonly options: readonly Option<T>[];
  readonly words: (value: T) => string;
  readonly take: (value: T | null) => void;
}) {
  const { label, value, any, options, words, take } = props;
  const place = options.findIndex((option) => option.value === value);
  return (
    <label class="pick">
      <span class="caption">{label}</span>
      <select
        value={place < 0 ? ANY : String(place)}
        onChange={({ currentTarget }) =>
          take(
            currentTarget.value === ANY
              ? null
              : (options[Number(currentTarget.value)]?.value ?? null),
          )
        }
      >
        {(any !== undefined || place < 0) && <option value={ANY}>{any ?? "–"}</option>}
        {options.map((option, at) => (
          <option key={option.value} value={String(at)}>
            {words(option.value)}
            {option.cycles > 0 && ` (${whole(option.cycles)})`}
          </option>
        ))}
      </select>
    </label>
  );
}
