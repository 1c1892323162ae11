// Imports run one way: protocol ← core ← launch, memory ← widgets; a package declares what it imports.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const PACKAGES = fileURLToPath(new URL("../packages", import.meta.url));
/** What a package may import; all others are widgets. */
const BELOW = {
  protocol: [],
  core: ["protocol"],
  launch: ["protocol", "core"],
  memory: ["protocol", "core"],
  engine: ["protocol", "core"],
  jupyterlab: ["protocol", "core"],
};
const BELOW_WIDGETS = ["protocol", "core", "launch", "memory", "engine"];
const OF_THE_WORKSPACE = ["@anywidget/types", "vitest"];
const OF_JUPYTERLAB = /^@(jupyterlab|lumino)\//; // shared by the page that loads the extension

const sources = (folder) =>
  readdirSync(folder, { recursive: true })
    .filter((name) => /\.(ts|css)$/.test(name))
    .map((name) => join(folder, name));
const importsOf = (file) =>
  [
    ...readFileSync(file, "utf8").matchAll(
      /^(?:import|export) [^"=;()]*?from "([^"]+)";|^import "([^"]+)";/gm,
    ),
  ].map(([, from, bare]) => from ?? bare);

test("every package that others may import is there", () => {
  expect(readdirSync(PACKAGES)).toEqual(expect.arrayContaining(Object.keys(BELOW)));
});

describe.each(readdirSync(PACKAGES))("%s", (name) => {
  const folder = join(PACKAGES, name);
  const described = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const declared = Object.keys(described.dependencies ?? {});
  const imported = sources(join(folder, "src")).flatMap((file) =>
    importsOf(file).map((from) => ({ file, from })),
  );

  test("depends only on what lies below it", () => {
    expect(described.name).toBe(`@sglab/${name}`);
    const below = (BELOW[name] ?? BELOW_WIDGETS).map((each) => `@sglab/${each}`);
    expect(declared.filter((each) => !below.includes(each))).toEqual([]);
  });

  test("imports what it declares, and declares no more", () => {
    const packages = imported.filter(({ from }) => !from.startsWith(".")).map(({ from }) => from);
    const names = new Set(
      packages.map((from) =>
        from
          .split("/")
          .slice(0, 2)
          .join("/")
          .replace(/^vitest.*/, "vitest"),
      ),
    );
    const others = [...names].filter(
      (each) => !OF_THE_WORKSPACE.includes(each) && !(name === "jupyterlab" && OF_JUPYTERLAB.test(each)),
    );
    expect(others.sort()).toEqual(declared.sort());
  });

  test("reaches no other package by a path", () => {
    for (const { file, from } of imported.filter((each) => each.from.startsWith(".")))
      expect(relative(folder, join(dirname(file), from))).toMatch(/^src\b/);
  });
});
