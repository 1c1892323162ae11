import { expect, test } from "vitest";
import {
  bytesOf,
  choiceName,
  isChosen,
  isMissed,
  keysOf,
  likely,
  plainText,
  queryOutcome,
  type Read,
  tokenName,
} from "./data";

const READ: Read = {
  shown: { layer: 0, layers: 1, heads: 1, tokens: 3, rowBytes: 10, kvHeads: 1 },
  texts: ["a", " ", "\n"],
  budgets: [1, 3],
  probabilities: Float32Array.of(1, 0, 0, 0.25, 0.75, 0, 0.2, 0.5, 0.3),
  rules: [
    {
      name: "top_k",
      title: "top k",
      about: "",
      source: "",
      error: [0.5, 0],
      mass: [0.75, 1],
      keys: [1, 2],
      rows: [1, 2],
      indexBytes: 4,
      indexFlops: 8,
      chosen: Int32Array.of(3, 0, 0, 2, 3, 0, 2, 3, 2),
      errors: Float32Array.of(0, 0.25, 0.5, 0, 0, 0),
      masses: Float32Array.of(1, 0.75, 0.5, 1, 1, 1),
    },
  ],
};

test("a bit per step says what is chosen", () => {
  const look = { rule: 0, step: 0, head: 0, query: 2 };
  expect([0, 1, 2].map((key) => isChosen(READ, look, key))).toEqual([false, true, false]);
  expect([0, 1, 2].map((key) => isChosen(READ, { ...look, step: 1 }, key))).toEqual([true, true, true]);
  expect(isChosen(READ, look, 0, 0)).toBe(true);
});

test("a query's keys come by probability, with its outcome", () => {
  const look = { rule: 0, step: 0, head: 0, query: 2 };
  expect(keysOf(READ, look).map(({ key }) => key)).toEqual([1, 2, 0]);
  expect(queryOutcome(READ, look)).toEqual({ error: 0.5, mass: 0.5, keys: 1 });
  expect(queryOutcome(READ, { ...look, step: 1 })).toEqual({ error: 0, mass: 1, keys: 3 });
});

test("bytes are those of the chosen rows and of the index", () => {
  expect(bytesOf(READ, READ.rules[0] as Read["rules"][0], 0)).toEqual({ sparse: 10, index: 4, dense: 20 });
});

test("what cannot be seen has a sign", () => {
  expect([0, 1, 2, 3].map((at) => tokenName(READ.texts, at))).toEqual(["a", "␣", "↵", "∅"]);
});

test("a key that was not chosen is missed from one probability on, wherever that is said", () => {
  expect(choiceName(0.02, false)).toBe("missed");
  expect(choiceName(0.0199, false)).toBe("not chosen");
  expect(choiceName(0.5, true)).toBe("chosen");
  expect([isMissed(0.02, false), isMissed(0.0199, false), isMissed(0.5, true)]).toEqual([true, false, false]);
});

test("copied tokens are the text that they are of; ids have spaces between them", () => {
  const from = (first: number) => (at: number) => at >= first;
  expect(plainText(["", "a", " ", "\n", "bc"], from(1))).toBe("a \nbc");
  expect(plainText(["2", " ", "1", "2"], from(2))).toBe("12");
  expect(plainText(["7", "432", "5"], from(1))).toBe("432 5");
});

test("a probability too small for its digits is not written as none", () => {
  expect([0, 0.00004, 0.00006, 0.25].map(likely)).toEqual(["0.0000", "<0.0001", "0.0001", "0.2500"]);
});
