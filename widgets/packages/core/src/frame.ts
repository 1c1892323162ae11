// The frame of every widget: header, toolbar, view, details, transport; and what it says when there is nothing to show.

import type { Header, Source } from "@sglab/protocol";
import { DISCONNECTED } from "./channel";
import { h, replaceChanged, setAttributes, setText, uniqueId } from "./dom";
import { type Disposer, Emitter } from "./emitter";
import { showHelp } from "./help";
import { historyOf } from "./history";
import { attachKeys, type KeyBinding } from "./keys";
import { type LegendItem, legendParts } from "./legend";
import { download } from "./picture";
import { keepLayoutInPrint } from "./printing";
import { makeSplitter } from "./splitter";
import { makeTooltip, type Tooltip } from "./tooltip";
import { makeTour, type TourStep } from "./tour";
import type { Transport } from "./transport";
import { transportView } from "./transport_view";

/** A sentence that takes the view's place. `progress` runs from 0 to 1; absent, it is unknown. */
export interface Placeholder {
  kind: "empty" | "loading" | "error";
  text: string;
  /** What to do about it. */
  remedy?: string;
  progress?: number;
}

export interface Frame {
  readonly root: HTMLElement;
  /** The two or three controls that a beginner needs. */
  readonly toolbar: HTMLElement;
  /** All other controls: a row that *more* shows. */
  readonly more: HTMLElement;
  readonly view: HTMLElement;
  readonly details: HTMLElement;
  readonly tooltip: Tooltip;
  setHeader(header: Header): void;
  /** Shows a sentence instead of the view, or the view again. */
  setPlaceholder(placeholder: Placeholder | null): void;
  /** A message above the view that leaves the view as it is; the reader dismisses it. */
  notify(kind: "error" | "info", text: string): void;
  clearNotice(): void;
  /** That what is shown has failed: said until the reader closes it, after other messages and Esc again. "": it has not. */
  setFailure(text: string): void;
  /** What the marks of the view mean. */
  setLegend(items: readonly LegendItem[]): void;
  openMore(open?: boolean): void;
  /** Pixels of height that the view may take so that the widget is in sight as a whole. */
  room(): number;
  /** Whether the widget is as high as it may be, whatever details and sentences need: for a picture that takes what it gets. */
  fillRoom(fill: boolean): void;
  /** Whether the details are below the view, as they are where the widget is narrow. */
  detailsBelow(): boolean;
  /** Controls have opened or closed beside the view, or the tour has: its room is another. */
  readonly roomChanged: Emitter<void>;
}

export interface FrameOptions {
  /** Its connection is shown: waiting for Python, or Python gone. */
  source?: Source;
  transport?: Transport;
  /** Lines kept free for the transport's sentence, one where absent: a longer one moves what is below it. */
  readoutLines?: number;
  keys?: () => KeyBinding[];
  /** What Esc does besides closing messages. */
  onEscape?: () => void;
  /** The first run: five presses; `name` is what the browser remembers that the reader has seen. */
  tour?: { name: string; steps: readonly TourStep[] };
}

const LEAST_HEIGHT = 320;
const LEAST_ROOM = 240;
const MOST_ROOM = 4000; // where nothing limits it, as in print
const PADDING = 24; // of the widget and above its body
const LEAST_DETAILS = 140;
const DETAILS_BELOW = 132; // the least height of details below the view, with their margin

/** What is shown, in parts that stay whole where there is room for some of them only. */
function subjectParts(text: string): HTMLElement[] {
  return text.split(/(?=, | · )/).map((part) => h("span", {}, part));
}

