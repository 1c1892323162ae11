import { expect, test } from "vitest";
import { readRecording } from "./saved_file";

const widget = {
  widget: "page_table",
  version: 2,
  sglab: "0.1.0",
  state: { header: { title: "Page table" } },
  tensors: {},
};
const file = (changes: object) =>
  JSON.stringify({ sglab: "recording", format: 1, title: "Page table", widgets: [widget], ...changes });

test("a recording is read", () => {
  expect(readRecording(file({}))).toEqual({ title: "Page table", widgets: [widget] });
});

test.each([
  ["no JSON", "<html>", /not JSON, or was cut short/],
  ["cut short", file({}).slice(0, 40), /cut short/],
  ["other JSON", '{"a": 1}', /no recording of sglab/],
  ["null", "null", /no recording of sglab/],
  ["another format", file({ format: 9 }), /format 9.*reads format 1/],
  ["a bundle's name that is a path", file({ widgets: [{ ...widget, widget: "../x" }] }), /no widget/],
  ["none in it", file({ widgets: [] }), /holds no widget/],
  ["a widget without a header", file({ widgets: [{ ...widget, state: {} }] }), /lacks what its page_table/],
  ["a widget without a state", file({ widgets: [{ ...widget, state: null }] }), /lacks what its page_table/],
  [
    "a widget without tensors",
    file({ widgets: [{ ...widget, tensors: undefined }] }),
    /lacks what its page_table/,
  ],
  ["widgets that are none", file({ widgets: [null] }), /no widget/],
])("%s is refused with a sentence", (_, text, sentence) => {
  expect(() => readRecording(text)).toThrow(sentence);
});
