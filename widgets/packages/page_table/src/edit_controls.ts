// The edits of a live batch: allocate, extend by a token, share a prefix, free, evict.

import { type Disposer, type Frame, type History, h, historyOf } from "@sglab/core";
import type { CommandRunner } from "./command_runner";
import type { Action, EditAnswer } from "./protocol";
import type { Shared } from "./shared";

type Control = HTMLButtonElement | HTMLInputElement | HTMLSelectElement;

export class EditControls {
  readonly elements: HTMLElement[];
  #request = h("select", { class: "sg-select", "aria-label": "Request to edit" });
  #length = numberField("Tokens of the new request", 200);
  #prefix = numberField("Tokens to share", 128);
  #allocate: HTMLButtonElement;
  #evict: HTMLButtonElement;
  #ofRequest: Control[];
  #history: History;

  constructor(
    private shared: Shared,
    private runner: CommandRunner,
    private frame: Frame,
    disposer: Disposer,
  ) {
    const button = (label: string, title: string, run: () => Promise<void>) => {
      const element = h("button", { type: "button", class: "sg-button", title }, label);
      disposer.listen(element, "click", run);
      return element;
    };
    const one = () => Number(this.#request.value);
    this.#history = historyOf(disposer);
    this.#allocate = button("Allocate", "A new request comes (alloc_extend)", () =>
      this.#edit("allocate", 0, this.#length),
    );
    const extend = button("Extend by a token", "One more token (alloc_decode)", () =>
      this.#edit("extend", one()),
    );
    const free = button("Free", "The request leaves; pages it owns alone are free again", () =>
      this.#edit("free", one()),
    );
    const share = button(
      "Share",
      "A new request comes with the same first tokens, through the radix tree",
      () => this.#edit("share", one(), this.#prefix),
    );
    this.#evict = button("Evict", "The radix tree gives back the pages that no request uses", () =>
      this.#edit("evict"),
    );
    this.#ofRequest = [this.#request, extend, free, share, this.#prefix];
    this.elements = [
      h("span", { class: "pt-group" }, this.#allocate, this.#length, "tokens"),
      h("span", { class: "pt-group" }, this.#request, extend, free, share, "first", this.#prefix, "tokens"),
      this.#evict,
    ];
    const { source } = shared.model;
    disposer.listen(this.#request, "change", () => shared.select({ request: one() }));
    disposer.add(source.onConnection(() => this.#enable()));
  }

  layout(): void {
    const { requests } = this.shared.model;
    this.#request.replaceChildren(...requests.map(({ name, index }) => h("option", { value: index }, name)));
    this.update();
    this.#enable();
  }

  /** Shows the selected request in the menu. */
  update(): void {
    const { request } = this.shared.selected;
    if (request !== undefined && request < this.shared.model.requests.length)
      this.#request.value = String(request);
  }

  async #edit(action: Action, request = 0, tokens?: HTMLInputElement): Promise<void> {
    const args = { action, request, tokens: tokens ? Number(tokens.value) : 1 };
    await this.runner.run(async (source) => {
      let answer = await source.call("edit", args);
      this.#history.quietly(() => this.#show(answer, " Ctrl+Z takes it back."));
      const undo = async () => this.#show(await source.call("undo", { number: answer.number }));
      const redo = async () => {
        answer = await source.call("edit", args);
        this.#show(answer);
      };
      this.#history.did({ undo: () => this.runner.run(undo), redo: () => this.runner.run(redo) });
    });
  }

  #show({ message, request }: EditAnswer, more = ""): void {
    this.frame.notify("info", message + more);
    this.shared.select(request === null ? {} : { request });
  }

  #enable(): void {
    const { requests, pool, source } = this.shared.model;
    const lost = source.connection === "lost";
    for (const control of [this.#allocate, this.#length]) control.disabled = lost;
    for (const control of this.#ofRequest) control.disabled = lost || requests.length === 0;
    this.#evict.disabled = lost || pool.cached === 0;
  }
}

function numberField(label: string, value: number): HTMLInputElement {
  return h("input", {
    type: "number",
    class: "sg-field pt-number",
    min: 1,
    step: 1,
    value,
    "aria-label": label,
  });
}