export function makeFrame(el: HTMLElement, disposer: Disposer, options: FrameOptions = {}): Frame {
  const title = h("strong", { class: "sg-title", id: uniqueId("title") });
  const subject = h("span", { class: "sg-subject" });
  const badge = h("span", { class: "sg-badge" });
  const waiting = h("span", { class: "sg-waiting", role: "status" });
  const headButton = (text: string, title: string) =>
    h("button", { type: "button", class: "sg-button sg-help", "aria-label": title, title }, text);
  const help = headButton("?", "Keys (?)");
  const moreButton = headButton("more", "More controls, and the picture as a file");
  const toolbar = h("div", { class: "sg-toolbar" });
  const moreControls = h("div", { class: "sg-more-controls" });
  const more = h("div", { class: "sg-more", hidden: true, id: uniqueId("more") }, moreControls);
  moreButton.setAttribute("aria-controls", more.id);
  const stale = h("div", { class: "sg-stale", role: "status", hidden: true });
  const notice = h("div", { class: "sg-notice", role: "alert" });
  const placeholder = h("div", { class: "sg-placeholder", role: "status" });
  // both may scroll, so that the keyboard must reach them
  const view = h("div", { class: "sg-view", tabindex: 0, role: "group", "aria-label": "Picture" });
  const details = h("aside", { class: "sg-details", tabindex: 0, "aria-label": "Selection" });
  const body = h("div", { class: "sg-body" }, view);
  const legend = h("div", { class: "sg-legend", role: "note", "aria-label": "Legend" });
  // what the transport stays within while a notebook scrolls: it never lies over the header
  const main = h("div", { class: "sg-main" }, body, legend);
  const root = h(
    "section",
    { class: "sg-widget", tabindex: 0, "aria-labelledby": title.id },
    h("header", { class: "sg-header" }, title, subject, waiting, badge, moreButton, help),
    toolbar,
    more,
    stale,
    notice,
    placeholder,
    main,
  );
  const setVariable = (name: string) => (pixels: number | undefined) => {
    if (pixels === undefined) root.style.removeProperty(name);
    else root.style.setProperty(name, `${pixels}px`);
  };
  const aside = {
    label: "Width of the details",
    axis: "x",
    pane: details,
    after: true,
    least: LEAST_DETAILS,
  } as const;
  const size = setVariable("--sg-details-width");
  body.append(makeSplitter({ ...aside, size }, disposer), details);
  if (options.transport) {
    main.append(transportView(options.transport, disposer));
    root.style.setProperty("--sg-readout-lines", String(options.readoutLines ?? 1));
    keepHeight(root, body, disposer);
    keepReadout(root, disposer);
  }
  const edge = { label: "Height of the widget", axis: "y", pane: root, least: LEAST_HEIGHT } as const;
  const grip = makeSplitter({ ...edge, size: setVariable("--sg-height") }, disposer);
  grip.classList.add("sg-grip");
  root.append(grip);
  keepLayoutInPrint(root, body, disposer);

  let failure = "";
  function showNotice(kind: "error" | "info", text: string): void {
    const name = text === failure ? "Dismiss" : "Dismiss (Esc)";
    const dismiss = h("button", { type: "button", class: "sg-button sg-small", "aria-label": name }, "✕");
    dismiss.addEventListener("click", () => {
      if (text === failure) failure = "";
      frame.clearNotice();
      root.focus({ preventScroll: true }); // the button goes: keys stay with the widget
    });
    notice.dataset.kind = kind;
    notice.replaceChildren(h("span", {}, text), dismiss);
  }

  const frame: Frame = {
    root,
    toolbar,
    more: moreControls,
    view,
    details,
    tooltip: makeTooltip(root),
    setHeader(header) {
      setText(title, header.title);
      const { subject: short, whole = "" } = header;
      if (subject.textContent !== short) subject.replaceChildren(...subjectParts(short));
      setAttributes(subject, { title: short.includes(whole) ? short : `${short}\n${whole}` });
      setText(badge, header.badge.text);
      setAttributes(badge, { title: header.badge.title });
    },
    setPlaceholder(shown) {
      replaceChanged(placeholder, shown ? placeholderParts(shown) : []);
      const kind = shown?.kind ?? "";
      setAttributes(placeholder, { "data-kind": kind });
      setAttributes(root, { "data-placeholder": kind });
      body.hidden = shown !== null;
    },
    notify: showNotice,
    clearNotice() {
      if (failure) showNotice("error", failure);
      else notice.replaceChildren();
    },
    setFailure(text) {
      const before = failure;
      failure = text;
      if (text || before) frame.clearNotice();
    },
    setLegend(items) {
      legend.replaceChildren(...legendParts(items));
    },
    openMore(open = true) {
      more.hidden = !open;
      moreButton.setAttribute("aria-expanded", String(open));
    },
    roomChanged: new Emitter<void>(),
    room() {
      const most = Number.parseFloat(getComputedStyle(root).maxHeight);
      if (!Number.isFinite(most)) return MOST_ROOM;
      const beside = [...root.children, ...main.children].filter(
        (each) => each !== body && each !== main && !each.matches("dialog, .sg-tooltip"),
      );
      const taken = beside.reduce((sum, each) => sum + outerHeight(each as HTMLElement), 0);
      const below = frame.detailsBelow() ? DETAILS_BELOW : 0;
      return Math.max(LEAST_ROOM, most - taken - below - PADDING);
    },
    fillRoom(fill) {
      root.dataset.fills = String(fill);
    },
    detailsBelow: () => details.offsetTop > view.offsetTop,
  };
  frame.openMore(false);

  const bindings = (): KeyBinding[] => [
    ...(options.keys?.() ?? []),
    ...(options.transport?.keys() ?? []),
    {
      keys: ["Escape"],
      label: "clear the selection and messages",
      run: () => {
        frame.clearNotice();
        options.onEscape?.();
      },
    },
    ...historyOf(disposer).keys((text) => frame.notify("info", text)),
    { keys: ["?"], label: "show these keys", run: () => openHelp() },
  ];
  const tour = makeTour(
    root,
    options.tour?.name ?? "",
    options.tour?.steps ?? [],
    bindings,
    disposer,
    options.transport,
  );
  notice.before(tour.element);
  const beside = new ResizeObserver(() => frame.roomChanged.emit());
  for (const each of [more, tour.element]) beside.observe(each);
  disposer.add(() => beside.disconnect());
  const openHelp = () => showHelp(root, bindings(), options.tour ? [firstSteps()] : []);
  const firstSteps = () => textButton("first steps", "Five presses that show what this is for", tour.start);
  more.append(
    h(
      "span",
      { class: "sg-more-common" },
      "picture",
      ...(["png", "svg"] as const).map((kind) =>
        textButton(kind.toUpperCase(), `What is shown, as ${kind === "png" ? "pixels" : "SVG"}`, () => {
          download(root, kind).catch((error: Error) => frame.notify("error", error.message));
        }),
      ),
      options.tour ? firstSteps() : undefined,
    ),
  );
  if (options.source) {
    disposer.add(showConnection(options.source, frame, waiting));
    disposer.add(showOutdated(options.source, frame, stale));
  }
  disposer.listen(help, "click", openHelp);
  disposer.listen(moreButton, "click", () => frame.openMore(more.hidden === true));
  disposer.listen(root, "click", (event) => returnFocus(root, event));
  disposer.add(attachKeys(root, bindings));
  disposer.add(() => root.remove());
  el.append(root);
  return frame;
}

