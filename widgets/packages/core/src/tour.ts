// The guided first run of a widget: five presses, one at a time. It can be skipped, and started again from the key list.

import { h } from "./dom";
import type { Disposer } from "./emitter";
import { type KeyBinding, keyName, pressed } from "./keys";

/** One press: a key of the widget, or something in it that is pressed with the pointer. */
export interface TourStep {
  /** What to press and what it shows; the key itself is named before it. */
  text: string;
  /** As in KeyBinding. */
  key?: string;
  /** A selector within the widget. */
  press?: string;
}

export interface Tour {
  readonly element: HTMLElement;
  start(): void;
}

/** Which widgets' tours the reader has finished or skipped, in this browser where it can remember. */
const seen = {
  has(name: string): boolean {
    try {
      return localStorage.getItem(`sglab.first-run.${name}`) !== null;
    } catch {
      return false; // a page of its own origin, as in a sandbox
    }
  },
  add(name: string): void {
    try {
      localStorage.setItem(`sglab.first-run.${name}`, "seen");
    } catch {
      // nothing to remember with: it shows again in the next page
    }
  },
};

export function makeTour(
  root: HTMLElement,
  name: string,
  steps: readonly TourStep[],
  bindings: () => KeyBinding[],
  disposer: Disposer,
): Tour {
  const text = h("span", { class: "sg-tour-text" });
  const doIt = button("Do it", "Press it for me", () => perform());
  const skip = button("Skip", "End the first steps; ? starts them again", () => end());
  const element = h(
    "div",
    { class: "sg-tour", role: "status", hidden: true },
    h("span", { class: "sg-tour-text-box" }, text),
    doIt,
    skip,
  );
  let at = -1;

  function show(): void {
    const step = steps[at];
    element.hidden = step === undefined;
    if (!step) return;
    const count = h("b", {}, `${at + 1} of ${steps.length}`);
    const key = step.key === undefined ? [] : [h("kbd", {}, keyName({ keys: [step.key], label: "" })), " "];
    text.replaceChildren(count, " Press ", ...key, step.text);
    doIt.hidden = step.key === undefined && step.press === undefined;
  }

  function next(): void {
    at += 1;
    if (at >= steps.length) end();
    else show();
  }

  function end(): void {
    at = -1;
    seen.add(name);
    show();
  }

  function perform(): void {
    const step = steps[at];
    const target = step?.press ? root.querySelector<HTMLElement>(step.press) : null;
    if (target) target.click();
    else
      bindings()
        .find(({ keys }) => step?.key !== undefined && keys.includes(step.key))
        ?.run?.();
    if (steps[at] === step) next();
  }

  disposer.listen(
    root,
    "keydown",
    (event) => {
      const step = steps[at];
      if (
        step?.key !== undefined &&
        pressed(event) === step.key &&
        !event.ctrlKey &&
        !event.metaKey &&
        !event.altKey
      )
        next();
    },
    { capture: true },
  );
  disposer.listen(root, "click", (event) => {
    const step = steps[at];
    const { target } = event;
    if (step?.press && event.isTrusted && target instanceof Element && target.closest(step.press)) next();
  });

  const start = () => {
    at = 0;
    show();
  };
  if (steps.length && !seen.has(name)) start();
  return { element, start };
}

function button(text: string, title: string, run: () => void): HTMLButtonElement {
  const made = h("button", { type: "button", class: "sg-button sg-small", title }, text);
  made.addEventListener("click", run);
  return made;
}
