import { expect, test } from "vitest";
import { hueOf, shortName } from "./names";

test("a request of an engine has the colour that the engine's widgets give it", () => {
  expect(["request 1", "request 12", "r0", "R7", "alice"].map((name, i) => hueOf(name, i))).toEqual([
    0, 11, 0, 7, 4,
  ]);
});

test("names fit a narrow cell", () => {
  expect(["request 1", "request 12", "r0", "a-long-name"].map(shortName)).toEqual([
    "req 1",
    "req 12",
    "r0",
    "a-long…",
  ]);
});
