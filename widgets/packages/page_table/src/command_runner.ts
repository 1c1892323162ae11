// Runs one command of Python at a time and shows its errors inside the widget.

import type { Frame } from "@sglab/core";
import type { PageTableSource } from "./protocol";

export class CommandRunner {
  #busy = false;

  constructor(
    private source: PageTableSource,
    private frame: Frame,
  ) {}

  /** While another command runs, says that it does nothing. An error is shown; the command has then changed nothing. */
  async run(command: (source: PageTableSource) => Promise<unknown>): Promise<void> {
    if (this.#busy) {
      this.frame.notify(
        "info",
        "Nothing was changed: Python is still at the last press. Press again after it.",
      );
      return;
    }
    this.#busy = true;
    this.frame.root.setAttribute("aria-busy", "true");
    try {
      await command(this.source);
    } catch (error) {
      this.frame.notify("error", `Nothing was changed. ${(error as Error).message}`);
    } finally {
      this.#busy = false;
      this.frame.root.removeAttribute("aria-busy");
    }
  }
}
