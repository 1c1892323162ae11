// Bank conflicts: every instruction's over the whole launch, and one access lane by lane; as it ran, and permuted.

import { format, h, type Theme } from "@sglab/core";
import { bankUse } from "@sglab/memory/banks";
import type { Code } from "@sglab/memory/protocol";
import { CHUNK_SWIZZLES, type Swizzle, swizzleAddress, swizzleLabel } from "@sglab/memory/swizzle";
import { bankTable } from "./bank_view";
import type { Layout } from "./layout";
import type { Access, FrameInfo, InstructionBanks } from "./protocol";

interface Choice {
  /** Of the instruction; none where the access is imagined. */
  pc?: number;
  label: string;
  addresses: number[];
  lanes: number;
  bytes: number;
  turns?: boolean;
}

function ofMoment(access: Access, code: Record<string, Code>): Choice {
  const opcode = code[String(access.pc)]?.opcode ?? "access";
  return { label: `warp ${access.warp}, ${access.when}: ${opcode}`, ...access };
}

/** Where the kernel's instructions are listed and none of them runs now. */
const NONE_NOW: Choice = { label: "none at this step", addresses: [], lanes: 0, bytes: 0 };

/** Eight lanes, each 16 bytes of one column: what ldmatrix reads in one phase. */
function ofTile(layout: Layout): Choice[] {
  const column = layout.pieces.filter((piece) => piece.chunk === 0).slice(0, 32);
  if (column.length < 8) return [];
  const rows = Math.min(32, Math.floor(column.length / 8) * 8);
  const lanes = rows >= 32 ? -1 : (1 << rows) - 1;
  const addresses = column.slice(0, rows).map((piece) => piece.address);
  const label = `imagined: ldmatrix of chunk 0, ${layout.down} 0–${rows - 1} of the open tile`;
  return [{ label, addresses, lanes, bytes: 16 }];
}

export interface AccessPanel {
  root: HTMLElement;
  show(
    banks: readonly InstructionBanks[],
    frame: FrameInfo | undefined,
    code: Record<string, Code>,
    layout: Layout,
    theme: Theme,
  ): void;
}

interface Launched {
  banks: readonly InstructionBanks[];
  code: Record<string, Code>;
}

export function accessPanel(goToEvent: (event: number) => void): AccessPanel {
  const permutation = h(
    "select",
    { class: "sg-select", "aria-label": "Beside it, permuted by" },
    h("option", { value: "" }, "nothing"),
    ...CHUNK_SWIZZLES.map((name) => h("option", { value: name }, swizzleLabel(name))),
  );
  const picker = h("select", { class: "sg-select ssm-picker", "aria-label": "Access" });
  const [instructions, tables] = [h("div"), h("div", { class: "ssm-bank-tables" })];
  const root = h(
    "div",
    {},
    h("label", { class: "smv-label" }, "beside it, every address permuted by ", permutation),
    instructions,
    h("label", { class: "smv-label" }, "access ", picker),
    tables,
  );
  let choices: Choice[] = [];
  let shown: Launched | undefined;
  let theme: Theme | undefined;
  let chosen = false;
  let picked = "";
  const goTo = (event: number) => {
    picked = "";
    goToEvent(event);
  };
  const draw = () => {
    if (!shown || !theme) return;
    const by = (permutation.value || undefined) as Swizzle | undefined;
    const choice = choices[Math.max(0, picker.selectedIndex)];
    const scrolled = instructions.firstElementChild?.scrollTop ?? 0;
    instructions.replaceChildren(instructionTable(shown, choice?.pc, by, goTo));
    keepInSight(instructions, scrolled);
    tables.replaceChildren(...(choice?.bytes ? accessTables(choice, by, theme) : [NOTHING()]));
  };
  picker.addEventListener("change", () => {
    picked = picker.value;
    draw();
  });
  permutation.addEventListener("change", () => {
    chosen = true;
    draw();
  });
  return {
    root,
    show(banks, frame, code, layout, next) {
      shown = { banks, code };
      theme = next;
      if (!chosen) permutation.value = CHUNK_SWIZZLES.includes(layout.swizzle) ? layout.swizzle : "";
      const now = (frame?.accesses ?? []).map((access) => ofMoment(access, code));
      // what the kernel does comes before what it might have done
      choices = [...(now.length || !banks.length ? now : [NONE_NOW]), ...ofTile(layout)];
      picker.replaceChildren(...choices.map(({ label }) => h("option", { value: label }, label)));
      if (choices.some(({ label }) => label === picked)) picker.value = picked;
      draw();
    },
  };
}

