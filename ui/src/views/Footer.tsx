// The last line: the keys, and what is stored.
import { bytes, plural, span } from "../lib/format.ts";
import { layout } from "../pointing.ts";
import { run, server, tab } from "../state.ts";

type Keys = readonly (readonly [keys: readonly string[], does: string])[];

const EVERYWHERE: Keys = [[["?"], "all keys"]];

const TIME_KEYS: Keys = [
  [["W", "A", "S", "D"], "move and zoom"],
  [["drag"], "measure"],
  [["F"], "fit"],
  [["0"], "all"],
  [["M"], "mark"],
  [["/"], "find"],
  [["Space"], "pause"],
  ...EVERYWHERE,
];
const KEYS: Keys = [
  [["Space"], "pause"],
  [["↑", "↓"], "cycles"],
  [["←", "→"], "phases"],
  [["L"], "lane"],
  [["Enter"], "details"],
  [["+", "−", "0"], "zoom"],
  [["A", "D"], "move"],
  [["/"], "find"],
  ...EVERYWHERE,
];

/** Keys at the left, the store at the right. */
export function Footer() {
  const stored = run.value?.stored;
  const ranks = run.value?.ranks.length ?? 0;
  const rows: Keys = ranks > 1 ? [...KEYS, [["j", "k"], "ranks"]] : KEYS;
  const live = layout.value === "time" ? TIME_KEYS : rows;
  const keys = tab.value === "live" ? live : EVERYWHERE;
  return (
    <footer class="foot">
      {run.value &&
        keys.map(([names, does]) => (
          <span key={does}>
            {names.map((name) => (
              <kbd key={name}>{name}</kbd>
            ))}{" "}
            {does}
          </span>
        ))}
      <div class="grow" />
      {stored && (
        <span class="wide">
          {plural(stored.cycles, "cycle")} stored, {bytes(stored.bytes)}
          {stored.retain_s > 0 && `, kept ${span(stored.retain_s)}`}
        </span>
      )}
      {server.value && <span>spectrace {server.value.version}</span>}
    </footer>
  );
}
