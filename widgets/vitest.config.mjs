import { defineConfig } from "vitest/config";

// Pure files, in Node: what needs a page is tested in Chromium by tests/browser.
export default defineConfig({ test: { include: ["packages/*/src/**/*.test.ts", "tests/*.test.mjs"] } });
