// The toolbar: runs, the way to the cursor, search; and what a long move is doing.

import { format, h, setText } from "@sglab/core";
import type { State } from "./protocol";

export interface ControlEvents {
  run: () => void;
  runBack: () => void;
  toCursor: () => void;
  force: () => void;
  search: () => void;
  halt: () => void;
  measure: () => void;
  /** Shows the PTX beside the source, or the source alone. */
  ptx: (shown: boolean) => void;
}

export class Controls {
  readonly parts: HTMLElement[];
  /** For those who want more. */
  readonly more: HTMLElement[];
  #halt: HTMLButtonElement;
  #measure: HTMLButtonElement;
  #progress = h("span", { class: "kd-hint", role: "status" });

  constructor(live: boolean, hasSource: boolean, events: ControlEvents) {
    this.#halt = button("Stop", "Stop here (x)", events.halt);
    this.#measure = button(
      "Find the end",
      "Run ahead to learn how long the launch is, and return",
      events.measure,
    );
    const moving = live
      ? [
          button("◂ Run back", "Back to the last breakpoint (Shift+R)", events.runBack),
          button("Run ▸", "To the next breakpoint, or the end (r)", events.run),
        ]
      : [];
    const rarer = live
      ? [
          button("To cursor", "Run to the line under the cursor (t)", events.toCursor),
          button(
            "Warp first",
            "Run the focused warp's next instruction before all others: the launch continues in another order (f)",
            events.force,
          ),
        ]
      : [];
    const ptx = button("PTX", "PTX beside the source", () => {
      const shown = ptx.getAttribute("aria-pressed") !== "true";
      ptx.setAttribute("aria-pressed", String(shown));
      events.ptx(shown);
    });
    ptx.setAttribute("aria-pressed", "true");
    ptx.hidden = !hasSource;
    this.parts = [...moving, ptx, this.#halt, this.#progress];
    this.more = [
      button("Search", "Search in the code, or go to a line (/)", events.search),
      ...rarer,
      this.#measure,
    ];
    this.#halt.hidden = true;
    this.#measure.hidden = true;
  }

  show(state: State, live: boolean): void {
    this.#halt.hidden = !state.job;
    this.#measure.hidden = state.complete || Boolean(state.job) || !live;
    setText(this.#progress, state.job ? words(state) : "");
  }
}

function words({ job, position }: State): string {
  const verb = job?.action.endsWith("back") ? "Searching back" : "Running";
  return `${verb}: at ${format.count(position)}`;
}

function button(label: string, title: string, run: () => void): HTMLButtonElement {
  const made = h("button", { type: "button", class: "sg-button", title }, label);
  made.addEventListener("click", run);
  return made;
}
