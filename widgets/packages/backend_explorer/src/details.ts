// The selected backend: why not, whose kernels, its arrays, its plan, what it costs, and what ran here.

import { cssBackground, format, h } from "@sglab/core";
import { definitions, note, table, title } from "@sglab/engine/parts";
import { LOOKS } from "./looks";
import type { ArrayInfo, PlanInfo, Ran, Row } from "./protocol";
import { flops, NO_FIGURES, partsOf } from "./words";

const OPENS = [
  ["SplitKV", "Split KV", "its plan, work unit by work unit"],
  ["PageTable", "Page table", "its arrays, and the kernel that builds them"],
  ["KernelDebugger", "Kernel debugger", "the kernel that attends here, on the emulator"],
] as const;

export interface DetailActions {
  open(widget: string, name: string): void;
  run(name: string): void;
}

export function backendDetails(
  row: Row,
  machine: string,
  live: boolean,
  busy: boolean,
  ran: Ran | undefined,
  actions: DetailActions,
): HTMLElement[] {
  const parts: HTMLElement[] = [h("div", { class: "sg-heading" }, row.name)];
  for (const refusal of row.refusals)
    parts.push(
      h(
        "p",
        { class: "sbe-refusal", "data-by": refusal.by },
        h("b", {}, refusal.by === "backend" ? row.name : refusal.by === "machine" ? machine : "SGLang"),
        ` ${refusal.by === "SGLang" ? refusal.text.replace(/^SGLang /, "") : refusal.text}`,
      ),
    );
  parts.push(
    definitions([
      ["kernels", row.kernels || "registered by you"],
      ["run on", row.machine || "–"],
      ["here", prose(row.here || "–")],
      ...(row.differs ? ([["otherwise", prose(row.differs)]] as const) : []),
      ["page size", `${row.pageSize}${row.named.length ? `: ${row.named.join("; ")}` : ""}`],
    ]),
  );
  for (const text of row.notes) parts.push(note(asSentence(text)));
  if (row.servedBy) {
    parts.push(...opened(row, live, busy, actions), ...runHere(row, live, busy, ran, actions));
    parts.push(...costParts(row), ...planParts(row.plan), ...arrayParts(row), ...scratchParts(row));
  }
  return parts;
}

/** Text with `code` between backticks, which breaks before a value, not within its word. */
function prose(text: string): HTMLElement {
  const parts = text.split("`").map((part, i) => (i % 2 ? h("code", {}, ...breakable(part)) : part));
  return h("span", {}, ...parts);
}

function breakable(code: string): (Node | string)[] {
  return code.split(/(?<==)/).flatMap((part, i) => (i ? [h("wbr"), part] : [part]));
}

function opened(row: Row, live: boolean, busy: boolean, actions: DetailActions): HTMLElement[] {
  if (!live) return [];
  const buttons = OPENS.map(([widget, text, about]) => {
    const closed = row.closed[widget] ?? "";
    const button = h(
      "button",
      {
        type: "button",
        class: "sg-button sg-small",
        title: closed || about,
        disabled: Boolean(closed) || busy,
      },
      text,
    );
    button.addEventListener("click", () => actions.open(widget, row.name));
    return button;
  });
  const reasons = [...new Set(OPENS.map(([widget]) => row.closed[widget] ?? "").filter(Boolean))];
  return [h("div", { class: "sge-row" }, "open", ...buttons), ...reasons.map((text) => note(text))];
}

function runHere(
  row: Row,
  live: boolean,
  busy: boolean,
  ran: Ran | undefined,
  actions: DetailActions,
): HTMLElement[] {
  const parts: HTMLElement[] = [];
  if (live) {
    const closed = row.closed.run ?? "";
    const about = "A small batch of this shape, compared with attention in float64";
    const button = h(
      "button",
      {
        type: "button",
        class: "sg-button sg-small",
        title: closed || about,
        disabled: Boolean(closed) || busy,
      },
      busy ? "running …" : "Run it here",
    );
    button.addEventListener("click", () => actions.run(row.name));
    parts.push(h("div", { class: "sge-row" }, button));
  }
  if (ran?.backend !== row.name) return parts;
  return [
    ...parts,
    note(`Ran on ${ran.batch}; largest error against float64: ${ran.error.toExponential(1)} (${ran.dtype}).`),
    table(
      ["operator", "implementation", "on"],
      ran.runs.map((each) => [each.operator, each.implementation, each.machine]),
      "What ran",
    ),
    ...ran.notes.map((text) => note(text)),
  ];
}

