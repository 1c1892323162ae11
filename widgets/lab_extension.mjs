// Bundles packages/jupyterlab as a prebuilt JupyterLab extension, widgets/labextension: a federated module, written as
// JupyterLab loads one. Its script defines a container: `init` is handed the modules that the page shares, `get` gives the
// extension once those that it imports are there.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "..");
const out = join(here, "labextension");
const NAME = "sglab";

const container = (needed, code) => `(() => {
  let shared;
  const newest = (a, b) => b.localeCompare(a, undefined, { numeric: true });
  const load = async (name) => {
    const versions = shared[name];
    if (!versions) throw new Error(\`sglab needs \${name}, which this page does not share\`);
    return (await versions[Object.keys(versions).sort(newest)[0]].get())();
  };
  const make = (require, module, exports) => {${code}};
  const needed = ${JSON.stringify(needed)};
  (globalThis._JUPYTERLAB ??= {}).${NAME} = {
    init: (scope) => { shared = scope; },
    get: async () => {
      const parts = Object.fromEntries(await Promise.all(needed.map(async (name) => [name, await load(name)])));
      const module = { exports: {} };
      make((name) => parts[name], module, module.exports);
      return () => module.exports;
    },
  };
})();
`;

/** The extension's files, as esbuild has them: path and contents. */
export async function labExtension() {
  const { version, description } = projectOf(readFileSync(join(root, "pyproject.toml"), "utf8"));
  const { outputFiles, metafile } = await esbuild.build({
    absWorkingDir: here,
    entryPoints: ["packages/jupyterlab/src/index.ts"],
    outdir: out,
    bundle: true,
    format: "cjs",
    target: "es2022",
    minify: true,
    charset: "utf8",
    legalComments: "none",
    external: ["@jupyterlab/*", "@lumino/*"],
    loader: { ".css": "text" },
    define: { SGLAB_VERSION: JSON.stringify(version) },
    metafile: true,
    logOverride: { "ignored-bare-import": "silent" }, // the core's style sheet, which widgets bring
    write: false,
  });
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports);
  const needed = [...new Set(imports.filter(({ external }) => external).map(({ path }) => path))]
    .filter((path) => path.startsWith("@"))
    .sort();
  const script = Buffer.from(container(needed, outputFiles[0].text.trim()));
  const hash = createHash("sha256").update(script).digest("hex").slice(0, 16);
  const described = {
    name: NAME,
    version,
    description,
    license: "Apache-2.0",
    jupyterlab: {
      extension: true,
      _build: { load: `static/remoteEntry.js?v=${hash}`, extension: "./extension" },
    },
  };
  const installed = {
    packageManager: "python",
    packageName: NAME,
    uninstallInstructions: "Use your Python package manager (pip, conda, …) to uninstall the package sglab.",
  };
  const json = (value) => Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
  return [
    { path: join(out, "static", "remoteEntry.js"), contents: script },
    { path: join(out, "package.json"), contents: json(described) },
    { path: join(out, "install.json"), contents: json(installed) },
  ];
}

function projectOf(toml) {
  const value = (name) => new RegExp(`^${name} = "(.*)"$`, "m").exec(toml)[1];
  return { version: value("version"), description: value("description") };
}
