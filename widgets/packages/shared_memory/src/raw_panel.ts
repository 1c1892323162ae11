// Bytes without a descriptor: an array whose rows are a given number of bytes apart.

import { h } from "@sglab/core";
import { menu } from "@sglab/memory/parts";
import { CHUNK_SWIZZLES, type Swizzle, swizzleLabel } from "@sglab/memory/swizzle";
import { numberInput } from "./field_table";
import { type Layout, layoutOfRows, refused } from "./layout";

export const ELEMENTS = ["f16", "bf16", "f32", "e4m3", "u8", "u16", "u32", "s32"] as const;
export type Element = (typeof ELEMENTS)[number];
const BITS: Record<Element, number> = {
  f16: 16,
  bf16: 16,
  f32: 32,
  e4m3: 8,
  u8: 8,
  u16: 16,
  u32: 32,
  s32: 32,
};
const MOST = 1 << 16; // bytes drawn together

export interface RawEdit {
  name: string;
  start: number;
  bytes: number;
  pitch: number;
  element: Element;
  swizzle: Swizzle;
}

export function layoutOfRaw({ start, bytes, pitch, element, swizzle }: RawEdit): Layout {
  if (pitch < 16 || pitch % 16)
    return refused([`The row pitch must be a multiple of 16 bytes; got ${pitch}.`]);
  return layoutOfRows(start - (start % 16), Math.min(bytes, MOST), pitch, element, BITS[element], swizzle);
}

export interface RawPanel {
  root: HTMLElement;
  show(edit: RawEdit): void;
}

export function rawPanel(changed: (edit: RawEdit) => void): RawPanel {
  let now: RawEdit = { name: "", start: 1024, bytes: 1024, pitch: 128, element: "f16", swizzle: "none" };
  // Kept immediately: a second change may come before the first is shown.
  const change = (part: Partial<RawEdit>) => {
    now = { ...now, ...part };
    changed(now);
  };
  const pitch = numberInput("row pitch in bytes", { min: 16, step: 16 }, (value) => change({ pitch: value }));
  const element = menu<Element>(
    "elements",
    ELEMENTS.map((each) => [each, each] as const),
    (picked) => change({ element: picked }),
  );
  const swizzle = menu<Swizzle>(
    "chunks",
    (["none", ...CHUNK_SWIZZLES] as const).map((each) => [each, swizzleLabel(each)] as const),
    (picked) => change({ swizzle: picked }),
  );
  const what = h("p", { class: "smv-note" });
  return {
    root: h("div", {}, h("div", { class: "ssm-row" }, pitch.root, element.root, swizzle.root), what),
    show(edit) {
      now = edit;
      pitch.show(edit.pitch);
      element.show(edit.element);
      swizzle.show(edit.swizzle);
      what.textContent =
        `${edit.name || "Bytes"}: ${edit.bytes.toLocaleString("en-US")} bytes from smem+0x${edit.start.toString(16)}, ` +
        `shown as rows of ${edit.pitch.toLocaleString("en-US")} bytes. A kernel that permutes chunks reads them so only where you choose the same permutation. ` +
        "Press a variable above, or go to an address, to read others.";
    },
  };
}
