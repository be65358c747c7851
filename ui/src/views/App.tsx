// The page: its regions, and the keys that work everywhere.
import { useEffect } from "preact/hooks";
import { costShare } from "../lib/format.ts";
import { layout, measured } from "../pointing.ts";
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
import { Help, helping } from "./Help.tsx";
import { LiveControl } from "./LiveControl.tsx";
import { LookAtKernels } from "./LookAtKernels.tsx";
import { Notices } from "./Notices.tsx";
import { Save, SaveButton } from "./Save.tsx";
import { focusSearch } from "./Search.tsx";
import { Servers } from "./Servers.tsx";
import { Strip } from "./Strip.tsx";
import { Distribution } from "./stored/Distribution.tsx";
import { Kernels } from "./stored/Kernels.tsx";
import { Runs } from "./stored/Runs.tsx";
import { Served } from "./stored/Served.tsx";
import { Timing } from "./stored/Timing.tsx";
import { Tabs } from "./Tabs.tsx";
import { Tools } from "./Tools.tsx";
import { onTimeKey } from "./timeline/keys.ts";
import { byKeys, measuredAtRest } from "./timeline/model.ts";
import { Timeline } from "./timeline/Timeline.tsx";
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
  const timed = layout.value === "time" && measuredAtRest.value !== null;
  const split = live && (timed || selectedCycle.value !== null);
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
        <SaveButton />
        <div class="grow" />
        {run.value && (
          <span class="caption">cost {costShare(figures.value.summary?.probe_share ?? null)}</span>
        )}
      </section>
      <Footer />
      <Help />
      <Save />
      <Servers />
      <LookAtKernels />
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
    case "kernels":
      return <Kernels />;
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
      {layout.value === "time" ? <Timeline /> : <Waterfall />}
    </>
  );
}

function onKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  const elsewhere = event.ctrlKey || event.metaKey || event.altKey || helping.value;
  if (elsewhere || target.closest("select, input, textarea, dialog")) {
    return;
  }
  if (event.key === "?") {
    helping.value = true;
    event.preventDefault();
  } else if (tab.value === "live") {
    onLiveKey(event, target);
  }
}

function onLiveKey(event: KeyboardEvent, target: HTMLElement): void {
  // Space presses a button and opens a list; there it is not ours.
  const busy = target.closest("button, a") !== null;
  const done =
    event.key === " "
      ? !busy && onSpace()
      : onCommonKey(event.key) ||
        (layout.value === "time" ? onTimeKey(event, busy) : onRowsKey(event));
  if (done) {
    event.preventDefault();
  }
}

function onSpace(): boolean {
  if (run.value) {
    togglePause();
  }
  return run.value !== null;
}

function onCommonKey(key: string): boolean {
  switch (key) {
    case "/":
      return focusSearch();
    case "Escape":
      if (layout.value === "time" && byKeys.value) {
        byKeys.value = false;
      } else if (layout.value === "time" && measured.value) {
        measured.value = null;
      } else if (selected.value) {
        select(null);
      } else {
        return false;
      }
      return true;
    default:
      return false;
  }
}

/** Keys of the picture with a row a cycle. */
function onRowsKey(event: KeyboardEvent): boolean {
  switch (event.key) {
    case "+":
    case "w":
      zoomAtFocus(1);
      return true;
    case "-":
    case "s":
      zoomAtFocus(-1);
      return true;
    case "a":
      panBy(-PAN);
      return true;
    case "d":
      panBy(PAN);
      return true;
    case "ArrowLeft":
    case "ArrowRight":
      if (event.shiftKey) {
        panBy(event.key === "ArrowLeft" ? -PAN : PAN);
      }
      return event.shiftKey;
    case "0":
    case "f":
      zoomed.value = null;
      return true;
    default:
      return false;
  }
}
