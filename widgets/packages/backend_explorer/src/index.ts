// BackendExplorer: every attention backend's answer to one pass, side by side, with SGLang's choice.

import "@sglab/engine/engine_style";
import "./backend_explorer.css";
import {
  type Context,
  defineWidget,
  followRun,
  framed,
  h,
  type LegendItem,
  makeFrame,
  type TourStep,
  Transport,
  watchTheme,
} from "@sglab/core";
import { oneAtATime } from "@sglab/engine/asking";
import { showOpened } from "@sglab/engine/openers";
import { choiceList } from "./choices";
import { makeControls } from "./controls";
import { backendDetails } from "./details";
import { LOOKS } from "./looks";
import type { BACKEND_EXPLORER, Question, Ran, Row } from "./protocol";
import { makeTable } from "./table";
import { ORDERS, type Order, rowSentence, standing } from "./words";

const TOUR: TourStep[] = [
  { key: "c", text: "to select what SGLang takes here; the rule that chose it stands above the table." },
  { key: "ArrowDown", text: "to select the next backend: its arrays, its plan and what it costs." },
  { key: "s", text: "to sort by the bytes that cross memory; s again: by the arrays that were built." },
  { key: "End", text: "to go to the last: it refuses this pass, and says what would serve it." },
  { key: "f", text: "to fold those that refuse; f again unfolds them. ? lists all keys." },
];

const LEGEND: LegendItem[] = [
  { label: "★ SGLang's choice" },
  { label: "✓ runs there" },
  { label: "◌ serves it elsewhere" },
  { label: "✕ refuses" },
  { label: "KV rows", look: LOOKS[0] },
  { label: "copies", look: LOOKS[1] },
  { label: "partial results", look: LOOKS[2] },
  { label: "index arrays", look: LOOKS[3] },
  { label: "an index's keys, scores", look: LOOKS[4] },
  { label: "Q and O", look: LOOKS[5] },
];

const ORDER_WORDS: Record<Order, string> = {
  standing: "SGLang's choice first",
  bytes: "fewest bytes first",
  metadata: "smallest arrays first",
};

