// NanSpread: where NaN came from and where it went. Python finds the events; this page draws, walks and leads to them.

import {
  type Context,
  defineWidget,
  failure,
  format,
  framed,
  h,
  type LegendItem,
  legendMark,
  makeFrame,
  s,
  type TourStep,
  type Track,
  Transport,
  watchTheme,
} from "@sglab/core";
import { type Opened, openTab, pageLink } from "@sglab/engine/opener";
import { button, definitions, spoken } from "@sglab/memory/parts";
import "@sglab/memory/memory.css";
import { ROLES, Spread } from "./model";
import "./nan_spread.css";
import { draw, hueOf, markPath, type Picture } from "./picture";
import type { NAN_SPREAD, Shown } from "./protocol";

const NEAR = 6; // steps of a long way that are listed at both ends

function render({ el, source, selection, disposer }: Context<typeof NAN_SPREAD>): void {
  let spread: Spread | undefined;
  let picture: Picture | undefined;

  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    tour: { name: "nan_spread", steps: STEPS },
    onEscape: () => selection.set({}),
    keys: () => [
      { keys: ["f"], label: "go to the first NaN", run: () => goTo(spread?.shown.first ?? -1) },
      { keys: ["ArrowUp"], label: "go to who wrote what was read", run: () => goTo(neighbour("parents")) },
      { keys: ["ArrowDown"], label: "go to who read it next", run: () => goTo(neighbour("children")) },
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => redraw.schedule());
  const canvas = h("div", { class: "snn-picture", "data-picture": "" });
  const way = h("div", { class: "snn-way" });
  const made = h("div", { class: "sg-control" });
  frame.view.append(canvas, way);

  const failed = (error: unknown) => frame.notify("error", (error as Error).message);
  const first = button("first NaN", GO, () => goTo(spread?.shown.first ?? -1));
  const opener = button("open it in the debugger", OPEN, () => void debug().catch(failed));
  frame.toolbar.append(first);
  const infinite = h("input", { type: "checkbox" });
  if (source.live) {
    frame.toolbar.append(opener);
    frame.view.prepend(made);
    frame.more.append(h("label", {}, infinite, " infinities, too"));
    disposer.listen(infinite, "change", () => {
      frame.clearNotice();
      source.call("look", { infinite: infinite.checked }).catch(failed);
    });
  }

  const selected = () => transport.position - 1;

  /** There, in a debugger that the session has, in a tab, or as a page behind a link. */
  async function debug(): Promise<void> {
    const event = Math.max(0, selected());
    if (!spread?.shown.events) return;
    const live = await source.call("debug", { event });
    if (live.model === undefined) {
      frame.notify("info", "The KernelDebugger of this launch is at this instruction.");
      return;
    }
    if (openTab(frame.root, live as Opened)) return;
    const { element, release } = pageLink((await source.call("debug", { event, page: true })) as Opened);
    disposer.add(release);
    made.replaceChildren(element);
    element.focus();
  }

  function neighbour(side: "parents" | "children"): number {
    const events = spread?.[side][Math.max(0, selected())] ?? [];
    return (side === "parents" ? events.at(-1) : events[0]) ?? -1;
  }

  function goTo(event: number): void {
    if (event >= 0) transport.goTo(event + 1);
  }

  function tellOthers(): void {
    const event = selected();
    if (!spread || event < 0) return;
    const facets = { cta: spread.cta(event), warp: spread.warp(event), moment: spread.position(event) };
    selection.set(facets, frame);
  }

  function link(event: number, text: string): HTMLElement {
    const made = h("button", { type: "button", class: "sg-link" }, text);
    made.addEventListener("click", () => goTo(event));
    return made;
  }

  /** The way from an origin to the selected event, as a list to press. */
  function showWay(): void {
    const event = selected();
    if (!spread || event < 0) {
      way.replaceChildren(h("p", { class: "sg-note" }, HINT));
      return;
    }
    const events = spread.way(event);
    const left = Math.max(0, events.length - 2 * NEAR);
    const { sentences } = spread.shown;
    const item = (each: number, value: number) =>
      h(
        "li",
        { value, class: each === event ? "sg-strong" : undefined },
        link(each, sentences[each] as string),
      );
    const all = events.map((each, i) => item(each, i + 1));
    const gap = h("li", { class: "sg-note snn-gap" }, `… ${format.plural(left, "more step")}`);
    const items = left ? [...all.slice(0, NEAR), gap, ...all.slice(-NEAR)] : all;
    const reached = format.plural(spread.reached(event).size - 1, "later event");
    const counted =
      spread.shown.events > spread.shown.sentences.length ? `${reached} of those drawn` : reached;
    way.replaceChildren(
      h("div", { class: "sg-heading" }, "How it came here"),
      h("ol", { class: "sg-list snn-list" }, ...items),
      h("p", { class: "sg-note" }, `From here it reached ${counted}.`),
    );
  }

  function showDetails(): void {
    if (!spread) return;
    const event = selected();
    const parts: HTMLElement[] = [];
    if (event < 0) parts.push(h("p", { class: "sg-note" }, HINT));
    else {
      const role = spread.role(event);
      const meaning = spread.shown.roles.find(([name]) => name === role)?.[1] ?? "";
      parts.push(
        definitions(`Event ${event + 1}: ${role}`, [["it", meaning], ...(spread.shown.facts[event] ?? [])]),
      );
      const readers = spread.children[event] ?? [];
      if (readers.length)
        parts.push(
          h("div", { class: "sg-heading" }, `Read by ${format.plural(readers.length, "event")}`),
          h(
            "ul",
            { class: "sg-list" },
            ...readers
              .slice(0, NEAR)
              .map((each) => h("li", {}, link(each, (spread as Spread).shown.sentences[each] as string))),
          ),
        );
    }
    frame.details.replaceChildren(...parts);
  }

  const redraw = framed(() => {
    if (!spread || frame.view.clientWidth === 0) return;
    picture = draw({
      spread,
      lit: transport.position,
      width: Math.max(420, frame.view.clientWidth - 4),
      theme: theme(),
    });
    canvas.replaceChildren(picture.svg);
    showWay();
    showDetails();
  });
  disposer.add(() => redraw.cancel());
  disposer.add(
    transport.changed.on(() => {
      redraw.schedule();
      tellOthers();
    }),
  );
  const near = (event: MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    return picture?.at(event.clientX - box.left, event.clientY - box.top);
  };
  disposer.listen(canvas, "click", (event) => goTo(near(event) ?? -1));
  disposer.listen(canvas, "pointermove", (event) => {
    const found = near(event);
    frame.tooltip.show(
      found === undefined ? undefined : spread?.shown.sentences[found],
      event.clientX,
      event.clientY,
    );
  });
  disposer.listen(canvas, "pointerleave", () => frame.tooltip.hide());
  const resized = new ResizeObserver(() => redraw.schedule());
  resized.observe(frame.view);
  disposer.add(() => resized.disconnect());

  async function read(): Promise<void> {
    try {
      const shown = source.get("shown");
      frame.setHeader(source.get("header"));
      infinite.checked = shown.infinite;
      allow(first, GO, shown.first >= 0, shown);
      allow(opener, OPEN, shown.sentences.length > 0, shown);
      if (!shown.sentences.length) {
        spread = undefined;
        frame.setPlaceholder({ kind: "empty", text: noneIn(shown), remedy: remedyOf(shown, source.live) });
        return;
      }
      const [events, links] = await Promise.all([source.slice("events", 0, 5), source.slice("links", 0, 2)]);
      spread = new Spread(shown, events.data, links.data);
      frame.setPlaceholder(null);
      frame.setLegend(legendOf(shown));
      if (shown.events > shown.sentences.length)
        frame.notify(
          "info",
          `The first ${format.count(shown.sentences.length)} of ${format.count(shown.events)} events are drawn.` +
            (shown.later ? ` Later ones stored it to ${shown.later}.` : ""),
        );
      transport.load(trackOf(spread), shown.first + 1);
      redraw.schedule();
    } catch (error) {
      frame.setPlaceholder(failure(source, error));
    }
  }
  source.onChange("revision", () => void read());
  frame.setHeader(source.get("header"));
  frame.setPlaceholder({ kind: "loading", text: "Reading the events." });
  void read();
}