function showConnection(source: Source, frame: Frame, waiting: HTMLElement): () => void {
  return source.onConnection((connection) => {
    frame.root.dataset.connection = connection;
    waiting.textContent = connection === "waiting" ? "waiting for Python: busy or gone" : "";
    if (connection === "lost") frame.notify("error", DISCONNECTED);
  });
}

const SIGNS = { empty: "∅", loading: "…", error: "▲" };

function placeholderParts({ kind, text, remedy, progress }: Placeholder): HTMLElement[] {
  const parts: HTMLElement[] = [
    h("p", {}, h("span", { class: "sg-sign", "aria-hidden": "true" }, SIGNS[kind]), ` ${text}`),
  ];
  if (remedy) parts.push(h("p", { class: "sg-remedy" }, remedy));
  if (kind === "loading") parts.push(h("progress", { max: 1, value: progress, "aria-label": "Progress" }));
  return parts;
}

function textButton(text: string, title: string, run: () => void): HTMLButtonElement {
  const made = h("button", { type: "button", class: "sg-button sg-small", title }, text);
  made.addEventListener("click", run);
  return made;
}

function outerHeight(element: HTMLElement): number {
  const { marginTop, marginBottom } = getComputedStyle(element);
  const margins = Number.parseFloat(marginTop) + Number.parseFloat(marginBottom);
  return element.offsetHeight ? element.offsetHeight + (margins || 0) : 0;
}

