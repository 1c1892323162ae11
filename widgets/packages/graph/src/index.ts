// Graph: captured decode passes and their replays.

import "@sglab/engine/engine_style";
import "./graph.css";
import {
  type Context,
  defineWidget,
  followRun,
  format,
  framed,
  h,
  type LegendItem,
  legendMark,
  makeFrame,
  revealWithin,
  Tabs,
  type TourStep,
  type Track,
  Transport,
  watchTheme,
} from "@sglab/core";
import { Growing } from "@sglab/engine/growing";
import { Lines } from "@sglab/engine/lines";
import { keepFocus, note } from "@sglab/engine/parts";
import { makeStepAttention } from "@sglab/engine/step_attention";
import { eventDetails, launchDetails, probeDetails } from "./details";
import type { Event, GRAPH } from "./protocol";
import { makeSlots } from "./slots";
import { choiceFor, sentence } from "./words";

const CAPTURED = "A capture attends to the dummy page alone: go to a replay.";
const LEAST = 120;
const TALLEST = 460;
const BORDER = 4; // px of the slots' frame
const GAP = 6; // px between the slots and what stands below them
const TOUR: TourStep[] = [
  { key: "Home", text: "to go to the beginning: nothing is captured." },
  { key: "ArrowRight", text: "to capture the largest size: it comes first." },
  { key: "End", text: "to go to the last replay: its requests, and padding where it has some." },
  { key: "ArrowDown", text: "to select a slot: its inputs are at the right." },
  { key: "p", text: "to see what a stale pointer does." },
];

