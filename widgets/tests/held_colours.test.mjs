// The colours of slots in style sheets are those of the charts, which draw without style sheets.

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { HELD } from "../packages/engine/src/held";

test("marks and shapes have the colours of the charts", () => {
  const sheet = readFileSync(new URL("../packages/engine/src/engine.css", import.meta.url), "utf8");
  const said = (name) => [...sheet.matchAll(new RegExp(`${name}: (#[0-9a-f]+);`, "g"))].map(([, hex]) => hex);
  expect(said("--sge-own")).toEqual([HELD.private.light, HELD.private.dark]);
  expect(said("--sge-locked")).toEqual([HELD.protected.light, HELD.protected.dark]);
});