/** Steps leave the body as high as it has been, so that the transport stays under the pointer that presses it, until
 * something else is pressed, or the width or the window changes. */
function keepHeight(root: HTMLElement, body: HTMLElement, disposer: Disposer): void {
  let [kept, width, height] = [0, 0, 0];
  const keep = (pixels: number) => {
    kept = pixels;
    body.style.setProperty("--sg-kept-height", `${kept}px`);
  };
  const sized = new ResizeObserver(([entry]) => {
    const rect = entry?.contentRect;
    if (!rect) return;
    if (rect.width !== width) keep(0);
    else if (rect.height > kept) keep(rect.height);
    width = rect.width;
    height = rect.height;
  });
  sized.observe(body);
  // what was pressed since has made it as high as it is: keys keep that again
  disposer.listen(root, "keydown", () => {
    if (!kept) keep(height);
  });
  disposer.add(() => sized.disconnect());
  const release = (event: Event) => {
    if (event.target instanceof Element && !event.target.closest(".sg-transport")) keep(0);
  };
  disposer.listen(root, "click", release);
  disposer.listen(root, "change", release);
  disposer.listen(root, "keydown", ({ key }) => {
    if (key === "Escape") keep(0);
  });
  const fresh = () => keep(0);
  window.addEventListener("resize", fresh);
  disposer.add(() => window.removeEventListener("resize", fresh));
}

/** A long sentence leaves its lines to the next: what is below does not jump up and down with every step. */
function keepReadout(root: HTMLElement, disposer: Disposer): void {
  let [kept, width] = [0, 0];
  const sized = new ResizeObserver(([entry]) => {
    const rect = entry?.contentRect;
    if (!rect?.width) return;
    if (rect.width !== width) kept = 0;
    else if (rect.height <= kept) return;
    else kept = rect.height;
    width = rect.width;
    root.style.setProperty("--sg-readout-height", `${kept}px`);
  });
  for (const readout of root.querySelectorAll(".sg-readout")) sized.observe(readout);
  disposer.add(() => sized.disconnect());
}

const PRESSED = ".sg-cells, [role=tab], [role=radio], [data-picture], .sg-details button:not(.sg-button)";

/** After a press with the pointer in a picture, on a tab or a text, keys mean what they mean everywhere in the widget. */
function returnFocus(root: HTMLElement, event: MouseEvent): void {
  const byPointer = event.detail > 0 && event.target instanceof Element;
  if (byPointer && (event.target as Element).closest(PRESSED)) root.focus({ preventScroll: true });
}

/** What was changed after the run that is shown, with a button that runs again. */
function showOutdated(source: Source, frame: Frame, bar: HTMLElement): () => void {
  const again = textButton("Run again", "Run again on what is there now", () => {
    again.disabled = true;
    source
      .call("run_again", {})
      .then((said) => said && frame.notify("info", said))
      .catch((error: Error) => frame.notify("error", error.message))
      .finally(() => {
        again.disabled = false;
      });
  });
  const text = h("span");
  bar.append(h("b", {}, "stale"), text, again);
  const show = () => {
    const why = source.get("outdated") ?? "";
    bar.hidden = !why;
    text.textContent = why;
    again.hidden = !source.live;
    frame.root.dataset.outdated = String(Boolean(why));
  };
  show();
  return source.onChange("outdated", show);
}
