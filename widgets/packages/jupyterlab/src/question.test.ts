import { describe, expect, test } from "vitest";
import { expression, NotImportedError, PROTOCOL, readAnswer } from "./question";

describe("a question", () => {
  test("is a Python expression that asks only where sglab is imported", () => {
    expect(expression("open", { thing: 3, widget: "PageTable" })).toBe(
      '__import__("sglab.jupyterlab", fromlist=["answer"]).answer("open", thing=3, widget="PageTable") ' +
        'if "sglab" in __import__("sys").modules else None',
    );
  });
  test("quotes what a model's name may hold", () => {
    expect(expression("view", { model: 'a"b\\c' })).toContain('model="a\\"b\\\\c"');
  });
});

describe("an answer", () => {
  const answered = (content: object) => ({ status: "ok", data: { "application/json": content } });
  test("is the JSON of the value", () => {
    expect(readAnswer<"view">(answered({ protocol: PROTOCOL, model: "m" })).model).toBe("m");
  });
  test("is missing where sglab is not imported", () => {
    expect(() => readAnswer({ status: "ok", data: { "text/plain": "None" } })).toThrow(NotImportedError);
    expect(() => readAnswer(undefined)).toThrow(NotImportedError);
  });
  test("of another protocol is refused with what to do", () => {
    expect(() => readAnswer(answered({ protocol: 7 }))).toThrow(/version 7.*Install one version/);
  });
  test("that is an error is thrown in its own words", () => {
    expect(() => readAnswer(answered({ protocol: PROTOCOL, error: "ValueError: it is gone" }))).toThrow(
      "ValueError: it is gone",
    );
    expect(() => readAnswer({ status: "error", ename: "KeyError", evalue: "'x'" })).toThrow("KeyError: 'x'");
  });
  test("of a kernel whose sglab has no such module says that it is older", () => {
    expect(() => readAnswer({ status: "error", ename: "ModuleNotFoundError", evalue: "…" })).toThrow(/older/);
  });
});
