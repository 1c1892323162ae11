import { beforeEach, expect, test, vi } from "vitest";
import { addCommands, addToPalette, COMMANDS } from "./commands";
import type { Thing } from "./question";
import { fullScreen } from "./tab_toolbar";
import { actions, chosen, dismissed, told } from "./testing/host";

vi.mock("./tab_toolbar", () => ({ fullScreen: vi.fn() }));

const thing = (change: Partial<Thing>): Thing => ({
  number: 1,
  kind: "launch",
  names: ["launch"],
  title: "add",
  detail: "",
  widgets: ["KernelDebugger", "WarpRoles"],
  ...change,
});
const BATCH = thing({
  number: 2,
  kind: "batch",
  names: ["batch"],
  title: "3 requests",
  widgets: ["PageTable", "SplitKV"],
});

beforeEach(() => {
  told.length = 0;
  chosen.label = undefined;
});

function made(things: Thing[] | null) {
  const added = new Map<string, { execute: (args: object) => unknown; label?: string }>();
  const executed: [string, unknown][] = [];
  const notebook = things && { things, busy: false, panel: { id: "notebook" }, ask: vi.fn() };
  let count = 0;
  const tabs = {
    current: null as { isVisible: boolean } | null,
    below: false,
    open: vi.fn((_n: unknown, _thing: Thing, _widget: string, _options?: object) => ({
      id: `tab${count++}`,
    })),
    add: vi.fn(),
  };
  const contents = {
    newUntitled: vi.fn(async ({ path }) => ({ path: `${path}/Untitled.ipynb` })),
    save: vi.fn(),
  };
  const app = {
    shell: { currentWidget: null },
    commands: {
      addCommand: (id: string, options: never) => added.set(id, options),
      execute: async (id: string, args: unknown) => void executed.push([id, args]),
    },
    serviceManager: { contents, kernelspecs: { specs: null } },
  };
  addCommands({ app, tabs, icon: {}, labShell: null, focus: () => notebook } as never);
  const run = async (id: string, args = {}) => added.get(id)?.execute(args);
  return { run, tabs, notebook, contents, executed, added };
}
const opens = (tabs: ReturnType<typeof made>["tabs"]) =>
  tabs.open.mock.calls.map(([, on, widget]) => [on.number, widget]);

test("the debugger opens on the newest launch", async () => {
  const { run, tabs } = made([thing({ number: 1 }), BATCH, thing({ number: 3 })]);
  await run(COMMANDS.debug);
  expect(opens(tabs)).toEqual([[3, "KernelDebugger"]]);
});

test("from the launcher, or without a launch, a notebook to begin with", async () => {
  for (const [things, args, path] of [
    [[thing({})], { cwd: "course" }, "course/Untitled.ipynb"],
    [[BATCH], {}, "/Untitled.ipynb"],
    [null, {}, "/Untitled.ipynb"],
  ] as const) {
    const { run, tabs, contents, executed } = made(things && [...things]);
    await run(COMMANDS.debug, args);
    expect(tabs.open).not.toHaveBeenCalled();
    expect(contents.save.mock.calls[0]?.[0]).toBe(path);
    expect(executed).toEqual([["docmanager:open", { path }]]);
  }
});

test("a widget is chosen from everything on everything", async () => {
  const { run, tabs } = made([thing({}), BATCH]);
  chosen.label = "Warp roles on launch (add)";
  await run(COMMANDS.openOn);
  expect(chosen.offered).toHaveLength(4);
  expect(opens(tabs)).toEqual([[1, "WarpRoles"]]);
  chosen.label = undefined; // the dialog was dismissed
  await run(COMMANDS.openOn);
  expect(tabs.open).toHaveBeenCalledOnce();
});

