// Starts the page: colours, address, stream, and the first drawing.
import { effect } from "@preact/signals";
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import { startAsking } from "./asking.ts";
import { startLookingAtKernels } from "./kernels.ts";
import { formatHash, parseHash } from "./lib/hash.ts";
import { customProperties } from "./lib/tokens.ts";
import { startLooking } from "./looking.ts";
import { startFollowingAttached } from "./servers.ts";
import { goTo, place, systemTheme, theme, themeOverride } from "./state.ts";
import { start } from "./stream.ts";
import "./styles.css";
import "./dialog.css";
import "./stored.css";
import "./kernels.css";
import { App } from "./views/App.tsx";
import { startOverseeing } from "./views/timeline/far.ts";
import { startWantingKernels } from "./views/waterfall/wanting.ts";

const dark = matchMedia("(prefers-color-scheme: dark)");
const followSystem = () => {
  systemTheme.value = dark.matches ? "dark" : "light";
};
followSystem();
dark.addEventListener("change", followSystem);

effect(() => {
  const root = document.documentElement;
  for (const [name, value] of customProperties(theme.value)) {
    root.style.setProperty(name, value);
  }
  root.dataset["theme"] = themeOverride.value ?? "system";
});

// Browsers refuse an address that changes with every frame of a zoom.
const ADDRESS_MS = 300;
let writtenMs = 0;
let writing: ReturnType<typeof setTimeout> | undefined;
/** As it was written or followed last: another one was gone to, and will be followed. */
let known = location.hash;
const write = () => {
  clearTimeout(writing);
  const hash = formatHash(place.value);
  if (hash !== location.hash && location.hash === known) {
    writtenMs = Date.now();
    history.replaceState(null, "", hash || location.pathname + location.search);
    known = location.hash;
  }
};
effect(() => {
  void place.value;
  clearTimeout(writing);
  writing = setTimeout(write, Math.max(0, writtenMs + ADDRESS_MS - Date.now()));
});
// Before a link is followed, so that "back" leads to all that was chosen.
addEventListener("click", write, { capture: true });
addEventListener("hashchange", () => {
  known = location.hash;
  goTo(parseHash(known));
});

const root = document.querySelector("#app");
if (root) {
  render(<App />, root);
}
start();
startAsking();
startLooking();
startOverseeing();
startLookingAtKernels();
startWantingKernels();
startFollowingAttached();
