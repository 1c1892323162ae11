// Children of an element that are rebuilt only where what they show has changed: a step changes few lines of many.

export interface Kept {
  key: string;
  /** Represents everything that the child shows. */
  stamp: string;
  make: () => HTMLElement;
}

export class KeptChildren {
  #known = new Map<string, { stamp: string; element: HTMLElement }>();

  constructor(private parent: HTMLElement) {}

  /** `held`: the key of the child that stays as it is for now. */
  show(wanted: Kept[], held?: string): void {
    const next = new Map<string, { stamp: string; element: HTMLElement }>();
    for (const { key, stamp, make } of wanted) {
      const known = this.#known.get(key);
      next.set(key, known && (known.stamp === stamp || key === held) ? known : { stamp, element: make() });
    }
    for (const [key, { element }] of this.#known) if (next.get(key)?.element !== element) element.remove();
    let at = this.parent.firstElementChild;
    for (const { element } of next.values()) {
      if (element === at) at = at.nextElementSibling;
      else this.parent.insertBefore(element, at);
    }
    this.#known = next;
  }
}

const CONTROLS = "button, input, select, summary, [tabindex]";

/** Replaces what an element shows, unless it is text that is there already; the focus goes to the control that has taken the place of the one that had it, or else to the widget. */
export function replaceKeepingFocus(parent: HTMLElement, children: HTMLElement[]): void {
  const plain = children.every((child) => !child.matches(CONTROLS) && !child.querySelector(CONTROLS));
  if (plain && saysSame(parent, children)) return;
  const before = document.activeElement;
  const name = before && before !== parent && parent.contains(before) ? nameOf(before) : undefined;
  parent.replaceChildren(...children);
  if (name === undefined) return;
  const controls = [...parent.querySelectorAll<HTMLElement>(CONTROLS)];
  const heir = controls.find((control) => nameOf(control) === name);
  // a button that has removed its own row leaves the focus to the widget, whose keys go on working
  (heir ?? parent.closest<HTMLElement>(".sg-widget"))?.focus({ preventScroll: true });
}

function saysSame(parent: HTMLElement, children: HTMLElement[]): boolean {
  const { childNodes } = parent;
  return (
    childNodes.length === children.length && children.every((child, i) => childNodes[i]?.isEqualNode(child))
  );
}

function nameOf(control: Element): string {
  return control.getAttribute("aria-label") ?? control.getAttribute("title") ?? control.textContent ?? "";
}
