// What a core shared by all widgets would weigh, for benchmarks/widget_bundles.py: node shared_core.mjs FOLDER writes
// FOLDER/own/<name>.js and .css, the bundles as they are, and FOLDER/shared/, the same without the core, beside core.js.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const folder = process.argv[2];
const BELOW = ["@sglab/core", "@sglab/protocol"];
const WIDGETS = readdirSync(join(here, "packages")).filter(
  (name) => !["protocol", "core", "launch", "memory", "engine", "jupyterlab"].includes(name),
);
const entryPoints = Object.fromEntries(WIDGETS.map((name) => [name, `packages/${name}/src/index.ts`]));
const options = {
  absWorkingDir: here,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "utf8",
};
const core = { contents: BELOW.map((name) => `export * from "${name}";`).join("\n"), resolveDir: here };

await esbuild.build({ ...options, entryPoints, outdir: join(folder, "own") });
await esbuild.build({ ...options, entryPoints, outdir: join(folder, "shared"), external: BELOW });
await esbuild.build({ ...options, stdin: core, outfile: join(folder, "shared", "core.js") });
