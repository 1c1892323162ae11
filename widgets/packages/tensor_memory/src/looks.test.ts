import { describe, expect, it } from "vitest";
import { categoryOf, MODE_LABELS, MODES } from "./looks";

const FACTS = {
  tiles: [{ id: 4, name: "S0" }],
  moments: { warp: Int32Array.of(8), cta: Int32Array.of(0) },
  launch: { ctas: [0, 1] },
  code: [],
};
const region = (change: object) => ({ state: 1, writer: 0, tile: 0, ...change });
const category = (mode: (typeof MODES)[number], change: object) =>
  categoryOf(FACTS as never, mode, region(change) as never, false);

describe("categoryOf", () => {
  it("leaves what is uninitialised to a look of its own", () => {
    for (const mode of MODES) expect(category(mode, { state: 0 })).toBeUndefined();
  });

  it("tells what is still needed, by hatch as well as by hue", () => {
    const all = [1, 2, 3].map((state) => category("liveness", { state }));
    expect(all.map((each) => each?.label)).toEqual(["written", "read", "dead"]);
    expect(new Set(all.map((each) => each?.look.hatch)).size).toBe(3);
  });

  it("names a matrix, or what was stored from registers", () => {
    expect(category("owner", {})).toMatchObject({ key: "tile 4", label: "S0" });
    expect(category("owner", { tile: -1 })).toMatchObject({ key: "registers", label: "stored" });
  });

  it("names the warp that wrote last, where it is known", () => {
    expect(category("writer", { writer: -1 })).toMatchObject({ key: "none", label: "?" });
  });
});

it("every mode has a name", () => {
  expect(MODES.map((mode) => MODE_LABELS[mode])).toEqual(["owner", "values", "liveness", "last writer"]);
});
