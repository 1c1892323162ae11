// Behind *more*: shapes of attention, to see where their arithmetic lies.

import { type Disposer, h } from "@sglab/core";
import { button, menu } from "@sglab/memory/parts";
import type { Texts } from "./protocol";

export interface Shapes {
  kind: string;
  batch: number;
  length: number;
  num_heads: number;
  num_kv_heads: number;
}

const BEGIN: Shapes = { kind: "decode", batch: 32, length: 4096, num_heads: 32, num_kv_heads: 8 };

export function attentionForm(
  texts: Texts,
  disposer: Disposer,
  add: (shapes: Shapes) => void,
  refuse: (why: Error) => void,
): HTMLElement[] {
  let kind = BEGIN.kind;
  const number = (name: "batch" | "length" | "num_heads" | "num_kv_heads", label: string) => {
    const field = h("input", { type: "number", class: "sg-field srf-number", min: 1, value: BEGIN[name] });
    disposer.listen(field, "keydown", (event) => {
      if (event.key === "Enter") addNow();
    });
    return { name, field, label: h("label", {}, `${label} `, field) };
  };
  const fields = [
    number("batch", "requests"),
    number("length", "tokens"),
    number("num_heads", "heads"),
    number("num_kv_heads", "KV heads"),
  ];
  const kinds = menu("add", Object.entries(texts.attention), (chosen) => {
    kind = chosen;
    const latent = chosen === "mla_decode";
    for (const { name, field, label } of fields) {
      if (name === "num_kv_heads") label.hidden = latent;
      if (name === "num_heads") field.value = latent ? "128" : String(BEGIN.num_heads);
    }
  });
  kinds.root.querySelector("select")?.classList.add("srf-kinds");
  const addNow = () => {
    const wrong = fields.find(({ field, label }) => !label.hidden && !/^[1-9]\d*$/.test(field.value.trim()));
    if (wrong) {
      const name = (wrong.label.firstChild?.textContent ?? "").trim();
      refuse(new Error(`${name}: write a whole number from 1; got "${wrong.field.value}".`));
      wrong.field.focus();
      return;
    }
    const values = Object.fromEntries(fields.map(({ name, field }) => [name, Number(field.value)]));
    add({ ...BEGIN, ...values, kind });
  };
  return [
    kinds.root,
    ...fields.map(({ label }) => label),
    button("add", "add what attention of these shapes has to do (Enter)", addNow),
  ];
}
