// The guided first run of a widget: five presses, one at a time. It can be skipped, and started again from the key list.

import { h } from "./dom";
import type { Disposer } from "./emitter";
import { type KeyBinding, keyName, pressed } from "./keys";
import type { Transport } from "./transport";

/** One press: a key of the widget, or something in it that is pressed with the pointer. */
export interface TourStep {
  /** What to press and what it shows; the key itself is named before it. */
  text: string;
  /** As in KeyBinding. */
  key?: string;
  /** A selector within the widget. */
  press?: string;
  /** How often; absent, once. */
  presses?: number;
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
  transport?: Transport,
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
  let presses = 0;

  /** Where a first step would show nothing: the widget stands at the end, as one of its launch has gone there. */
  function ended(): boolean {
    if (at !== 0 || steps[0]?.key !== "ArrowRight" || !transport) return false;
    const { length, open } = transport.track;
    return length > 0 && !open && transport.position >= length;
  }

  function show(): void {
    const step = steps[at];
    element.hidden = step === undefined;
    if (!step) return;
    const count = h("b", {}, `${at + 1} of ${steps.length}`);
    const named = (key: string) => h("kbd", {}, keyName({ keys: [key], label: "" }));
    const key = step.key === undefined ? [] : [named(step.key), " "];
    const first = ended() ? [named("Home"), ", then "] : [];
    text.replaceChildren(count, " Press ", ...first, ...key, step.text);
    doIt.hidden = step.key === undefined && step.press === undefined;
  }

  function next(): void {
    presses += 1;
    if (presses < (steps[at]?.presses ?? 1)) return;
    presses = 0;
    at += 1;
    if (at >= steps.length) end();
    else show();
  }

  function end(): void {
    at = -1;
    presses = 0;
    seen.add(name);
    const held = element.contains(document.activeElement); // its buttons go: keys stay with the widget
    show();
    if (held) root.focus({ preventScroll: true });
  }

  function perform(): void {
    const step = steps[at];
    const done = presses;
    const target = step?.press ? root.querySelector<HTMLElement>(step.press) : null;
    const press = (key: string | undefined) =>
      bindings()
        .find(({ keys }) => key !== undefined && keys.includes(key))
        ?.run?.();
    if (ended()) press("Home");
    if (target) pressWithin(target);
    else press(step?.key);
    if (steps[at] === step && presses === done) next();
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
    presses = 0;
    show();
  };
  if (transport) disposer.add(transport.changed.on(() => at === 0 && show()));
  if (steps.length && !seen.has(name)) start();
  return { element, start };
}

/** As a pointer presses it, where a picture has something: it looks where it was pressed. */
function pressWithin(target: HTMLElement): void {
  const { left, top, width, height } = target.getBoundingClientRect();
  const where = { clientX: left + width / 3, clientY: top + height / 3 };
  const press = { ...where, bubbles: true, cancelable: true, button: 0 };
  target.dispatchEvent(new PointerEvent("pointerdown", press));
  target.dispatchEvent(new PointerEvent("pointerup", press));
  target.dispatchEvent(new MouseEvent("click", press));
}

function button(text: string, title: string, run: () => void): HTMLButtonElement {
  const made = h("button", { type: "button", class: "sg-button sg-small", title }, text);
  made.addEventListener("click", run);
  return made;
}
