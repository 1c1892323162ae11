// Buttons that open other widgets on what is shown: Python makes them, this shows where they are.

import { type Disposer, type Frame, h } from "@sglab/core";
import { oneAtATime } from "./asking";
import { type Opened, openTab, pageLink } from "./opener";

export interface Choice {
  widget: string;
  label: string;
  title: string;
}

export const OF_A_BATCH: readonly Choice[] = [
  {
    widget: "PageTable",
    label: "Page table",
    title: "Requests, pages, and the kernel that builds the index arrays",
  },
  { widget: "SplitKV", label: "Split KV", title: "How planners cut this batch" },
  {
    widget: "OnlineSoftmax",
    label: "Online softmax",
    title: "m, d and O of the first request, tile by tile",
  },
];
export const OF_A_LAUNCH: readonly Choice[] = [
  { widget: "WarpRoles", label: "Warp roles", title: "The kernel on the emulator, warp by warp" },
  {
    widget: "KernelDebugger",
    label: "Kernel debugger",
    title: "The same kernel, instruction by instruction",
  },
];

export interface Openers {
  buttons: HTMLElement[];
  /** What was opened. */
  made: HTMLElement;
  /** Whether there is something to open, and whether one is on its way. */
  enable(opens: boolean): void;
}

/** In a tab where there can be one, else a link to its page, which gets the focus; `made` lists what was opened. */
export function showOpened(
  { frame, disposer }: { frame: Pick<Frame, "root">; disposer: Disposer },
  made: HTMLElement,
  opened: Opened,
): void {
  if (openTab(frame.root, opened)) {
    made.append(h("li", {}, `${opened.title}: in a tab`));
    return;
  }
  const { element, release } = pageLink(opened);
  disposer.add(release);
  made.append(h("li", {}, element));
  element.focus();
}

/** @param others controls that wait as the buttons do. */
export function makeOpeners(
  { frame, live, disposer }: { frame: Frame; live: boolean; disposer: Disposer },
  choices: readonly Choice[],
  open: (widget: string) => Promise<Opened>,
  others: readonly HTMLInputElement[] = [],
): Openers {
  const made = h("ul", { class: "sge-made" });
  let opens = false;
  const asking = oneAtATime(frame, { changed: () => enable() });
  const buttons = choices.map(({ widget, label, title }) => {
    const button = h("button", { type: "button", class: "sg-button", title }, label);
    disposer.listen(button, "click", () => void run(widget));
    return button;
  });

  function enable(): void {
    for (const each of [...others, ...buttons]) each.disabled = asking.busy || !opens || !live;
  }

  const run = (widget: string) =>
    asking.run(async () => showOpened({ frame, disposer }, made, await open(widget)));

  enable();
  return {
    buttons,
    made,
    enable(next) {
      opens = next;
      enable();
    },
  };
}