const GO = "Go to the first NaN (f)";
const OPEN = "Move the session to this instruction: the launch's KernelDebugger follows, or opens";

/** A button that has nothing to go to says why. */
function allow(button: HTMLButtonElement, title: string, allowed: boolean, shown: Shown): void {
  button.disabled = !allowed;
  button.title = allowed ? title : noneIn(shown);
  button.setAttribute("aria-label", spoken(button.textContent ?? "", button.title));
}

function noneIn({ infinite }: Shown): string {
  return `No NaN${infinite ? " or infinity" : ""} in this launch: no instruction or copy read or wrote one.`;
}

function remedyOf({ infinite }: Shown, live: boolean): string {
  if (!live) return "In the notebook, infinities can be followed, too.";
  return `Put one into an input and run again${infinite ? "" : ", or follow infinities, too (more)"}.`;
}

const HINT = "Step, or press a mark: the way from the first NaN to it is drawn and listed.";

function trackOf(spread: Spread): Track {
  const stops = (...roles: string[]) =>
    Array.from({ length: spread.size }, (_, i) => i + 1).filter((i) => roles.includes(spread.role(i - 1)));
  const origins = spread.shown.origins?.map((event) => event + 1) ?? stops("made", "came");
  return {
    length: spread.size,
    granularities: [
      { id: "event", label: "event" },
      { id: "memory", label: "stored", stops: stops("stored") },
      { id: "origin", label: "origin", stops: origins },
    ],
    marks: origins.slice(0, 100).map((at) => ({ at, label: "a NaN was made or came in" })),
    describe: (position) => spread.shown.sentences[position - 1] ?? "No NaN yet.",
  };
}

const STEPS: TourStep[] = [
  { key: "Home", text: "to go to the beginning: there is no NaN yet." },
  { key: "f", text: "to go to the first NaN: the instruction that made it, or the input that held it." },
  { key: "ArrowDown", text: "to go to who read it next." },
  { key: "ArrowUp", text: "to go back to who wrote it." },
  { key: "End", text: "to see all that it reached; the bold line is the way it took." },
];

function legendOf(shown: Shown): LegendItem[] {
  const marks = shown.roles.map(([name, text], i) => {
    const role = ROLES[i] as (typeof ROLES)[number];
    const bare = role === "stopped";
    const mark = s("svg", { width: 14, height: 14, "aria-hidden": "true" });
    mark.append(
      s("path", {
        d: markPath(role, 7, 7),
        fill: bare ? "none" : hueOf(role),
        stroke: hueOf(role),
        "stroke-width": bare ? 2 : 0,
      }),
    );
    return { label: name, title: text, mark: mark as unknown as HTMLElement };
  });
  return [
    ...marks,
    { label: "the way to the selected event", mark: legendMark("way") },
    { label: "selected", mark: legendMark("outline") },
  ];
}

export default defineWidget<typeof NAN_SPREAD>({ name: "nan_spread", version: 1, render });
