// Which array is built, by which of the two index kernels.

import { type Disposer, h } from "@sglab/core";
import type { CommandRunner } from "./command_runner";
import type { PageTableModel } from "./model";
import type { Kernel } from "./protocol";

const KERNELS: { id: Kernel; label: string; title: string }[] = [
  {
    id: "flashmla",
    label: "block_kv_indices",
    title: "create_flashmla_kv_indices: a row of pages per request",
  },
  {
    id: "flashinfer",
    label: "kv_indices",
    title: "create_flashinfer_kv_indices: the slots of all tokens, as CSR",
  },
];

export class KernelSwitch {
  readonly element: HTMLElement;
  #buttons: HTMLButtonElement[];

  constructor(
    private model: PageTableModel,
    private runner: CommandRunner,
    disposer: Disposer,
  ) {
    this.#buttons = KERNELS.map(({ id, label, title }) => {
      const attributes = { type: "button", class: "sg-button", role: "radio", title };
      const button = h("button", attributes, h("code", {}, label));
      disposer.listen(button, "click", () => this.#show(id));
      disposer.listen(button, "keydown", (event) => this.#key(event, id));
      return button;
    });
    const attributes = { class: "pt-group", role: "radiogroup", "aria-label": "Array to build" };
    this.element = h("span", attributes, "Build ", ...this.#buttons);
  }

  layout(): void {
    KERNELS.forEach(({ id }, i) => {
      const button = this.#buttons[i] as HTMLButtonElement;
      button.setAttribute("aria-checked", String(id === this.model.kernel));
      button.tabIndex = id === this.model.kernel ? 0 : -1;
    });
  }

  /** Arrows move within a radio group. */
  #key(event: KeyboardEvent, id: Kernel): void {
    if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    const other = KERNELS.findIndex((each) => each.id !== id);
    this.#buttons[other]?.focus();
    this.#show((KERNELS[other] as (typeof KERNELS)[number]).id);
  }

  async #show(kernel: Kernel): Promise<void> {
    const { source } = this.model;
    if (kernel === this.model.kernel) return;
    if (source.live) await this.runner.run(() => source.call("show_kernel", { kernel }));
    else {
      source.set("kernel", kernel);
      await this.model.load();
    }
  }
}
