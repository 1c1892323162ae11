import { expect, test } from "vitest";
import { headingOf, hueOf, requestIn, shortName } from "./names";

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

test("a request is found by its name as it is shown, long or short, and a token of it", () => {
  const requests = ["request 1", "request 12", "r0", "my chat"].map((name, index) => ({ name, index }));
  const found = (text: string) => {
    const { request, token } = requestIn(text, requests);
    return [request?.index, token];
  };
  expect(["request 1", "Request 12", "req 12", "R0"].map(found)).toEqual([
    [0, undefined],
    [1, undefined],
    [1, undefined],
    [2, undefined],
  ]);
  expect(["request 12 300", "req 1: 5", "r0, token 7", "my chat 2"].map(found)).toEqual([
    [1, 300],
    [0, 5],
    [2, 7],
    [3, 2],
  ]);
  expect(["request 3", "token 5", "-3", ""].map(found)).toEqual(Array(4).fill([undefined, undefined]));
});

test("a heading says request once", () => {
  expect(["r3", "request 2", "my chat"].map(headingOf)).toEqual([
    "Request r3",
    "Request 2",
    "Request my chat",
  ]);
});
