// SparseAttention: which keys a rule chooses for which query, what that saves, and what it costs in error.

import { oneAtATime } from "@sglab/engine/asking";
import "@sglab/engine/engine_style";
import { keepFocus } from "@sglab/engine/parts";
import "./sparse_attention.css";
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
  type TourStep,
  Transport,
  watchTheme,
  whenInSight,
} from "@sglab/core";
import { Chart, percent, ruleList } from "./chart";
import { type Choice, type Look, layerNumber, MISSED_FROM, type Read, readRun } from "./data";
import { queryDetails, ruleDetails } from "./details";
import { leastHeight, MapView, usedHeight, wholeHeight } from "./map_view";
import type { SPARSE_ATTENTION } from "./protocol";
import { scaleItem } from "./shades";
import { TextView } from "./text_view";

const TOUR: TourStep[] = [
  { key: "Home", text: "to keep the fewest keys: red are those that are missed though probable." },
  { key: "ArrowRight", text: "to keep more: the error falls along the rule's line." },
  { key: "r", text: "to choose by the next rule, with the same budget." },
  { key: "ArrowUp", text: "to select the query before: its keys are framed in the text." },
  { key: "End", text: "to keep all keys a rule can. ? lists all keys of the keyboard." },
];

const LEGEND = (): LegendItem[] => [
  scaleItem(),
  { label: "not chosen", mark: legendMark("hatch") },
  {
    label: `missed: not chosen, ${MISSED_FROM} or more`,
    look: { fill: "var(--sg-error)", hatch: "none", ink: "#ffffff" },
  },
  { label: "selected query", mark: legendMark("outline") },
  { label: "in the text: framed are its chosen keys, bars its probabilities" },
];

const HEADINGS = 64; // px of the view, with what is between maps and chart
const CHART = 190;
const LOW_CHART = 120; // where the maps are whole only beside a lower one
const LEAST = 180; // px of a map
const TALLEST = 400; // where the widget scrolls

