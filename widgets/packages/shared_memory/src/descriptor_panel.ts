// The shared-memory descriptor and, for tcgen05, the instruction descriptor that gives it its shape.

import { h } from "@sglab/core";
import {
  decodeInstructionDescriptor,
  instructionFields,
  MMA_KINDS,
  type MmaKind,
  shapeProblem,
  storedBits,
} from "@sglab/memory/instruction_descriptor";
import { menu } from "@sglab/memory/parts";
import { type Flavour, type Major, smemFields } from "@sglab/memory/smem_descriptor";
import { fieldEditor, numberInput } from "./field_table";
import { type DescriptorQuestion, type Layout, layoutOfDescriptor, refused } from "./layout";
import type { Tile } from "./protocol";

export interface Descriptor {
  bits: bigint;
  flavour: Flavour;
  operand: "A" | "B";
  kind: MmaKind;
  idesc: number;
  ctaGroup: 1 | 2;
  /** Shape of wgmma operands; tcgen05's is in the instruction descriptor. */
  rows: number;
  k: number;
  element: string;
  elementBits: number;
  major: Major;
}

/** A K-major f16 operand of 128 rows with a 128-byte swizzle, 1,024-byte aligned: what most kernels use. */
export const COMMON: Descriptor = {
  bits: 0x4000404000010040n,
  flavour: "tcgen05",
  operand: "A",
  kind: "f16",
  idesc: 0x08200010,
  ctaGroup: 1,
  rows: 64,
  k: 16,
  element: "f16",
  elementBits: 16,
  major: "K",
};

export function descriptorOf(tile: Tile): Descriptor {
  return {
    bits: BigInt(tile.bits),
    flavour: tile.flavour,
    operand: tile.operand === "B" ? "B" : "A",
    kind: tile.kind || "f16",
    idesc: tile.idesc,
    ctaGroup: tile.ctaGroup,
    rows: tile.rows,
    k: tile.k,
    element: tile.element,
    elementBits: tile.elementBits,
    major: tile.major,
  };
}

/** The operand that a descriptor describes; throws where the instruction descriptor is refused. */
export function questionOf(d: Descriptor): DescriptorQuestion {
  const shared = { bits64: d.bits, flavour: d.flavour, operand: d.operand };
  if (d.flavour === "wgmma")
    return { ...shared, rows: d.rows, k: d.k, bits: d.elementBits, major: d.major, element: d.element };
  const i = decodeInstructionDescriptor(d.idesc, d.kind);
  const type = d.operand === "A" ? i.aType : i.bType;
  const rows = (d.operand === "A" ? i.m : i.n) / d.ctaGroup;
  const k = d.operand === "A" && i.sparse ? i.k / 2 : i.k;
  const major = d.operand === "A" ? i.aMajor : i.bMajor;
  return { ...shared, rows, k, bits: storedBits(type, d.kind), major, element: type };
}

export function layoutOf(d: Descriptor, windowBytes: number): Layout {
  try {
    return layoutOfDescriptor(questionOf(d), windowBytes);
  } catch (error) {
    return refused([(error as Error).message]);
  }
}

function majorOf(d: Descriptor): Major {
  try {
    return questionOf(d).major;
  } catch {
    return d.major;
  }
}

export interface DescriptorPanel {
  smem: HTMLElement;
  instruction: HTMLElement;
  show(descriptor: Descriptor): void;
}

export function descriptorPanel(changed: (descriptor: Descriptor) => void): DescriptorPanel {
  let now = COMMON;
  const edit = (change: Partial<Descriptor>) => changed({ ...now, ...change });
  const bits = fieldEditor("Descriptor", 64, (next) => edit({ bits: next }));
  const idesc = fieldEditor("Instruction descriptor", 32, (next) => edit({ idesc: Number(next) }));
  const flavour = menu<Flavour>(
    "form",
    [
      ["tcgen05", "tcgen05"],
      ["wgmma", "wgmma"],
    ],
    (picked) => edit({ flavour: picked }),
  );
  const operand = menu<"A" | "B">(
    "operand",
    [
      ["A", "A"],
      ["B", "B"],
    ],
    (picked) => edit({ operand: picked }),
  );
  const major = menu<Major>(
    "major",
    [
      ["K", "K"],
      ["MN", "MN"],
    ],
    (picked) => edit({ major: picked }),
  );
  const rows = numberInput("M or N", { min: 8, max: 256, step: 8 }, (value) => edit({ rows: value }));
  const k = numberInput("K", { min: 8, max: 64, step: 8 }, (value) => edit({ k: value }));
  const shape = h("p", { class: "smv-note" });
  const wgmma = h("span", { class: "ssm-row" }, major.root, rows.root, k.root);
  const kind = menu<MmaKind>(
    "kind",
    MMA_KINDS.map((each) => [each, each] as const),
    (picked) => edit({ kind: picked }),
  );
  const group = menu<"1" | "2">(
    "cta_group",
    [
      ["1", "1"],
      ["2", "2"],
    ],
    (picked) => edit({ ctaGroup: picked === "2" ? 2 : 1 }),
  );
  const verdict = h("p", { class: "smv-note", role: "status" });

  return {
    smem: h("div", {}, h("div", { class: "ssm-row" }, flavour.root, operand.root, wgmma), shape, bits.root),
    instruction: h("div", {}, h("div", { class: "ssm-row" }, kind.root, group.root), verdict, idesc.root),
    show(next) {
      now = next;
      flavour.show(next.flavour);
      operand.show(next.operand);
      major.show(next.major);
      rows.show(next.rows);
      k.show(next.k);
      wgmma.hidden = next.flavour === "tcgen05";
      kind.show(next.kind);
      group.show(String(next.ctaGroup) as "1" | "2");
      bits.show(next.bits, smemFields(next.bits, next.flavour, majorOf(next)));
      idesc.show(BigInt(next.idesc), instructionFields(next.kind));
      const from = next.flavour === "tcgen05" ? ": shape and major from the instruction descriptor" : "";
      shape.textContent = `Read as, in each CTA: ${shapeText(next)}${from}.`;
      const { text, bad } = instructionText(next);
      verdict.textContent = text;
      verdict.className = bad ? "ssm-error" : "smv-note";
    },
  };
}

/** "A, M 64 × K 16 f16, K-major" */
export function shapeText(d: Descriptor): string {
  try {
    const { rows, k, element, major } = questionOf(d);
    const side = d.operand === "A" ? "M" : "N";
    return `${d.operand}, ${side} ${rows} × K ${k} ${element}, ${major}-major`;
  } catch (error) {
    return `▲ ${(error as Error).message}`;
  }
}

function instructionText(d: Descriptor): { text: string; bad: boolean } {
  try {
    const i = decodeInstructionDescriptor(d.idesc, d.kind);
    const problem = shapeProblem(i, d.kind, d.ctaGroup);
    if (problem) return { text: `▲ ${problem}.`, bad: true };
    const wgmma = d.flavour === "wgmma" ? " wgmma has no instruction descriptor: this is the only one." : "";
    return {
      text: `D (${i.m}×${i.n} ${i.dType}) += A (${i.m}×${i.k} ${i.aType}) · B (${i.k}×${i.n} ${i.bType}).${wgmma}`,
      bad: false,
    };
  } catch (error) {
    return { text: `▲ ${(error as Error).message}`, bad: true };
  }
}