/** The list stands where it was scrolled to, or as near as shows the row of the access. */
function keepInSight(instructions: HTMLElement, scrolled: number): void {
  const list = instructions.firstElementChild;
  if (!list) return;
  list.scrollTop = scrolled;
  const present = list.querySelector(".ssm-present");
  const [head, foot] = [list.querySelector("thead"), list.querySelector("tfoot")];
  if (!present || !head || !foot) return;
  const [row, top] = [present.getBoundingClientRect(), head.getBoundingClientRect().bottom];
  const bottom = foot.getBoundingClientRect().top;
  if (row.top < top) list.scrollTop -= top - row.top;
  else if (row.bottom > bottom) list.scrollTop += row.bottom - bottom;
}

const NOTHING = () =>
  h(
    "p",
    { class: "smv-note" },
    "No warp accesses shared memory at this step. Step to a load or a store, or press an instruction above.",
  );

function accessTables(choice: Choice, by: Swizzle | undefined, theme: Theme): HTMLElement[] {
  const { lanes, bytes, turns = false } = choice;
  const tableOf = (title: string, addresses: readonly number[]) =>
    bankTable(title, bankUse(addresses, lanes, bytes, turns), turns, theme);
  const parts = [tableOf("As the addresses are", choice.addresses)];
  if (by) {
    const moved = choice.addresses.map((address) => swizzleAddress(by, address));
    parts.push(tableOf(`Permuted, ${swizzleLabel(by)}`, moved));
  }
  return parts;
}

function instructionTable(
  { banks, code }: Launched,
  present: number | undefined,
  by: Swizzle | undefined,
  goToEvent: (event: number) => void,
): HTMLElement {
  if (!banks.length)
    return h(
      "p",
      { class: "smv-note" },
      "No warp of this CTA loads from shared memory or stores to it itself.",
    );
  const heads = ["instruction", "source", "times", "B a lane", "passes", "at least"];
  if (by) heads.push("permuted");
  const rows = worstFirst(banks, by).map((one) => {
    const { opcode = "access", source = "", line = 0 } = code[String(one.pc)] ?? {};
    const button = h(
      "button",
      { type: "button", class: "sg-button ssm-mark" },
      opcode.replace(".sync.aligned", ""),
    );
    button.title = `${opcode}: go to its first execution, to see it bank by bank`;
    button.addEventListener("click", () => goToEvent(one.first));
    const cells = [source || `PTX ${line}`, format.count(one.executions), String(one.nbytes)];
    return h(
      "tr",
      { class: one.pc === present ? "ssm-present" : "" },
      h("td", {}, button),
      ...cells.map((text) => h("td", {}, text)),
      passesCell(one.passes, one.least),
      h("td", {}, format.count(one.least)),
      ...(by ? [passesCell(one.permuted[by] ?? 0, one.least)] : []),
    );
  });
  const [passes, least] = [sum(banks.map((one) => one.passes)), sum(banks.map((one) => one.least))];
  const moved = by ? [passesCell(sum(banks.map((one) => one.permuted[by] ?? 0)), least)] : [];
  const all = h(
    "tr",
    {},
    h("th", { scope: "row", colSpan: 4 }, "all"),
    passesCell(passes, least),
    h("td", {}, format.count(least)),
    ...moved,
  );
  const table = h(
    "table",
    { class: "ssm-instructions" },
    h(
      "caption",
      {},
      "Accesses of this CTA's lanes in the whole launch, and their passes through the 32 banks",
    ),
    h("thead", {}, h("tr", {}, ...heads.map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, ...rows),
    h("tfoot", {}, all),
  );
  const shown = present === undefined ? "ssm-tall" : "ssm-tall ssm-above"; // the access's own banks stand below
  const box = { class: `ssm-scroll ${shown}`, tabindex: 0, role: "group", "aria-label": "Instructions" };
  return h("div", box, table);
}

/** Those with more passes than they need come first, as they ran or permuted, the worst before the others. */
function worstFirst(banks: readonly InstructionBanks[], by: Swizzle | undefined): InstructionBanks[] {
  const lost = (one: InstructionBanks) => Math.max(one.passes, (by && one.permuted[by]) ?? 0) - one.least;
  return [...banks].sort((a, b) => lost(b) - lost(a));
}

function passesCell(passes: number, least: number): HTMLElement {
  const bad = passes > least;
  return h("td", { class: bad ? "ssm-bad" : "" }, `${bad ? "▲ " : ""}${format.count(passes)}`);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
