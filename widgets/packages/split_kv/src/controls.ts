// The toolbar: lengths, heads, device, pages, graph, and which planners are compared.

import { type Disposer, format, formatLengths, h, parseLengths } from "@sglab/core";
import type { Edit } from "./asker";
import { nameOf, type Plans } from "./data";
import type { PlannerName } from "./protocol";

export interface Controls {
  parts: HTMLElement[];
  /** For those who want more. */
  more: HTMLElement[];
  show(plans: Plans, selected: number | undefined): void;
  /** How long the last change took, from the question to the redrawn page. */
  measured(milliseconds: number, requests: number): void;
}

const DEVICES: Record<string, number> = { "H100, H200 · 132": 132, "B200 · 148": 148 };
const PAGE_SIZES = [1, 2, 4, 8, 16, 32, 64, 128];

export function makeControls(
  disposer: Disposer,
  planners: PlannerName[],
  ask: (edit: Edit) => void,
  setLength: (request: number, length: number) => void,
  complain: (text: string) => void,
): Controls {
  const lengths = h("input", { class: "sg-field skv-lengths", spellcheck: "false", "aria-label": "Lengths" });
  lengths.title = "KV tokens per request: 300, 1000, 77 or 4096×32";
  disposer.listen(lengths, "change", () => {
    const parsed = parseLengths(lengths.value);
    if (parsed) ask({ seq_lens: parsed });
    else
      complain(
        `Lengths: write tokens per request, such as 300, 1000, 77 or 4096×32; got "${short(lengths.value)}".`,
      );
  });

  const numberField = (label: string, title: string, run: (value: number) => void) => {
    const input = h("input", { class: "sg-field skv-number", type: "number", min: 1, title });
    disposer.listen(input, "change", () => run(Number(input.value)));
    return { input, label: h("label", { title }, label, input) };
  };
  const heads = numberField("heads", "Query heads of this rank", (num_heads) =>
    ask({ question: { num_heads } }),
  );
  const kvHeads = numberField(
    "KV heads",
    "KV heads of this rank; 1 is MLA's latent, or MQA",
    (num_kv_heads) => ask({ question: { num_kv_heads } }),
  );
  const sms = numberField("SMs", "Streaming multiprocessors of the device", (sm_count) =>
    ask({ question: { sm_count } }),
  );
  const device = h("select", { class: "sg-select", "aria-label": "Device", title: "Device" });
  for (const name of [...Object.keys(DEVICES), "other"]) device.append(h("option", {}, name));
  disposer.listen(device, "change", () => {
    const sm_count = DEVICES[device.value];
    if (sm_count) ask({ question: { sm_count } });
    else sms.input.focus();
  });
  const page = h("select", { class: "sg-select", title: "Tokens per page; each planner has one of its own" });
  page.append(
    h("option", { value: "" }, "planner's own"),
    ...PAGE_SIZES.map((size) => h("option", {}, String(size))),
  );
  disposer.listen(page, "change", () =>
    ask({ question: { page_size: page.value ? Number(page.value) : null } }),
  );
  const graph = h("input", { type: "checkbox" });
  disposer.listen(graph, "change", () => ask({ question: { enable_cuda_graph: graph.checked } }));
  const graphTitle = "Plan as for a captured CUDA graph: FlashInfer pads its grid then";

  const selected = numberField("", "KV tokens of the selected request", (length) => {
    if (shownRequest !== undefined) setLength(shownRequest, length);
  });
  selected.label.hidden = true;
  selected.input.classList.add("skv-length");
  let shownRequest: number | undefined;

  const add = h("button", { type: "button", class: "sg-button" }, "+ compare");
  add.title = "Another planner beside these";
  const all = h("button", { type: "button", class: "sg-button" }, "all");
  all.title = "All planners for these heads, side by side";
  let shown: string[] = [];
  let fitting: string[] = [];
  disposer.listen(add, "click", () => {
    const next = planners.find(({ name }) => !shown.includes(name));
    if (next) ask({ planners: [...shown, next.name] });
  });
  disposer.listen(all, "click", () => ask({ planners: fitting }));
  const reset = h("button", { type: "button", class: "sg-button" }, "reset");
  reset.title = "Lengths, heads, device and planners as they were at first";
  let first: Edit | undefined;
  disposer.listen(reset, "click", () => {
    if (first) ask(first);
  });
  const measured = h("span", { class: "skv-measured" });

  return {
    parts: [
      h("label", { class: "skv-grow" }, "lengths", lengths),
      selected.label,
      device,
      h("span", { class: "skv-pair" }, add, all, reset),
    ],
    more: [
      heads.label,
      kvHeads.label,
      sms.label,
      h("label", { title: page.title }, "page", page),
      h("label", { title: graphTitle }, graph, "CUDA graph"),
      measured,
    ],
    show(plans, request) {
      const { question, lens, shown: panes } = plans;
      first ??= {
        seq_lens: Array.from(lens),
        planners: panes.map(({ pane }) => pane.name),
        question: { ...question },
      };
      write(lengths, formatLengths(lens));
      write(heads.input, question.num_heads);
      write(kvHeads.input, question.num_kv_heads);
      write(sms.input, question.sm_count);
      const known = Object.entries(DEVICES).find(([, count]) => count === question.sm_count);
      if (!known || DEVICES[device.value] !== question.sm_count) device.value = known?.[0] ?? "other";
      page.value = question.page_size === null ? "" : String(question.page_size);
      graph.checked = question.enable_cuda_graph;
      shown = panes.map(({ pane }) => pane.name);
      fitting = planners
        .filter(({ attention }) => attention === "any" || question.num_kv_heads === 1)
        .map(({ name }) => name);
      add.disabled = shown.length === planners.length;
      all.disabled = fitting.every((name) => shown.includes(name));
      shownRequest = request;
      selected.label.hidden = request === undefined;
      if (request !== undefined) {
        selected.label.firstChild?.replaceWith(nameOf(plans, request));
        write(selected.input, lens[request] as number);
        selected.input.setAttribute("aria-label", `Tokens of request ${request}`);
      }
    },
    measured(milliseconds, requests) {
      measured.textContent = `replanned in ${milliseconds.toFixed(0)} ms`;
      measured.title = `Measured here: from the change to the redrawn page, ${format.plural(requests, "request")}`;
    },
  };
}

/** What was typed, as far as a message has room for it. */
function short(text: string): string {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

/** Never over what is being typed. */
function write(input: HTMLInputElement, value: string | number): void {
  if (document.activeElement !== input) input.value = String(value);
}
