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
  staying.follow(false);
  expect(staying.standing(4)).toBe(3);
});

test("whoever steps away from the end follows no longer, until there again", () => {
  const transport = at(9, 0);
  const said: boolean[] = [];
  const growing = new Growing(transport, (follows) => said.push(follows));
  transport.goTo(growing.standing(6));
  transport.goTo(2);
  transport.refresh(); // nobody has moved
  expect(said).toEqual([true, false]);
  expect(growing.standing(7)).toBe(2);
  growing.follow(true);
  expect([transport.position, said.at(-1)]).toEqual([7, true]);
  expect(growing.standing(8)).toBe(8);
});