function render({ el, source, disposer }: Context<typeof BACKEND_EXPLORER>): void {
  let rows: Row[] = [];
  let selected: string | undefined;
  let order: Order = "standing";
  let folded = false;
  let ran: Ran | undefined;
  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    tour: { name: "backend_explorer", steps: TOUR },
    onEscape: () => select(undefined),
    keys: () => [
      { keys: ["ArrowDown"], label: "select the next backend", run: () => step(1) },
      { keys: ["ArrowUp"], label: "select the backend before", run: () => step(-1) },
      { keys: ["c"], label: "select what SGLang takes", run: () => selectChoice() },
      { keys: ["s"], label: "sort otherwise", run: () => sort(ORDERS[(ORDERS.indexOf(order) + 1) % 3]) },
      { keys: ["f"], label: "fold those that refuse", run: () => fold() },
      ...(source.live
        ? [
            { keys: ["m"], label: "next machine", run: () => nextOf("machine", "machines") },
            { keys: ["v"], label: "next version of SGLang", run: () => nextOf("version", "versions") },
          ]
        : []),
    ],
  });
  watchTheme(frame.root, disposer, () => draw.schedule());
  const controls = makeControls(
    disposer,
    (change) => void ask(change),
    (text) => frame.notify("error", text),
  );
  const sorting = h("select", { class: "sg-select", "aria-label": "Order" });
  sorting.append(...ORDERS.map((each) => h("option", { value: each }, ORDER_WORDS[each])));
  disposer.listen(sorting, "change", () => sort(sorting.value as Order));
  if (source.live) {
    frame.toolbar.append(...controls.parts);
    frame.more.append(...controls.more);
  } else
    frame.notify("info", "A saved page: select and sort here; open the notebook to ask about other batches.");
  frame.more.append(h("label", {}, "order", sorting));
  frame.setLegend(LEGEND);
  const choices = h("div");
  const made = h("ul", { class: "sbe-made" });
  const table = makeTable({ select, open: (widget, name) => void open(widget, name) }, disposer);
  const scroll = h("div", { class: "sbe-scroll" }, table.element);
  const resized = new ResizeObserver(() => {
    scroll.dataset.wider = String(table.element.offsetWidth > scroll.clientWidth);
  });
  for (const each of [scroll, table.element]) resized.observe(each);
  disposer.add(() => resized.disconnect());
  frame.view.append(choices, scroll);
  const asking = oneAtATime(frame, { changed: () => draw.schedule() });
  const draw = framed(() => {
    const question = source.get("question");
    choices.replaceChildren(
      choiceList(
        source.get("choices"),
        question.version,
        source.live && !asking.busy,
        (version) => void ask({ version }),
      ),
    );
    table.show(rows, order, folded, question.machine, question.version, source.live && !asking.busy);
    table.select(selected);
    if (!asking.busy) controls.show(question, source.get("options")); // else they show what is being asked
    showDetails();
  });

  /** The backends in the order shown are the steps; 0: none is selected. */
  function loadTrack(): void {
    const names = table.names();
    const found = names.map((name) => rows.find((row) => row.name === name) as Row);
    const groups = found.flatMap((row, i) =>
      i === 0 || standing(row) !== standing(found[i - 1] as Row) ? [i + 1] : [],
    );
    transport.load(
      {
        length: names.length,
        granularities: [
          { id: "backend", label: "backend" },
          { id: "group", label: "group", stops: [0, ...groups, names.length] },
        ],
        describe: (position) => {
          const row = found[position - 1];
          return row ? rowSentence(row) : "No backend is selected.";
        },
      },
      selected === undefined ? 0 : names.indexOf(selected) + 1,
    );
  }

  function showDetails(): void {
    const row = rows.find((each) => each.name === selected);
    const { machine } = source.get("question");
    const parts = row
      ? backendDetails(row, machine, source.live, asking.busy, ran, {
          open: (widget, name) => void open(widget, name),
          run: (name) => void run(name),
        })
      : [h("p", { class: "sg-note" }, "Press a backend, or the ↓ key, to see what it builds and costs.")];
    const scrolled = frame.details.scrollTop;
    frame.details.replaceChildren(made, ...parts);
    frame.details.scrollTop = scrolled;
  }

  function select(name: string | undefined): void {
    transport.goTo(name === undefined ? 0 : table.names().indexOf(name) + 1);
  }

  function step(by: number): void {
    const count = table.names().length;
    const at = transport.position === 0 && by < 0 ? count + 1 : transport.position;
    transport.goTo(Math.max(1, Math.min(count, at + by)));
  }

  disposer.add(
    transport.changed.on(() => {
      const name = table.names()[transport.position - 1];
      const moved = name !== selected;
      if (moved) frame.details.scrollTop = 0;
      selected = name;
      table.select(name);
      if (moved && name !== undefined) table.reveal(name);
      showDetails();
    }),
  );

  function selectChoice(): void {
    const row = rows.find((each) => each.chosen);
    if (row) select(row.name);
    else frame.notify("info", "SGLang would not start here: the reason stands above the table.");
  }

  function sort(next: Order | undefined): void {
    order = next ?? "standing";
    sorting.value = order;
    draw.now();
    loadTrack();
    if (selected !== undefined) table.reveal(selected);
  }

  function fold(): void {
    folded = !folded;
    draw.now();
    loadTrack();
  }

  function nextOf(field: "machine" | "version", list: "machines" | "versions"): void {
    const all = source.get("options")[list];
    const next = all[(all.indexOf(source.get("question")[field]) + 1) % all.length];
    if (next !== undefined) void ask({ [field]: next });
  }

  const ask = (question: Partial<Question>) => asking.run(() => source.call("change", { question }));

  const run = (backend: string) =>
    asking.run(async () => {
      ran = await source.call("run", { backend });
    });

  const open = (widget: string, backend: string) =>
    asking.run(async () =>
      showOpened({ frame, disposer }, made, await source.call("open_widget", { widget, backend })),
    );

  followRun(
    { source, frame, disposer },
    async () => source.get("rows"),
    (read) => {
      const first = rows.length === 0; // it opens at its cards
      rows = read;
      ran = undefined;
      if (selected !== undefined && !rows.some((row) => row.name === selected)) selected = undefined;
      selected ??= rows.find((row) => row.chosen)?.name;
      draw.now();
      loadTrack();
      if (!first && selected !== undefined) table.reveal(selected); // another pass puts it elsewhere
    },
    draw,
  );
}

export default defineWidget<typeof BACKEND_EXPLORER>({ name: "backend_explorer", version: 1, render });
