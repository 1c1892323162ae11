import { expect, test } from "vitest";
import { starterNotebook } from "./starter";

const KERNEL = { name: "py311", display_name: "Python 3.11", language: "python" };
interface Cell {
  id: string;
  cell_type: string;
  source: string;
  outputs?: unknown[];
}
const notebook = starterNotebook(KERNEL) as {
  cells: Cell[];
  metadata: { kernelspec: object };
  nbformat: number;
  nbformat_minor: number;
};

test("it is a notebook of format 4.5 for the reader's kernel", () => {
  expect([notebook.nbformat, notebook.nbformat_minor]).toEqual([4, 5]);
  expect(notebook.metadata.kernelspec).toEqual(KERNEL);
  const ids = notebook.cells.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  for (const cell of notebook.cells) expect("outputs" in cell).toBe(cell.cell_type === "code");
});

test("what it steps is what it defines, and a cell ends with the launch, which shows the debugger", () => {
  const [kernel, step] = notebook.cells.filter(({ cell_type }) => cell_type === "code") as [Cell, Cell];
  const [, name] = /def (\w+)\(/.exec(kernel.source) ?? [];
  expect(step.source).toContain(`sglab.step(${name}[`);
  expect(step.source.split("\n").at(-1)).toBe("launch");
  for (const each of [kernel, step]) expect(each.source).not.toMatch(/[`$]/);
});
