// A descriptor's fields in a table, each editable; the whole number above them.

import { h } from "@sglab/core";
import { type Field, hex, parseHex, readField, writeField } from "@sglab/memory/fields";

export interface FieldEditor {
  root: HTMLElement;
  show(bits: bigint, fields: readonly Field[]): void;
}

/** `changed` hears every edit that can be read; one that cannot is named below the number and changes nothing. */
export function fieldEditor(title: string, width: number, changed: (bits: bigint) => void): FieldEditor {
  let bits = 0n;
  const error = h("p", { class: "ssm-error", role: "alert" });
  const whole = h("input", {
    class: "sg-field ssm-hex",
    type: "text",
    spellcheck: "false",
    "aria-label": `${title}, hexadecimal`,
  });
  const body = h("tbody");
  const attempt = (make: () => bigint) => {
    try {
      bits = make();
      error.textContent = "";
      changed(bits);
    } catch (problem) {
      error.textContent = `▲ ${(problem as Error).message}`;
    }
  };
  whole.addEventListener("change", () => attempt(() => parseHex(whole.value, width)));

  const row = (field: Field): HTMLElement => {
    const raw = readField(bits, field);
    const { unit = 1, low, choices } = field;
    const high = low + field.width - 1;
    const label = `${field.name}${unit > 1 ? " in bytes" : ""}`;
    const control = choices
      ? h(
          "select",
          { class: "sg-select", "aria-label": label },
          ...withCurrent(choices, raw).map(([value, text]) => h("option", { value }, `${value}: ${text}`)),
        )
      : h("input", { class: "sg-field ssm-number", type: "text", inputmode: "numeric", "aria-label": label });
    const set = (value: number) => attempt(() => writeField(bits, field, value));
    control.value = String(raw * unit);
    if (!choices) control.title = "decimal, or hexadecimal as 0x…; ↑ and ↓ step";
    control.addEventListener("change", () => set(Number(control.value || Number.NaN) / unit));
    control.addEventListener("keydown", (event) => {
      const step = { ArrowUp: 1, ArrowDown: -1 }[(event as KeyboardEvent).key];
      if (choices || !step) return;
      event.preventDefault();
      set(raw + step);
    });
    const meaning = field.meaning(raw);
    const named = choices?.some(([value, text]) => value === raw && text === meaning);
    return h(
      "tr",
      {},
      h("td", {}, field.name),
      h("td", { class: "smv-code" }, high > low ? `${high}:${low}` : String(low)),
      h("td", {}, control),
      h("td", { class: "ssm-meaning" }, named ? "" : meaning),
    );
  };

  const head = ["field", "bits", "value", "meaning"].map((name) => h("th", { scope: "col" }, name));
  return {
    root: h(
      "div",
      { class: "ssm-fields" },
      h("label", { class: "smv-label" }, `${title} `, whole),
      error,
      h("table", {}, h("thead", {}, h("tr", {}, ...head)), body),
    ),
    show(next, fields) {
      bits = next;
      whole.value = hex(next, width / 4);
      const focused = body.contains(document.activeElement)
        ? document.activeElement?.getAttribute("aria-label")
        : undefined;
      body.replaceChildren(...fields.map(row));
      if (focused) body.querySelector<HTMLElement>(`[aria-label="${focused}"]`)?.focus();
    },
  };
}

/** A reserved value is listed too while it is set. */
function withCurrent(
  choices: readonly (readonly [number, string])[],
  raw: number,
): readonly (readonly [number, string])[] {
  return choices.some(([value]) => value === raw) ? choices : [...choices, [raw, "reserved"]];
}

/** A labelled number. */
export function numberInput(
  label: string,
  attributes: Record<string, string | number>,
  changed: (value: number) => void,
): { root: HTMLElement; show(value: number): void } {
  const input = h("input", {
    class: "sg-field ssm-number",
    type: "number",
    "aria-label": label,
    ...attributes,
  });
  input.addEventListener("change", () => {
    const value = Number(input.value);
    if (Number.isInteger(value)) changed(value);
  });
  return {
    root: h("label", { class: "smv-label" }, `${label} `, input),
    show: (value) => {
      input.value = String(value);
    },
  };
}
