// A tensor map field by field, and a box at some coordinates: which bytes it takes and where they go.

import { h } from "@sglab/core";
import { parseHex } from "@sglab/memory/fields";
import { menu } from "@sglab/memory/parts";
import { SWIZZLES } from "@sglab/memory/swizzle";
import { boxBytes, mapProblems } from "@sglab/memory/tensor_map";
import { type Layout, layoutOfMap, type MapQuestion } from "./layout";
import type { TensorMap } from "./protocol";

export interface MapEdit {
  map: TensorMap;
  coordinates: number[];
  base: number;
}

export function questionOfMap({ map, coordinates, base }: MapEdit): MapQuestion {
  return { ...map, coordinates, base };
}

export function layoutOfEdit(edit: MapEdit): Layout {
  return layoutOfMap(questionOfMap(edit));
}

const ROWS: {
  name: string;
  key: "dims" | "strides" | "box" | "elementStrides";
  from: number;
  what: string;
}[] = [
  { name: "globalDim", key: "dims", from: 0, what: "elements" },
  { name: "globalStrides", key: "strides", from: 1, what: "bytes" },
  { name: "boxDim", key: "box", from: 0, what: "elements" },
  { name: "elementStrides", key: "elementStrides", from: 0, what: "every n-th" },
];

export interface MapPanel {
  root: HTMLElement;
  show(edit: MapEdit, maps: readonly TensorMap[]): void;
}

export function mapPanel(changed: (edit: MapEdit) => void, pickMap: (number: number) => void): MapPanel {
  let now: MapEdit | undefined;
  const picker = h("select", { class: "sg-select", "aria-label": "Tensor map" });
  picker.addEventListener("change", () => pickMap(Number(picker.value)));
  const swizzle = menu(
    "swizzle",
    SWIZZLES.slice(0, 4).map((name, i) => [String(i), name] as const),
    (picked) => now && changed({ ...now, map: { ...now.map, swizzle: Number(picked) } }),
  );
  const fill = menu<"0" | "1">(
    "out of bounds",
    [
      ["0", "zeros"],
      ["1", "NaN"],
    ],
    (picked) => now && changed({ ...now, map: { ...now.map, nanFill: picked === "1" } }),
  );
  const base = h("input", { class: "sg-field ssm-number", type: "text", "aria-label": "Shared address" });
  const error = h("p", { class: "ssm-error", role: "alert" });
  base.addEventListener("change", () => {
    if (!now) return;
    try {
      changed({ ...now, base: Number(parseHex(base.value.replace(/^smem\+?/i, ""), 24)) });
    } catch (problem) {
      error.textContent = `▲ ${(problem as Error).message}`;
    }
  });
  const table = h("table", { class: "ssm-map" });
  const facts = h("p", { class: "smv-note" });

  const cell = (label: string, value: number, set: (value: number) => void) => {
    const input = h("input", { class: "sg-field ssm-number", type: "number", "aria-label": label });
    input.value = input.dataset.shown = String(value);
    input.addEventListener("change", () => Number.isInteger(Number(input.value)) && set(Number(input.value)));
    return h("td", {}, input);
  };

  function fieldRow(edit: MapEdit, { name, key, from, what }: (typeof ROWS)[number]): HTMLElement {
    const values = edit.map[key];
    const cells = edit.map.dims.map((_, dimension) => {
      const index = dimension - from;
      if (index < 0) return h("td", { title: "the elements of dimension 0 are contiguous" }, "–");
      const label = `${name}[${index}]`;
      return cell(label, values[index] as number, (value) =>
        changed({
          ...edit,
          map: { ...edit.map, [key]: values.map((old, i) => (i === index ? value : old)) },
        }),
      );
    });
    return h("tr", {}, h("th", { scope: "row" }, name), ...cells, h("td", { class: "ssm-meaning" }, what));
  }

  return {
    root: h(
      "div",
      {},
      h(
        "div",
        { class: "ssm-row" },
        h("label", { class: "smv-label" }, "tensor map ", picker),
        swizzle.root,
        fill.root,
        h("label", { class: "smv-label" }, "to smem+ ", base),
      ),
      facts,
      error,
      table,
    ),
    show(edit, maps) {
      const active = document.activeElement;
      const typing =
        active instanceof HTMLInputElement && table.contains(active) && active.value !== active.dataset.shown;
      const drawnBefore = typing && JSON.stringify(now) === JSON.stringify(edit);
      now = edit;
      const { map, coordinates } = edit;
      picker.replaceChildren(
        ...maps.map((each, i) =>
          h("option", { value: i }, `${each.name}: ${each.element} [${[...each.dims].reverse().join(", ")}]`),
        ),
      );
      picker.value = String(maps.findIndex((each) => each.name === map.name));
      swizzle.show(String(map.swizzle));
      fill.show(map.nanFill ? "1" : "0");
      base.value = `0x${edit.base.toString(16)}`;
      error.textContent = "";
      facts.textContent =
        `${map.element} at global ${map.address}; dimension 0 is contiguous. ` +
        (mapProblems(map).length ? "" : `A box brings ${boxBytes(map).toLocaleString("en-US")} bytes.`);
      if (drawnBefore) return; // what is half typed stays
      const focused = table.contains(document.activeElement)
        ? document.activeElement?.getAttribute("aria-label")
        : undefined;
      table.replaceChildren(
        h(
          "thead",
          {},
          h("tr", {}, h("td"), ...map.dims.map((_, i) => h("th", { scope: "col" }, `dim ${i}`)), h("td")),
        ),
        h(
          "tbody",
          {},
          ...ROWS.map((row) => fieldRow(edit, row)),
          h(
            "tr",
            {},
            h("th", { scope: "row" }, "coordinates"),
            ...map.dims.map((_, i) =>
              cell(`coordinate ${i}`, coordinates[i] as number, (value) =>
                changed({ ...edit, coordinates: coordinates.map((old, j) => (j === i ? value : old)) }),
              ),
            ),
            h("td", { class: "ssm-meaning" }, "of the box's first element"),
          ),
        ),
      );
      if (focused) table.querySelector<HTMLElement>(`[aria-label="${focused}"]`)?.focus();
    },
  };
}
