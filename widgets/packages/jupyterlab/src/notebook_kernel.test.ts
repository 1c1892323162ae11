import { beforeEach, expect, test, vi } from "vitest";
import { kernelOf, NotebookKernel } from "./notebook_kernel";
import { PROTOCOL, type Thing } from "./question";
import { Signal } from "./testing/host";

const THING: Thing = {
  number: 1,
  kind: "launch",
  names: ["launch"],
  title: "add",
  detail: "",
  widgets: ["KernelDebugger"],
};

let language = "python";
let things: Thing[] = [];
let replies: object[] = [];
const asked = vi.fn();

function kernel() {
  return {
    info: Promise.resolve({ language_info: { name: language } }),
    requestExecute(content: { user_expressions: { answer: string } }) {
      asked(content.user_expressions.answer);
      const data = { "application/json": { protocol: PROTOCOL, things } };
      const content_ = replies.shift() ?? {
        status: "ok",
        user_expressions: { answer: { status: "ok", data } },
      };
      return { done: Promise.resolve({ content: content_ }) };
    },
  };
}

function panel() {
  const made = {
    isDisposed: false,
    disposed: new Signal(null),
    context: { path: "mine.ipynb" },
    sessionContext: {
      session: { kernel: kernel() as object | null },
      kernelChanged: new Signal(null),
      statusChanged: new Signal(null),
      iopubMessage: new Signal(null),
    },
  };
  return made;
}
const settled = () => new Promise((done) => setTimeout(done));
const opened = (made: ReturnType<typeof panel>) => new NotebookKernel(made as never);

beforeEach(() => {
  language = "python";
  things = [THING];
  replies = [];
  asked.mockClear();
});

test("it lists what the notebook has, and again after a cell, not after a question of its own", async () => {
  const made = panel();
  const notebook = opened(made);
  await settled();
  expect(notebook.things).toEqual([THING]);
  const changed = vi.fn();
  notebook.changed.connect(changed);
  made.sessionContext.statusChanged.emit("idle");
  await settled();
  expect(asked).toHaveBeenCalledTimes(1);
  things = [];
  made.sessionContext.iopubMessage.emit({ header: { msg_type: "execute_input" } });
  made.sessionContext.statusChanged.emit("idle");
  await settled();
  expect(notebook.things).toEqual([]);
  expect(changed).toHaveBeenCalledOnce();
});

test("why there is nothing is a sentence", async () => {
  const made = panel();
  made.sessionContext.session.kernel = null;
  const without = opened(made);
  await settled();
  expect(without.state).toEqual({ kind: "no kernel", text: "This notebook has no kernel." });
  language = "R";
  const other = opened(panel());
  await settled();
  expect(other.state?.kind).toBe("other language");
  language = "python";
  replies = [{ status: "ok", user_expressions: { answer: { status: "ok", data: {} } } }];
  const not = opened(panel());
  await settled();
  expect(not.state?.kind).toBe("not imported");
});

test("a question that a failing cell took down with it is asked again", async () => {
  replies = [{ status: "aborted" }, { status: "aborted" }];
  const notebook = opened(panel());
  await settled();
  expect(notebook.things).toEqual([THING]);
  expect(asked).toHaveBeenCalledTimes(3);
});

test("a kernel that is restarted has nothing until it is asked again", async () => {
  const made = panel();
  const notebook = opened(made);
  await settled();
  made.sessionContext.statusChanged.emit("restarting");
  expect(notebook.state?.kind).toBe("not imported");
  expect(notebook.generation).toBe(1);
  made.sessionContext.statusChanged.emit("idle");
  await settled();
  expect(notebook.things).toEqual([THING]);
});

test("an answer of the kernel before is not taken for the next one's", async () => {
  const made = panel();
  let answer = (_: object) => {};
  made.sessionContext.session.kernel = {
    info: Promise.resolve({ language_info: { name: "python" } }),
    requestExecute: () => ({ done: new Promise((done) => (answer = done)) }),
  };
  const notebook = opened(made);
  await settled();
  made.sessionContext.kernelChanged.emit();
  const data = { "application/json": { protocol: PROTOCOL, things: [THING] } };
  answer({ content: { status: "ok", user_expressions: { answer: { status: "ok", data } } } });
  await settled();
  expect(notebook.things).toEqual([]);
});

test("a notebook has one", () => {
  const made = panel();
  expect(kernelOf(made as never)).toBe(kernelOf(made as never));
  expect(kernelOf(panel() as never)).not.toBe(kernelOf(made as never));
});

test("while its kernel is being connected a notebook is not said to have none", async () => {
  const made = panel();
  const connected = made.sessionContext.session.kernel;
  let connect = (): void => undefined;
  const ready = new Promise<void>((done) => {
    connect = done;
  });
  made.sessionContext.session.kernel = null;
  const notebook = opened({ ...made, sessionContext: { ...made.sessionContext, ready } } as typeof made);
  await settled();
  expect(notebook.state).toBeNull();
  made.sessionContext.session.kernel = connected;
  connect();
  await settled();
  expect(notebook.things).toEqual([THING]);
});