function render({ el, source, disposer }: Context<typeof GRAPH>): void {
  const lines = new Lines<Event>(source);
  const events = lines.all;
  let slot: number | undefined;
  let tallest = 0;
  let launch: number | undefined;
  let built = false; // tabs open before there is anything to draw
  const transport = new Transport();
  const growing = new Growing(transport);
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    tour: { name: "graph", steps: TOUR },
    onEscape: () => select(undefined),
    keys: () => [
      { keys: ["ArrowDown"], label: "select the next slot", run: () => stepSlot(1) },
      { keys: ["ArrowUp"], label: "select the previous slot", run: () => stepSlot(-1) },
      { keys: ["l"], label: "the graph's launches", run: () => tabs.open("launches") },
      { keys: ["p"], label: "what a stale pointer does", run: () => tabs.open("probe") },
      { keys: ["o"], label: "open the step's attention", run: () => tabs.open("attention") },
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => draw.schedule());
  const state = () => ({ events, sizes: source.get("sizes"), position: transport.position, slot });
  const slots = makeSlots(
    state,
    theme,
    frame.tooltip,
    disposer,
    (row, column) => {
      select(row);
      transport.goTo(column + 1);
    },
    () => draw.schedule(),
  );
  const below = h("div", { class: "sgr-below" });
  const content = h("div", { class: "sgr-view" }, slots.grid.element, below);
  frame.view.append(content);
  const eventPane = h("div");
  const launchPane = h("div");
  const fillEvent = filler(eventPane);
  const fillLaunches = filler(launchPane);
  const probePane = h("div");
  const attention = makeStepAttention(source, frame, disposer);
  const tabs = new Tabs(
    [
      { id: "event", label: "Replay", panel: eventPane },
      { id: "launches", label: "Launches", panel: launchPane },
      { id: "probe", label: "Stale pointer", panel: probePane },
      { id: "attention", label: "Attention", panel: attention.root },
    ],
    "Details",
    disposer,
    () => built && draw.schedule(),
  );
  frame.details.append(tabs.element);
  const tried = h("input", {
    type: "number",
    class: "sg-field sgr-tried",
    min: 1,
    value: 3,
    "aria-label": "Requests",
  });
  const answer = h("span");
  disposer.listen(tried, "input", () => showAnswer());
  frame.toolbar.append(h("label", {}, "a batch of", tried), answer);

  function showAnswer(): void {
    answer.textContent = choiceFor(source.get("sizes"), Number(tried.value));
  }

  function select(row: number | undefined): void {
    slot = row;
    draw.now();
    revealWithin(frame.details, eventPane.querySelector("tr:has(b)"));
    slots.grid.redraw();
  }

  function stepSlot(step: number): void {
    const most = (events[transport.position - 1]?.bs ?? 1) - 1;
    const from = slot ?? (step > 0 ? -1 : most + 1);
    const row = Math.max(0, Math.min(most, from + step));
    select(row);
    slots.reveal(row, Math.max(0, transport.position - 1));
  }

  function track(): Track {
    const changes = events.flatMap((event, i) => {
      const before = events[i - 1];
      return before?.kind !== event.kind || before.bs !== event.bs ? [i + 1] : [];
    });
    return {
      length: events.length,
      granularities: [
        { id: "event", label: "replay" },
        { id: "size", label: "another size", stops: changes },
      ],
      describe: (position) => sentence(events[position - 1]),
      eventsOfSelection: () => {
        const here = events[transport.position - 1];
        const request = here?.kind === "replay" && slot !== undefined ? here.requests[slot]?.[1] : undefined;
        if (request === undefined) return undefined;
        return events.flatMap((event, i) =>
          event.kind === "replay" && event.requests.some(([, name]) => name === request) ? [i + 1] : [],
        );
      },
    };
  }

  const draw = framed(() => {
    if (!events.length || frame.view.clientWidth === 0) return;
    const event = events[transport.position - 1];
    const { dark } = theme();
    const addresses = source.get("addresses");
    const captures = events.filter(({ kind }) => kind === "capture");
    const which = captures.findIndex(({ bs }) => bs === event?.bs);
    if (tabs.current === "event")
      fillEvent([event, addresses, slot, dark], () => eventDetails(event, addresses, slot, dark, select));
    if (tabs.current === "launches") {
      const pick = (index: number) => {
        launch = index;
        draw.now();
      };
      const size = captures[Math.max(0, which)]?.bs; // before the first capture: of the one to come
      const launches = source.get("launches")[Math.max(0, which)];
      fillLaunches([size, launches, addresses, launch], () => [
        note(`Of the graph of size ${size}.`),
        ...launchDetails(launches ?? [], addresses, launch, pick),
      ]);
    }
    attention.show(
      event?.kind === "replay" ? event.step : -1,
      event?.kind === "capture" ? CAPTURED : undefined,
    );
    if (tabs.current === "probe") probePane.replaceChildren(...probeDetails(source.get("probe")));
    below.replaceChildren(...summary());
    const room = frame.room() - below.offsetHeight - GAP - BORDER;
    slots.layout(state(), frame.view.clientWidth, Math.max(LEAST, room));
    tallest = frame.detailsBelow() ? 0 : Math.max(tallest, Math.min(TALLEST, frame.details.scrollHeight));
    const least = Math.max(content.offsetHeight, Math.min(frame.room(), tallest)); // nothing lies over the details
    frame.view.style.minHeight = `${least}px`; // the transport stays under the pointer
  });
  built = true;

  function summary(): HTMLElement[] {
    const order = events.filter(({ kind }) => kind === "capture").map(({ bs }) => bs);
    const without = Object.entries(source.get("without"));
    const replays = events.length - order.length;
    const passes = without.map(([why, many]) => `${format.count(many)} (${why})`).join(", ");
    return [
      note(
        `Captured in this order: ${order.join(", ")}. ${format.plural(replays, "replay")}; ` +
          `passes without a graph: ${passes || "none"}. Only decode passes are captured.`,
      ),
    ];
  }

  disposer.add(
    transport.changed.on(() => {
      if (events.length) slots.reveal(slot ?? 0, Math.max(0, transport.position - 1));
      slots.grid.redraw();
      draw.schedule();
    }),
  );
  followRun(
    { source, frame, disposer },
    () => lines.read(),
    () => {
      frame.setLegend(legendOf(events));
      transport.load(track(), growing.standing(events.length));
      showAnswer();
    },
    draw,
  );
}

/** Fills `pane` anew only when what it is made `of` is another: a link that is being pressed stays where it is. */
function filler(pane: HTMLElement): (of: readonly unknown[], make: () => HTMLElement[]) => void {
  let made: readonly unknown[] | undefined;
  return (of, make) => {
    if (made && of.every((each, i) => each === made?.[i])) return;
    made = of;
    keepFocus(pane, make());
  };
}

function legendOf(events: readonly Event[]): LegendItem[] {
  const captured = h("i", { class: "sgr-mark sgr-captured", "aria-hidden": "true" });
  const request = h("i", { class: "sgr-mark sgr-request", "aria-hidden": "true" });
  const unknown = h("i", { class: "sgr-mark sgr-unknown", "aria-hidden": "true" });
  const before = events.some((event) => event.kind === "replay" && !event.requests.length);
  return [
    { label: "captured", mark: captured },
    { label: "a request (its colour)", mark: request },
    ...(before ? [{ label: "ran before it was recorded", mark: unknown }] : []),
    { label: "padding", mark: legendMark("hatch") },
    { label: "now", mark: legendMark("cursor") },
  ];
}

export default defineWidget<typeof GRAPH>({ name: "graph", version: 1, render });
