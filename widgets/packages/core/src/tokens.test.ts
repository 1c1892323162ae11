import { expect, it } from "vitest";
import { cutText, tokenText } from "./tokens";

it("a token is its text, with marks for what cannot be seen, or its number", () => {
  const texts = { 1: "a", 2: " ", 3: "\n", 4: " the", 5: "" };
  expect([1, 2, 3, 4, 5, 6].map((token) => tokenText(token, texts))).toEqual([
    "a",
    "␣",
    "↵",
    "␣the",
    "∅",
    "#6",
  ]);
});

it("long text is cut between letters", () => {
  expect([cutText("abcdef", 4), cutText("abcd", 4), cutText("🙂🙂🙂", 2)]).toEqual(["abc…", "abcd", "🙂…"]);
});
