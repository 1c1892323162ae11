// Small helpers to build DOM and SVG.

type Attributes = Record<string, string | number | boolean | undefined>;
type Child = Node | string | undefined;

function decorate<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== undefined));
  return element;
}

/** An HTML element: `h("button", { class: "sg-button", type: "button" }, "Play")`. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return decorate(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return decorate(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** Says `text` in an element. What says it already is left alone: a new text node costs the page a layout. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets attributes; false takes one away. What is so already is left alone: each write costs the page a frame. */
export function setAttributes(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    const wanted = value === undefined || value === false ? null : value === true ? "" : String(value);
    if (element.getAttribute(name) === wanted) continue;
    if (wanted === null) element.removeAttribute(name);
    else element.setAttribute(name, wanted);
  }
}

/**
 * Replaces those children that differ from the wanted ones: the others keep their layout, their images and the focus.
 * A control that does something else must differ in an attribute, such as a `data-` of what it goes to.
 */
export function replaceChanged(parent: Element, wanted: readonly (Element | string)[]): void {
  const before = [...parent.childNodes];
  for (const [i, each] of wanted.entries()) {
    const node = typeof each === "string" ? document.createTextNode(each) : each;
    const known = before[i];
    if (!known) parent.append(node);
    else if (!known.isEqualNode(node)) known.replaceWith(node);
  }
  for (const extra of before.slice(wanted.length)) extra.remove();
}

let counter = 0;

/** An id no other element of this page has, not even one of another bundle. */
export function uniqueId(prefix: string): string {
  counter += 1;
  return `sg-${prefix}-${counter}-${Math.random().toString(36).slice(2, 8)}`;
}

const waiting = new Set<() => void>();

/** Draws at once what waits for the next frame: a page that is printed has none before it. */
export function drawWaiting(): void {
  for (const run of [...waiting]) run();
}

/** Runs `draw` at most once per frame; `now` runs a pending one immediately. */
export function framed(draw: () => void): { schedule: () => void; now: () => void; cancel: () => void } {
  let handle = 0;
  const cancel = () => {
    cancelAnimationFrame(handle);
    handle = 0;
    waiting.delete(run);
  };
  const run = () => {
    cancel();
    draw();
  };
  return {
    schedule: () => {
      if (handle) return;
      handle = requestAnimationFrame(run);
      waiting.add(run);
    },
    now: run,
    cancel,
  };
}

/** Scrolls what lies within `root` so that `element` can be seen there. The page stays where its reader has it. */
export function revealWithin(root: Element, element: Element | null | undefined): void {
  for (let box = element?.parentElement; element && box && root.contains(box); box = box.parentElement) {
    const { overflowX, overflowY } = getComputedStyle(box);
    const [outer, inner] = [box.getBoundingClientRect(), element.getBoundingClientRect()];
    if (/auto|scroll/.test(overflowY))
      box.scrollTop += nearest(inner.top - outer.top, inner.height, box.clientHeight);
    if (/auto|scroll/.test(overflowX))
      box.scrollLeft += nearest(inner.left - outer.left, inner.width, box.clientWidth);
  }
}

/** How far to go on so that what begins at `from` and is `size` long lies within `room`. */
function nearest(from: number, size: number, room: number): number {
  if (from < 0) return from;
  return Math.max(0, Math.min(from, from + size - room));
}