function render({ el, source, selection, disposer }: Context<typeof SPARSE_ATTENTION>): void {
  let read: Read | undefined;
  const look: Look = { rule: 1, step: 0, head: 0, query: 0 };
  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    tour: { name: "sparse_attention", steps: TOUR },
    keys: () => [
      { keys: ["ArrowDown"], label: "select the next query", run: () => pickQuery(look.query + 1) },
      { keys: ["ArrowUp"], label: "select the query before", run: () => pickQuery(look.query - 1) },
      { keys: ["r"], label: "next rule", run: () => pickRule(look.rule + 1) },
      { keys: ["h"], label: "next head", run: () => pickHead(look.head + 1) },
      ...(source.live ? [{ keys: ["l"], label: "next layer", run: () => nextLayer() }] : []),
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => draw.schedule());
  const asking = oneAtATime(frame);
  let asked: number | undefined; // a layer that Python still compares
  const ask = (layer: number) =>
    asking.run(async () => {
      asked = layer;
      draw.schedule();
      try {
        await source.call("show", { layer });
      } finally {
        asked = undefined;
        draw.schedule();
      }
    });
  const select = (label: string, run: (value: number) => void) => {
    const made = h("select", { class: "sg-select", "aria-label": label });
    disposer.listen(made, "change", () => run(Number(made.value)));
    return made;
  };
  const ruleSelect = select("Rule", (rule) => pickRule(rule));
  const headSelect = select("Head", (head) => pickHead(head));
  const layerSelect = select("Layer", (layer) => void ask(layer));
  frame.toolbar.append(h("label", {}, "rule", ruleSelect), h("label", {}, "head", headSelect));
  if (source.live) frame.toolbar.append(h("label", {}, "layer", layerSelect));
  else
    frame.notify(
      "info",
      "A saved page: step, select and change the rule here; open the notebook for other layers.",
    );
  frame.setLegend(LEGEND());
  const dense = new MapView(theme, frame.tooltip, disposer, false, (query) => pickQuery(query));
  const sparse = new MapView(theme, frame.tooltip, disposer, true, (query) => pickQuery(query));
  for (const [one, other] of [
    [dense, sparse],
    [sparse, dense],
  ] as const)
    disposer.listen(one.scroller, "scroll", () =>
      other.scroller.scrollTo(one.scroller.scrollLeft, one.scroller.scrollTop),
    );
  const text = new TextView(disposer, (query) => pickQuery(query));
  const chart = new Chart(disposer, (rule, step) => {
    pickRule(rule);
    transport.goTo(step);
  });
  const rules = h("div");
  const denseTitle = h("div", { class: "sg-heading" });
  const sparseTitle = h("div", { class: "sg-heading" });
  frame.view.append(
    text.element,
    h(
      "div",
      { class: "ssp-maps" },
      h("div", {}, denseTitle, dense.grid.element),
      h("div", {}, sparseTitle, sparse.grid.element),
    ),
    h(
      "div",
      { class: "ssp-lower" },
      h("div", {}, h("div", { class: "sg-heading" }, "Error against dense attention"), chart.element),
      rules,
    ),
  );

  const draw = framed(() => {
    const width = frame.view.clientWidth;
    if (!read || width === 0) return; // drawn when it is laid out
    look.step = Math.min(transport.position, read.budgets.length - 1);
    const rule = read.rules[look.rule] as Choice;
    const narrow = frame.root.clientWidth < 700;
    const mapWidth = narrow ? width : (width - 12) / 2;
    text.draw(read, look);
    const room = frame.room() - text.element.offsetHeight - HEADINGS;
    const whole = wholeHeight(read.shown.tokens, mapWidth);
    // too low for the map: the widget scrolls, which is better than a map that scrolls in it
    const { tokens } = read.shown;
    const low = room - LOW_CHART < Math.min(whole, Math.max(LEAST, leastHeight(tokens)));
    const mapHeight = usedHeight(tokens, mapWidth, low ? TALLEST : room - LOW_CHART);
    const chartHeight = low ? CHART : Math.min(CHART, room - mapHeight);
    dense.draw(read, look, mapWidth, mapHeight);
    sparse.draw(read, look, mapWidth, mapHeight);
    denseTitle.textContent =
      asked === undefined
        ? "Dense"
        : `Dense · layer ${read ? layerNumber(read.shown, asked) : asked} is being compared …`;
    sparseTitle.textContent = `${rule.title}, ${format.plural(read.budgets[look.step] as number, "key")}`;
    keepFocus(rules, [ruleList(read, look.rule, look.step, (next) => pickRule(next))]);
    chart.draw(read, look.rule, look.step, narrow ? width : Math.max(240, width - 330), chartHeight);
    ruleSelect.value = String(look.rule);
    headSelect.value = String(look.head);
    frame.details.replaceChildren(...queryDetails(read, look), ...ruleDetails(read, look));
  });

  function pickQuery(query: number): void {
    if (!read) return;
    look.query = Math.max(0, Math.min(read.shown.tokens - 1, query));
    selection.set({ request: 0, token: look.query, tokens: 1 }, frame);
    draw.schedule();
  }

  function pickRule(rule: number): void {
    if (!read) return;
    look.rule = rule % read.rules.length;
    transport.refresh();
    draw.schedule();
  }

  function pickHead(head: number): void {
    if (!read) return;
    look.head = head % read.shown.heads;
    draw.schedule();
  }

  function nextLayer(): void {
    if (read) void ask((read.shown.layer + 1) % read.shown.layers);
  }

  function sentence(position: number): string {
    const rule = read?.rules[look.rule];
    if (!read || !rule) return "";
    const keys = (rule.keys[position] as number).toFixed(1);
    return (
      `${rule.title} keeps ${keys} of ${((read.shown.tokens + 1) / 2).toFixed(1)} keys per query: ` +
      `${format.percent(rule.mass[position] as number)} of the probability, error ${percent(rule.error[position] as number)}.`
    );
  }

  disposer.add(transport.changed.on(() => draw.schedule()));
  const inSight = whenInSight(frame.root, disposer);
  disposer.add(
    selection.on(({ request = 0, token }, origin) => {
      if (origin === frame || !read) return;
      const undone = origin === undefined && token === undefined; // the first pick was taken back
      const query = undone ? read.shown.tokens - 1 : token;
      if (query === undefined || request !== 0 || query >= read.shown.tokens) return;
      look.query = query;
      inSight("selection", draw.schedule);
    }),
  );
  followRun(
    { source, frame, disposer },
    () => readRun(source),
    (next) => {
      const first = read === undefined;
      read = next;
      const { shown } = next;
      look.head = Math.min(look.head, shown.heads - 1);
      if (first) look.query = shown.tokens - 1;
      look.query = Math.min(look.query, shown.tokens - 1);
      ruleSelect.replaceChildren(...next.rules.map((rule, i) => h("option", { value: i }, rule.title)));
      headSelect.replaceChildren(
        ...Array.from({ length: shown.heads }, (_, i) => h("option", { value: i }, String(i))),
      );
      layerSelect.replaceChildren(
        ...Array.from({ length: shown.layers }, (_, i) =>
          h("option", { value: i }, String(layerNumber(shown, i))),
        ),
      );
      layerSelect.value = String(shown.layer);
      transport.load(
        {
          length: next.budgets.length - 1,
          granularities: [{ id: "budget", label: "budget" }],
          describe: sentence,
        },
        first ? Math.min(2, next.budgets.length - 1) : transport.position,
      );
    },
    draw,
  );
}

export default defineWidget<typeof SPARSE_ATTENTION>({ name: "sparse_attention", version: 1, render });