test("the next finding is asked for and said; an error is said as well", async () => {
  const { run, notebook } = made([thing({ number: 7 })]);
  notebook?.ask
    .mockResolvedValueOnce({ said: "1 of 2: lost update" })
    .mockRejectedValueOnce(new Error("no kernel"));
  await run(COMMANDS.nextFinding);
  await run(COMMANDS.nextFinding);
  expect(notebook?.ask).toHaveBeenCalledWith("next_finding", { thing: 7 });
  expect(told).toEqual(["1 of 2: lost update", "error: no kernel"]);
});

test("a finding that a notification would cut off can be read whole", async () => {
  const { run, notebook } = made([thing({ number: 7 })]);
  const said = `1 of 3: lost update, ${"each reads the place, changes it and writes it back; ".repeat(3)}atomicAdd does that in one step`;
  notebook?.ask.mockResolvedValueOnce({ said }).mockResolvedValueOnce({ said: "2 of 3: short" });
  await run(COMMANDS.nextFinding);
  expect(actions.map(({ label }) => label)).toEqual(["Whole text"]);
  actions[0]?.callback();
  expect(told).toEqual([said, `Finding: ${said}`]);
  await run(COMMANDS.nextFinding);
  expect(actions).toEqual([]);
});

test("a finding takes the place of the one that was said before", async () => {
  const { run, notebook } = made([thing({ number: 7 })]);
  notebook?.ask.mockResolvedValueOnce({ said: "1 of 2" }).mockResolvedValueOnce({ said: "2 of 2" });
  await run(COMMANDS.nextFinding);
  dismissed.length = 0;
  await run(COMMANDS.nextFinding);
  expect(dismissed).toEqual(["note 1"]);
});

test("tabs are arranged beside each other, the first beside the notebook", async () => {
  const { run, tabs } = made([BATCH, thing({ number: 5 })]);
  await run(COMMANDS.arrange);
  expect(
    opens(tabs)
      .map(([, widget]) => widget)
      .sort(),
  ).toEqual(["KernelDebugger", "PageTable", "SplitKV", "WarpRoles"]);
  const options = tabs.open.mock.calls.map(([, , , each]) => each as { ref: string });
  expect(options[0]?.ref).toBe("notebook");
  expect(options.slice(1).every(({ ref }) => /^(tab\d|notebook)$/.test(ref))).toBe(true);
});

test("with nothing to look at, each says what to do", async () => {
  const { run } = made([]);
  for (const id of [COMMANDS.openOn, COMMANDS.nextFinding, COMMANDS.arrange]) await run(id);
  expect(told).toHaveLength(3);
  for (const each of told) expect(each).toMatch(/Run cells that make one first\.$/);
});

test("the palette has every command with a label, and not the one that restores tabs", () => {
  const items: string[] = [];
  addToPalette({ addItem: ({ command }: { command: string }) => items.push(command) } as never);
  const { added } = made(null);
  expect(items.sort()).toEqual(
    [...added]
      .filter(([, { label }]) => label)
      .map(([id]) => id)
      .sort(),
  );
});

test("a tab below a notebook takes the whole screen, too, while it is in sight", async () => {
  const { run, tabs } = made([BATCH]);
  tabs.current = { isVisible: true };
  await run(COMMANDS.fullScreen);
  expect(fullScreen).not.toHaveBeenCalled(); // in JupyterLab, where something else is in front
  tabs.below = true;
  await run(COMMANDS.fullScreen);
  expect(fullScreen).toHaveBeenCalledExactlyOnceWith(tabs.current);
  tabs.current = { isVisible: false };
  await run(COMMANDS.fullScreen);
  expect(fullScreen).toHaveBeenCalledOnce();
});

test("while cells run that may make a launch, no other notebook is begun", async () => {
  const { run, notebook, contents } = made([BATCH]);
  if (notebook) notebook.busy = true;
  await run(COMMANDS.debug);
  expect(told).toEqual([expect.stringContaining("still run")]);
  expect(contents.newUntitled).not.toHaveBeenCalled();
  await run(COMMANDS.debug, { cwd: "lab" }); // from the launcher
  expect(contents.newUntitled).toHaveBeenCalledOnce();
});
