// The side panel: what the kernel in focus has, and the widgets that open on it.

import { Widget } from "@lumino/widgets";
import { h } from "@sglab/core";
import type { NotebookKernel, State } from "./notebook_kernel";
import type { Thing } from "./question";
import { KINDS, nameOf, SHOWS, spelled } from "./words";

export interface PanelEvents {
  open: (thing: Thing, widget: string) => void;
  debug: () => void;
  arrange: () => void;
  nextFinding: () => void;
}

const NO_NOTEBOOK = "No notebook is open. Open one, or begin with a kernel to debug.";
const NOTHING_YET =
  "Nothing to look at yet. Give a name to a batch, a launch, a session or a recording, and it is listed here:";
const EXAMPLE = `batch = sglab.decode_batch([300, 77], num_heads=128)
launch = sglab.step(my_kernel[grid], x, y)`;

export class Panel extends Widget {
  #notebook: NotebookKernel | null = null;

  constructor(private events: PanelEvents) {
    super();
    this.id = "sglab-panel";
    this.addClass("sglab-panel");
    this.node.setAttribute("aria-label", "sglab");
    this.#draw();
  }

  /** The notebook in focus; null: none is open. */
  follow(notebook: NotebookKernel | null): void {
    if (notebook === this.#notebook) return;
    this.#notebook?.changed.disconnect(this.#draw);
    this.#notebook = notebook;
    notebook?.changed.connect(this.#draw);
    this.#draw();
  }

  #draw = (): void => {
    const state = this.#notebook?.state ?? null;
    const name = this.#notebook?.path.split("/").pop() ?? "";
    this.node.replaceChildren(
      h("header", { class: "sglab-head" }, h("strong", {}, "sglab"), h("span", { title: name }, name)),
      ...(this.#notebook ? this.#parts(state) : [said(NO_NOTEBOOK), this.#debugButton()]),
    );
  };

  #parts(state: State | null): HTMLElement[] {
    if (!state) return [said("Asking the kernel …")];
    if (state.kind === "not imported") return [said(`${state.text} Run a cell with:`), code("import sglab")];
    if (state.kind !== "things") return [said(state.text)];
    if (!state.things.length) return [said(NOTHING_YET), code(EXAMPLE), this.#debugButton()];
    const sections = KINDS.flatMap(({ kind, title }) => {
      const things = state.things.filter((thing) => thing.kind === kind);
      return things.length ? [this.#section(title, things)] : [];
    });
    return [this.#actions(state.things), ...sections];
  }

  #actions(things: readonly Thing[]): HTMLElement {
    const arrange = button("Arrange as a debugger", "Page table, plan and timeline left, debugger right");
    arrange.addEventListener("click", this.events.arrange);
    const next = button("Next finding", "To the next thing that the sanitizers found");
    next.addEventListener("click", this.events.nextFinding);
    const launches = things.some(({ widgets }) => widgets.includes("KernelDebugger"));
    return h("div", { class: "sglab-actions" }, arrange, launches ? next : undefined);
  }

  #section(title: string, things: readonly Thing[]): HTMLElement {
    return h("section", {}, h("h3", {}, title), h("ul", {}, ...things.map((thing) => this.#row(thing))));
  }

  #row(thing: Thing): HTMLElement {
    const opens = thing.widgets.map((widget) => {
      const open = button(spelled(widget), `${spelled(widget)}: ${SHOWS[widget] ?? ""}`);
      open.addEventListener("click", () => this.events.open(thing, widget));
      return open;
    });
    const also = thing.names.length > 1 ? ` = ${thing.names.slice(1).join(" = ")}` : "";
    return h(
      "li",
      { class: "sglab-thing" },
      h("div", {}, h("code", {}, nameOf(thing)), h("span", { class: "sglab-muted" }, also)),
      h("div", { class: "sglab-title", title: hover(thing) }, thing.title),
      h("div", { class: "sglab-muted" }, thing.detail),
      h("div", { class: "sglab-opens", role: "group", "aria-label": `Open on ${nameOf(thing)}` }, ...opens),
    );
  }

  #debugButton(): HTMLElement {
    const debug = button("Debug a kernel", "A notebook with a small Triton kernel to write your own over");
    debug.addEventListener("click", this.events.debug);
    return h("div", { class: "sglab-actions" }, debug);
  }
}

/** The title, which may be cut off, and what it shortens. */
function hover({ title, whole = "" }: Thing): string {
  return title.includes(whole) ? title : `${title}\n${whole}`;
}

function said(text: string): HTMLElement {
  return h("p", { class: "sglab-said", role: "status" }, text);
}

function code(text: string): HTMLElement {
  return h("pre", {}, text);
}

function button(text: string, title: string): HTMLButtonElement {
  return h("button", { type: "button", class: "sglab-button", title }, text);
}
