import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const host = fileURLToPath(new URL("packages/jupyterlab/src/testing/host.ts", import.meta.url));

// Pure files, in Node: what needs a page is tested in Chromium by tests/browser.
export default defineConfig({
  resolve: { alias: { "@lumino/signaling": host, "@jupyterlab/apputils": host } },
  test: { include: ["packages/*/src/**/*.test.ts", "tests/*.test.mjs"] },
});
