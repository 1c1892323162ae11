import { Transport } from "@sglab/core";
import { expect, test } from "vitest";
import { Growing } from "./growing";

function at(length: number, position: number): Transport {
  const transport = new Transport();
  transport.load({ length, granularities: [{ id: "step", label: "step" }], describe: String }, position);
  return transport;
}

test("it begins at the end and goes on with it, until one stands elsewhere or is told to stay", () => {
  const transport = at(5, 0);
  const growing = new Growing(transport);
  expect(growing.standing(5)).toBe(5);
  transport.goTo(5);
  expect(growing.standing(8)).toBe(8);
  expect(growing.standing(9)).toBe(5);
  const other = at(3, 3);
  const staying = new Growing(other);
  staying.standing(3);
  expect(staying.standing(4, false)).toBe(3);
});
