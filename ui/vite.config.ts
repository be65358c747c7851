// How the page is built: one script and one style sheet, into the folder that the wheel takes up.
import { defineConfig } from "vite";

const SERVER = process.env["SPECTRACE_SERVER"] ?? "http://127.0.0.1:8765";

export default defineConfig({
  base: "./",
  build: {
    outDir: "../spectrace/server/page",
    emptyOutDir: true,
    target: "es2022",
    // An inlined asset would be a data: URL, which the server's CSP does not allow.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { host: "127.0.0.1", proxy: { "/api": SERVER } },
});
