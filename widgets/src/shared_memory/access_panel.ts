// Bank conflicts of one warp access: those of this moment, or a column of the tile with and without its swizzle.

import { h, type Theme } from "../core";
import { swizzleAddress } from "../memory/swizzle";
import { bankTable } from "./bank_view";
import { bankUse } from "./banks";
import type { Access, Code, FrameInfo } from "./data";
import type { Layout } from "./layout";

interface Choice {
  label: string;
  addresses: number[];
  lanes: number;
  bytes: number;
}

function ofMoment(access: Access, code: Record<string, Code>): Choice {
  const opcode = code[String(access.pc)]?.opcode ?? "access";
  return { label: `warp ${access.warp}, ${access.when}: ${opcode}`, ...access };
}

/** Eight lanes, each 16 bytes of one column: what ldmatrix asks for in one phase. */
function ofTile(layout: Layout): Choice[] {
  const column = layout.pieces.filter((piece) => piece.chunk === 0).slice(0, 32);
  if (column.length < 8) return [];
  const rows = Math.min(32, Math.floor(column.length / 8) * 8);
  const lanes = rows >= 32 ? -1 : (1 << rows) - 1;
  const addresses = column.slice(0, rows).map((piece) => piece.address);
  const linear = addresses.map((address) => swizzleAddress(layout.swizzle, address));
  const name = `chunk 0 of ${layout.down} 0–${rows - 1}, 16 B a lane, as ldmatrix reads it`;
  return [
    { label: `${name}: with this tile's swizzle (${layout.swizzle})`, addresses, lanes, bytes: 16 },
    { label: `${name}: had it none`, addresses: linear, lanes, bytes: 16 },
  ];
}

export interface AccessPanel {
  root: HTMLElement;
  show(frame: FrameInfo | undefined, code: Record<string, Code>, layout: Layout, theme: Theme): void;
}

export function accessPanel(): AccessPanel {
  const picker = h("select", { class: "sg-select ssm-picker", "aria-label": "Access" });
  const table = h("div");
  const root = h("div", {}, h("label", { class: "smv-label" }, "access ", picker), table);
  let choices: Choice[] = [];
  let theme: Theme | undefined;
  const draw = () => {
    const choice = choices[Math.max(0, picker.selectedIndex)];
    if (!choice || !theme) {
      table.replaceChildren(
        h(
          "p",
          { class: "smv-note" },
          "No warp is about to access shared memory, and no tile is open. Step to a load or a store.",
        ),
      );
      return;
    }
    table.replaceChildren(bankTable(bankUse(choice.addresses, choice.lanes, choice.bytes), theme));
  };
  picker.addEventListener("change", draw);
  return {
    root,
    show(frame, code, layout, next) {
      theme = next;
      const before = picker.value;
      choices = [...(frame?.accesses ?? []).map((access) => ofMoment(access, code)), ...ofTile(layout)];
      picker.replaceChildren(...choices.map(({ label }) => h("option", { value: label }, label)));
      if (choices.some(({ label }) => label === before)) picker.value = before;
      draw();
    },
  };
}
