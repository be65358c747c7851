// The page: its regions, and the keys that work everywhere.
import { useEffect } from "preact/hooks";
import { costShare } from "../lib/format.ts";
import {
  figures,
  panBy,
  run,
  select,
  selected,
  selectedCycle,
  server,
  tab,
  togglePause,
  zoomed,
} from "../state.ts";
import { Band } from "./Band.tsx";
import { Drawer } from "./Drawer.tsx";
import { Empty } from "./Empty.tsx";
import { Footer } from "./Footer.tsx";
import { Header } from "./Header.tsx";
import { LiveControl } from "./LiveControl.tsx";
import { Notices } from "./Notices.tsx";
import { Strip } from "./Strip.tsx";
import { Distribution } from "./stored/Distribution.tsx";
import { Runs } from "./stored/Runs.tsx";
import { Served } from "./stored/Served.tsx";
import { Timing } from "./stored/Timing.tsx";
import { Tabs } from "./Tabs.tsx";
import { Tools } from "./Tools.tsx";
import { Verdict } from "./verdict/Verdict.tsx";
import { zoomAtFocus } from "./waterfall/model.ts";
import { Waterfall } from "./waterfall/Waterfall.tsx";

/** The share of what is in view by which a key moves it. */
const PAN = 0.2;

/** Everything. */
export function App() {
  useEffect(() => {
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const live = tab.value === "live";
  const split = live && selectedCycle.value !== null;
  return (
    <div class="app">
      {run.value && live && (
        <button type="button" class="skip button" onClick={skip}>
          Skip to the waterfall
        </button>
      )}
      <Header />
      <Tabs />
      <div class={split ? "body split" : "body"}>
        <main class="main">
          <Notices />
          {run.value && <View />}
          {!run.value && <Empty known={server.value !== null} />}
        </main>
        {split && <Drawer />}
      </div>
      <section class="livebar" aria-label="State">
        <LiveControl />
        <div class="grow" />
        {run.value && (
          <span class="caption">cost {costShare(figures.value.summary?.probe_share ?? null)}</span>
        )}
      </section>
      <Footer />
    </div>
  );
}

/** A button, for a link would put its target into the hash, which is the page's address. */
function skip(): void {
  document.querySelector<HTMLElement>(".scroller")?.focus();
}

/** What the chosen tab shows. */
function View() {
  switch (tab.value) {
    case "distribution":
      return <Distribution />;
    case "requests":
      return <Served />;
    case "runs":
      return <Runs />;
    case "timing":
      return <Timing />;
    case "verdict":
      return <Verdict />;
    default:
      return <Live />;
  }
}

function Live() {
  return (
    <>
      <Band />
      <Strip />
      <Tools />
      <Waterfall />
    </>
  );
}

function onKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  const target = event.target as HTMLElement;
  if (tab.value !== "live") {
    return;
  }
  // Space presses a button and opens a list; there it is not ours.
  const busy = target.closest("button, select, input, a") !== null;
  if (target.closest("select, input")) {
    return;
  }
  switch (event.key) {
    case " ":
      if (busy || !run.value) {
        return;
      }
      togglePause();
      break;
    case "Escape":
      if (!selected.value) {
        return;
      }
      select(null);
      break;
    case "+":
    case "w":
      zoomAtFocus(1);
      break;
    case "-":
    case "s":
      zoomAtFocus(-1);
      break;
    case "a":
      panBy(-PAN);
      break;
    case "d":
      panBy(PAN);
      break;
    case "ArrowLeft":
    case "ArrowRight":
      if (!event.shiftKey) {
        return;
      }
      panBy(event.key === "ArrowLeft" ? -PAN : PAN);
      break;
    case "0":
      zoomed.value = null;
      break;
    default:
      return;
  }
  event.preventDefault();
}
