// Bytes without a descriptor: an array whose rows are a given number of bytes apart.

import { h, setAttributes } from "@sglab/core";
import { button, menu } from "@sglab/memory/parts";
import { CHUNK_SWIZZLES, type Swizzle, swizzleLabel } from "@sglab/memory/swizzle";
import { elementAtAddress, elementsOf, onlyElement, type Run } from "./element";
import { numberInput } from "./field_table";
import { type Layout, layoutOfRows, refused } from "./layout";
import { BITS, elementName, isReadable } from "./words";

/** As accesses say; or bytes, as which everything can be read. */
const CHOICES = ["accessed", "f16", "bf16", "f32", "f64", "e4m3", "e5m2"] as const;
const INTEGERS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "bytes"] as const;
export type Reading = (typeof CHOICES)[number] | (typeof INTEGERS)[number];
const LABELS: Partial<Record<Reading, string>> = { accessed: "as accessed", bytes: "hexadecimal" };
const MOST = 1 << 16; // bytes drawn together
const LISTED = 8; // parts with a button

export interface RawEdit {
  name: string;
  start: number;
  bytes: number;
  pitch: number;
  reading: Reading;
  swizzle: Swizzle;
  /** What accesses say of these bytes. */
  runs: readonly Run[];
  /** The run that is shown alone. */
  part?: Pick<Run, "start" | "end"> | undefined;
}

/** The bytes that are shown, and what accesses say of them. */
function shownOf({ start, bytes, runs, part }: RawEdit): {
  start: number;
  bytes: number;
  runs: readonly Run[];
} {
  if (!part) return { start, bytes, runs };
  const inside = runs.filter((run) => run.start < part.end && run.end > part.start);
  return { start: part.start, bytes: part.end - part.start, runs: inside };
}

export function layoutOfRaw(edit: RawEdit): Layout {
  const { pitch, reading, swizzle } = edit;
  const { start, bytes, runs } = shownOf(edit);
  if (pitch < 16 || pitch % 16)
    return refused([`The row pitch must be a multiple of 16 bytes; got ${pitch}.`]);
  const chosen = reading === "accessed" ? onlyElement(runs) : reading;
  const bits = BITS[chosen ?? ""];
  const [from, size] = [start - (start % 16), Math.min(bytes, MOST)];
  if (chosen && bits) return layoutOfRows(from, size, pitch, chosen, bits, swizzle);
  const layout = layoutOfRows(from, size, pitch, "", 8, swizzle);
  const known = (name: string) => (isReadable(name) ? name : "");
  const elementOf = (address: number) =>
    reading === "accessed" ? known(elementAtAddress(runs, address)) : "";
  return { ...layout, across: "byte", elementOf };
}

/** What the elements are taken from, as a sentence. */
export function saidText(runs: readonly Run[], reading: Reading): string {
  const found = elementsOf(runs);
  const known = found.filter((name) => name);
  if (reading !== "accessed") return `Read as ${LABELS[reading] ?? reading}, as you chose.`;
  if (!known.length)
    return "No instruction of this run says what they hold: they are shown in hexadecimal. Choose elements to read them.";
  const rest = found.length > known.length ? "; in hexadecimal where none says it" : "";
  const names = new Set(known.map((name) => elementName(name).split("+").sort().join("+"))); // structs begin anywhere
  return `Elements as the instructions say that compute with them: ${[...names].join(", ")}${rest}.`;
}

export interface RawPanel {
  root: HTMLElement;
  show(edit: RawEdit): void;
}

export function rawPanel(changed: (edit: RawEdit) => void): RawPanel {
  let now: RawEdit | undefined;
  // Kept immediately: a second change may come before the first is shown.
  const change = (part: Partial<RawEdit>) => {
    if (!now) return;
    now = { ...now, ...part };
    changed(now);
  };
  const pitch = numberInput("row pitch in bytes", { min: 16, step: 16 }, (value) => change({ pitch: value }));
  const element = menu<Reading>(
    "elements",
    [...CHOICES, ...INTEGERS].map((each) => [each, LABELS[each] ?? each] as const),
    (picked) => change({ reading: picked }),
  );
  const swizzle = menu<Swizzle>(
    "chunks",
    (["none", ...CHUNK_SWIZZLES] as const).map((each) => [each, swizzleLabel(each)] as const),
    (picked) => change({ swizzle: picked }),
  );
  const what = h("p", { class: "smv-note" });
  const place = (address: number) => `smem+0x${address.toString(16)}`;
  let listed: readonly Run[] = [];
  let buttons: (readonly [part: RawEdit["part"], button: HTMLButtonElement])[] = [];
  const parts = h("div", { class: "smv-switch", role: "group", "aria-label": "Which part is shown" });
  const partButton = (text: string, title: string, part: RawEdit["part"]) =>
    [part, button(text, title, () => change({ part }))] as const;
  function list(runs: readonly Run[]): void {
    if (runs === listed) return;
    listed = runs;
    const several = runs.length > 1 && runs.length <= LISTED;
    buttons = several ? [partButton("all", "All parts together", undefined)] : [];
    for (const { start, end, element: name } of several ? runs : []) {
      const title = `${elementName(name) || "Bytes of which nothing is said"}, ${place(start)} to ${place(end)}: show them alone`;
      buttons.push(partButton(`${elementName(name) || "?"} ${place(start)}`, title, { start, end }));
    }
    parts.replaceChildren(...buttons.map(([, each]) => each));
  }
  return {
    root: h("div", {}, h("div", { class: "ssm-row" }, pitch.root, element.root, swizzle.root), what, parts),
    show(edit) {
      now = edit;
      pitch.show(edit.pitch);
      element.show(edit.reading);
      swizzle.show(edit.swizzle);
      what.textContent =
        `${edit.name || "Bytes"}: ${edit.bytes.toLocaleString("en-US")} bytes from ${place(edit.start)}. ${saidText(shownOf(edit).runs, edit.reading)} ` +
        "A kernel that permutes chunks reads them so only where you choose the same permutation.";
      list(edit.runs);
      parts.hidden = !buttons.length || edit.reading !== "accessed";
      for (const [part, each] of buttons) {
        const pressed = part?.start === edit.part?.start && part?.end === edit.part?.end;
        setAttributes(each, { "aria-pressed": String(pressed) });
      }
    },
  };
}