function asSentence(text: string): string {
  return `${text[0]?.toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
}

function costParts(row: Row): HTMLElement[] {
  const { cost } = row;
  if (!cost) return [];
  const rows = partsOf(cost).map((part) => {
    const swatch = h("i", { class: "sge-swatch", "aria-hidden": "true" });
    swatch.style.background = cssBackground(LOOKS[part.look] as (typeof LOOKS)[number]);
    const bytes = h("span", { title: `${format.count(part.bytes)} B` }, format.bytes(part.bytes));
    return [h("span", { class: "sge-request", title: part.about }, swatch, part.name), bytes];
  });
  const time = cost.bound ? `${format.duration(cost.bound.ns)}, by ${cost.bound.by}` : NO_FIGURES;
  return [
    title("Counted, of one layer"),
    table(["through memory", "bytes"], rows, "Bytes"),
    definitions([
      ["rows of KV", format.count(cost.rows)],
      [
        "products",
        flops(cost.flops) + (cost.wasted ? `, and ${flops(cost.wasted)} that a mask throws away` : ""),
      ],
      ["per byte", `${cost.intensity.toFixed(1)} FLOP`],
      ["at least", time],
    ]),
    ...cost.notes.map((text) => note(asSentence(text))),
  ];
}

function planParts(plan: PlanInfo | undefined): HTMLElement[] {
  if (!plan) return [];
  if (plan.none !== undefined) return [title("Plan"), note(plan.none)];
  const rows: [string, string][] = [];
  if (plan.splits) rows.push(["splits", [...new Set(plan.splits)].join(" to ")]);
  if (plan.ctas !== null) rows.push(["CTAs", format.count(plan.ctas)]);
  if (plan.waves !== null) rows.push(["waves", plan.waves.toFixed(2)]);
  rows.push(["workspace", format.bytes(plan.workspaceBytes)], ["its arrays", format.bytes(plan.arrayBytes)]);
  return [title(`Plan: ${plan.title}`), note(plan.why), definitions(rows)];
}

function arrayParts(row: Row): HTMLElement[] {
  const numbers = Object.entries(row.numbers).map(([name, value]) => [name, String(value)] as const);
  return [
    title(`Arrays: ${format.bytes(row.arrayBytes ?? 0)}`),
    ...(row.arrays.length ? [] : [note("None: it walks the requests' rows on the host.")]),
    ...row.arrays.map(arrayPart),
    ...(numbers.length ? [title("Numbers on the host"), definitions(numbers)] : []),
  ];
}

function arrayPart(array: ArrayInfo): HTMLElement {
  const shape = `${array.dtype} [${array.shape.join(", ")}]`;
  const size = array.sameAs ? `is ${array.sameAs}` : format.bytes(array.bytes);
  const count = array.shape.reduce((all, each) => all * each, 1);
  const more = count > array.head.length ? " …" : "";
  return h(
    "details",
    { class: "sbe-array" },
    h("summary", {}, h("code", {}, array.name), ` ${shape}, ${size}`),
    h("p", { class: "sge-text" }, array.head.join(" ") + more),
  );
}

function scratchParts(row: Row): HTMLElement[] {
  if (!row.scratch.length && !row.graphBytes) return [];
  const rows = row.scratch.map(
    (each) => [each.name, `${format.bytes(each.bytes)}${each.kept ? `, ${each.kept}` : ""}`] as const,
  );
  if (row.graphBytes) rows.push(["buffers of graphs", format.bytes(row.graphBytes)]);
  return [title("Workspace"), definitions(rows)];
}
