// Bundles packages/<name>/src/index.ts into sglab/widgets/static/<name>.js and .css, and tests/probe.ts for the browser
// tests; packages/jupyterlab into labextension; writes what the widgets' protocol.ts declare as protocol.json.
//   node build.mjs           writes the bundles
//   node build.mjs --check   fails where a committed file differs from its source, or a bundle is too large
//   node build.mjs --watch   rebuilds the bundles on change

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import * as esbuild from "esbuild";
import { labExtension } from "./lab_extension.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "..");
const out = join(root, "sglab", "widgets", "static");
const PROBE = "tests/support/browser/static/probe";
const LIMIT = 150 * 1024; // gzipped bytes of one bundle
const LIBRARY = "sglab/widgets/static/plotly"; // what Roofline's page loads when it is drawn
const LIBRARY_LIMIT = 400 * 1024;
const OTHERS = ["protocol", "core", "launch", "memory", "engine", "jupyterlab"]; // packages that are no widgets

const names = readdirSync(join(here, "packages")).filter((name) => !OTHERS.includes(name));

const options = {
  absWorkingDir: here,
  entryPoints: {
    [PROBE]: "tests/probe.ts",
    ...Object.fromEntries(
      names.map((name) => [`sglab/widgets/static/${name}`, `packages/${name}/src/index.ts`]),
    ),
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

/** plotly.js with its licence: an ES module that a page loads when Roofline draws. */
async function library() {
  const notice = readFileSync(join(here, "node_modules", "plotly.js-basic-dist-min", "LICENSE"), "utf8");
  const { outputFiles } = await esbuild.build({
    ...options,
    entryPoints: { [LIBRARY]: "plotly.mjs" },
    legalComments: "eof",
    banner: { js: `/*! plotly.js\n${notice}*/` },
  });
  return outputFiles;
}

/** What every widget's protocol.ts declares, as tests/widgets/test_protocol.py reads it. */
async function protocols() {
  const modules = names.map((name) => `export * as ${name} from "./packages/${name}/src/protocol";`);
  const { outputFiles } = await esbuild.build({
    absWorkingDir: here,
    stdin: { contents: modules.join("\n"), resolveDir: here },
    bundle: true,
    format: "esm",
    write: false,
  });
  const code = Buffer.from(outputFiles[0].contents).toString("base64");
  const declared = await import(`data:text/javascript;base64,${code}`);
  const all = Object.values(declared).flatMap((module) => Object.values(module));
  const kinds = (values) =>
    Object.fromEntries(
      Object.entries(values).map(([name, { kind, optional }]) => [name, optional ? `${kind}?` : kind]),
    );
  const widgets = all.map(({ name, version, traits, commands, tensors }) => [
    name,
    {
      version,
      traits: kinds(traits),
      commands: Object.fromEntries(
        Object.entries(commands).map(([command, { request, answer }]) => [
          command,
          { request: kinds(request), answer: answer.kind },
        ]),
      ),
      tensors,
    },
  ]);
  const text = `${JSON.stringify(Object.fromEntries(widgets), null, 1)}\n`;
  return { path: join(here, "protocol.json"), contents: Buffer.from(text) };
}

function problems(bundles, files) {
  const found = [];
  for (const { path, contents } of bundles) {
    const zipped = gzipSync(contents).length;
    const limit = path.endsWith(`${LIBRARY}.js`) ? LIBRARY_LIMIT : LIMIT;
    if (zipped > limit) found.push(`${basename(path)}: ${zipped} bytes gzipped, limit ${limit}`);
  }
  for (const { path, contents } of [...bundles, ...files])
    if (!existsSync(path) || !readFileSync(path).equals(Buffer.from(contents)))
      found.push(`${relative(root, path)} is stale: run \`npm run build\` in widgets/ and commit it`);
  const built = new Set(bundles.map((file) => basename(file.path)));
  for (const name of existsSync(out) ? readdirSync(out) : [])
    if (!built.has(name)) found.push(`sglab/widgets/static/${name} has no source: delete it`);
  return found;
}

if (process.argv.includes("--watch")) {
  const context = await esbuild.context({ ...options, write: true, logLevel: "info" });
  await context.watch();
} else {
  const bundles = await esbuild.build(options);
  const outputFiles = [...bundles.outputFiles, ...(await library())];
  const files = [await protocols(), ...(await labExtension())];
  if (process.argv.includes("--check")) {
    const found = problems(outputFiles, files);
    for (const problem of found) console.error(problem);
    process.exit(found.length ? 1 : 0);
  }
  for (const { path, contents } of [...outputFiles, ...files]) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, contents);
    console.log(`${basename(path)}  ${contents.length} bytes, ${gzipSync(contents).length} gzipped`);
  }
}
