// The second line: which view fills the page, and whether it follows the server.
import { useEffect, useRef } from "preact/hooks";
import { formatHash, type Tab } from "../lib/hash.ts";
import { place, run, tab } from "../state.ts";
import { LiveControl } from "./LiveControl.tsx";
import { SaveButton } from "./Save.tsx";

const TABS: readonly (readonly [tab: Tab, name: string])[] = [
  ["live", "Live"],
  ["distribution", "Distribution"],
  ["requests", "Requests"],
  ["verdict", "Verdict"],
  ["timing", "Timing"],
  ["kernels", "Kernels"],
  ["runs", "Runs"],
];

/** Whether there is anything to see of kernels, or to ask for. */
function hasKernels(): boolean {
  const current = run.value;
  const seen = current !== null && (current.looks > 0 || current.looking !== null);
  return seen || current?.steerable === true || tab.value === "kernels";
}

/** A link for each view, so that each can be kept and opened elsewhere. */
export function Tabs() {
  const nav = useRef<HTMLElement>(null);
  const shown = tab.value;
  useEffect(() => {
    // Where there is no room for all of them they scroll.
    const current = nav.current?.querySelector("[aria-current]");
    current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [shown]);
  return (
    <section class="tabs" aria-label="View">
      {run.value && (
        <nav aria-label="Views" ref={nav}>
          {TABS.filter(([each]) => each !== "kernels" || hasKernels()).map(([each, name]) => (
            <a
              key={each}
              href={formatHash({ ...place.value, tab: each }) || "#"}
              aria-current={shown === each ? "page" : undefined}
            >
              {name}
            </a>
          ))}
        </nav>
      )}
      <div class="grow" />
      <SaveButton />
      <LiveControl />
    </section>
  );
}
