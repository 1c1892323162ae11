// Bundles src/<name>/index.ts into sglab/widgets/static/<name>.js and .css, and tests/probe.ts for the browser tests.
//   node build.mjs           writes the bundles
//   node build.mjs --check   fails where a committed bundle differs from its source, or is too large
//   node build.mjs --watch   rebuilds on change

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import * as esbuild from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "..");
const out = join(root, "sglab", "widgets", "static");
const PROBE = "tests/support/browser/static/probe";
const LIMIT = 150 * 1024; // gzipped bytes of one bundle

const names = readdirSync(join(here, "src"), { withFileTypes: true })
  .filter(({ name }) => name !== "core")
  .filter((entry) => entry.isDirectory() && existsSync(join(here, "src", entry.name, "index.ts")))
  .map((entry) => entry.name);

const options = {
  absWorkingDir: here,
  entryPoints: {
    [PROBE]: "tests/probe.ts",
    ...Object.fromEntries(names.map((name) => [`sglab/widgets/static/${name}`, `src/${name}/index.ts`])),
  },
  outdir: root,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  write: false,
};

function problems(files) {
  const found = [];
  for (const { path, contents } of files) {
    const zipped = gzipSync(contents).length;
    if (zipped > LIMIT) found.push(`${basename(path)}: ${zipped} bytes gzipped, limit ${LIMIT}`);
    if (!existsSync(path) || !readFileSync(path).equals(Buffer.from(contents)))
      found.push(`${relative(root, path)} is stale: run \`npm run build\` in widgets/ and commit it`);
  }
  const built = new Set(files.map((file) => basename(file.path)));
  for (const name of existsSync(out) ? readdirSync(out) : [])
    if (!built.has(name)) found.push(`sglab/widgets/static/${name} has no source: delete it`);
  return found;
}

if (process.argv.includes("--watch")) {
  const context = await esbuild.context({ ...options, write: true, logLevel: "info" });
  await context.watch();
} else {
  const { outputFiles } = await esbuild.build(options);
  if (process.argv.includes("--check")) {
    const found = problems(outputFiles);
    for (const problem of found) console.error(problem);
    process.exit(found.length ? 1 : 0);
  }
  for (const { path, contents } of outputFiles) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, contents);
    console.log(`${basename(path)}  ${contents.length} bytes, ${gzipSync(contents).length} gzipped`);
  }
}
