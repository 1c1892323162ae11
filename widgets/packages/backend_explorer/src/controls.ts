// The toolbar: model, machine, mode and lengths; behind *more* heads, pages and flags.

import { type Disposer, formatLengths, h, parseLengths } from "@sglab/core";
import type { Options, Question } from "./protocol";

export interface Controls {
  parts: HTMLElement[];
  more: HTMLElement[];
  show(question: Question, options: Options): void;
}

const PAGES = [1, 16, 32, 64, 128];
const RANKS = [1, 2, 4, 8, 16, 32, 64];

export function makeControls(
  disposer: Disposer,
  ask: (change: Partial<Question>) => void,
  complain: (text: string) => void,
): Controls {
  const select = (name: keyof Question, label: string, about: string) => {
    const made = h("select", { class: "sg-select", "aria-label": label, title: about });
    disposer.listen(made, "change", () => ask({ [name]: made.value }));
    return made;
  };
  const model = select("model", "Model", "Whose heads, and whose rules of selection");
  model.classList.add("sbe-model");
  const machine = select("machine", "Machine", "Where it would run");
  const mode = select("mode", "Mode", "What the pass does");
  const kv = select("kv_cache_dtype", "KV cache", "Element type of the KV pool");
  const page = h("select", { class: "sg-select", "aria-label": "Page size" });
  page.title = "Tokens per page; as SGLang would set it for each backend, or the same for all";
  page.append(
    h("option", { value: "" }, "each its own"),
    ...PAGES.map((size) => h("option", {}, String(size))),
  );
  disposer.listen(page, "change", () => ask({ page_size: page.value ? Number(page.value) : null }));

  const lengths = h("input", { class: "sg-field sbe-lengths", spellcheck: "false", "aria-label": "Lengths" });
  lengths.title = "KV tokens per request: 300, 1000, 77 or 4096×32";
  disposer.listen(lengths, "change", () => {
    const parsed = parseLengths(lengths.value);
    if (parsed) ask({ seq_lens: parsed });
    else
      complain(
        `Lengths: write tokens per request, such as 300, 1000, 77 or 4096×32; got "${lengths.value}".`,
      );
  });
  const number = (name: keyof Question, label: string, least: number, about: string) => {
    const input = h("input", { class: "sg-field sbe-number", type: "number", min: least, title: about });
    disposer.listen(input, "change", () => ask({ [name]: Number(input.value) }));
    return { input, label: h("label", { title: about }, label, input) };
  };
  const heads = number("num_heads", "heads", 1, "Query heads of one rank");
  const kvHeads = number("num_kv_heads", "KV heads", 1, "KV heads of one rank; MLA has one");
  const fresh = number("new_tokens", "new tokens", 1, "New tokens of each request in an extend");
  const window = number(
    "sliding_window",
    "window",
    -1,
    "-1: none; w: a query sees itself and w keys before it",
  );
  const flag = (name: keyof Question, label: string, about: string) => {
    const input = h("input", { type: "checkbox" });
    disposer.listen(input, "change", () => ask({ [name]: input.checked }));
    return { input, label: h("label", { title: about }, input, label) };
  };
  const graph = flag("cuda_graph", "CUDA graph", "What the replay of a captured graph reads");
  const deterministic = flag("deterministic", "deterministic", "--enable-deterministic-inference");
  const ranks = (name: "dcp_size" | "attn_cp_size", about: string) => {
    const made = h("select", { class: "sg-select", "aria-label": name });
    made.append(...RANKS.map((size) => h("option", {}, String(size))));
    // one of the two is 1: choosing one takes the other back
    const other = name === "dcp_size" ? "attn_cp_size" : "dcp_size";
    disposer.listen(made, "change", () => {
      const size = Number(made.value);
      ask(size > 1 ? { [name]: size, [other]: 1 } : { [name]: size });
    });
    return {
      input: made,
      label: h("label", { title: `${about}; above 1 rows show the first one's part` }, name, made),
    };
  };
  const contexts = ranks("dcp_size", "Ranks that a request's context is spread over");
  const prompts = ranks("attn_cp_size", "Ranks that a prompt's new tokens are spread over");
  const cap = number("logit_cap", "cap", 0, "Soft cap of the logits by tanh; 0: none");

  const fill = (into: HTMLSelectElement, values: readonly [string, string][], chosen: string) => {
    into.replaceChildren(...values.map(([value, text]) => h("option", { value }, text)));
    into.value = chosen;
  };
  const plain = (values: readonly string[]) => values.map((each) => [each, each] as [string, string]);
  const write = (input: HTMLInputElement, value: string | number) => {
    if (document.activeElement !== input) input.value = String(value);
  };
  return {
    parts: [
      h("label", {}, "model", model),
      h("label", {}, "on", machine),
      mode,
      h("label", { class: "sbe-grow" }, "lengths", lengths),
    ],
    more: [
      heads.label,
      kvHeads.label,
      fresh.label,
      h("label", {}, "page", page),
      h("label", {}, "KV", kv),
      window.label,
      cap.label,
      graph.label,
      deterministic.label,
      contexts.label,
      prompts.label,
    ],
    show(question, options) {
      const names = options.models.map(
        ({ name, like }) => [name, like ? `${name} (${like})` : name] as [string, string],
      );
      fill(model, names, question.model);
      fill(machine, plain(options.machines), question.machine);
      fill(mode, plain(options.modes), question.mode);
      fill(kv, plain(options.kvDtypes), question.kv_cache_dtype);
      page.value = question.page_size === null ? "" : String(question.page_size);
      write(lengths, formatLengths(question.seq_lens));
      write(heads.input, question.num_heads ?? 1);
      write(kvHeads.input, question.num_kv_heads ?? 1);
      write(fresh.input, question.new_tokens);
      write(window.input, question.sliding_window);
      write(cap.input, question.logit_cap);
      graph.input.checked = question.cuda_graph;
      deterministic.input.checked = question.deterministic;
      contexts.input.value = String(question.dcp_size);
      prompts.input.value = String(question.attn_cp_size);
      const fixed = new Set(options.fixed);
      const fields: [string, HTMLInputElement | HTMLSelectElement][] = [
        ["seq_lens", lengths],
        ["mode", mode],
        ["num_heads", heads.input],
        ["num_kv_heads", kvHeads.input],
        ["new_tokens", fresh.input],
        ["page_size", page],
        ["dcp_size", contexts.input],
      ];
      for (const [name, field] of fields) field.disabled = fixed.has(name);
    },
  };
}
