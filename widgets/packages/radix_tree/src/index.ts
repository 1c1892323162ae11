// RadixTree: the operations on a radix cache, one by one, and the tree that they leave.

import "@sglab/engine/engine_style";
import "./radix_tree.css";
import {
  type Context,
  defineWidget,
  followRun,
  framed,
  h,
  historyOf,
  type LegendItem,
  makeFrame,
  Tabs,
  type TourStep,
  type Track,
  Transport,
  watchTheme,
  whenInSight,
} from "@sglab/core";
import { followBox } from "@sglab/engine/growing";
import { Lines } from "@sglab/engine/lines";
import { keepFocus } from "@sglab/engine/parts";
import { makeStepAttention } from "@sglab/engine/step_attention";
import type { Selection } from "@sglab/protocol";
import { opDetails, selectedDetails, type Told } from "./details";
import { makePicture } from "./picture";
import { makePool } from "./pool";
import type { Op, RADIX_TREE } from "./protocol";
import { layoutOf, type TreeNode, TreeStates } from "./states";
import { changesTree, nameOf, sentence } from "./words";

const LEAST = 120;
const BETWEEN = 8;
const TOUR: TourStep[] = [
  { key: "Home", text: "to go to the beginning: the tree as it was found." },
  { key: "ArrowRight", text: "to see the next operation: a match lights its path." },
  { key: "]", text: "to go to the next operation that changes the tree: a node comes, is split or evicted." },
  { key: "ArrowDown", text: "to select a node: its pages, locks and who holds them." },
  { key: "e", text: "to go to the next eviction: what went, and why." },
];

function render({ el, source, selection, disposer }: Context<typeof RADIX_TREE>): void {
  const states = new TreeStates();
  const lines = new Lines<Op>(source, (op) => states.add(op));
  let selected: number | undefined;
  const history = historyOf(disposer);
  let stood = -1; // where the operation's path was scrolled to
  let order: number[] = [];
  let tallest = 0;
  let room = ""; // what `tallest` was measured in
  let built = false; // tabs open before there is anything to draw
  const transport = new Transport();
  const { growing, label: follow } = followBox(
    transport,
    disposer,
    "Go to the newest operation as the engine runs",
  );
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    tour: { name: "radix_tree", steps: TOUR },
    onEscape: () => select(undefined),
    keys: () => [
      { keys: ["ArrowDown"], label: "select the next node", run: () => stepNode(1) },
      { keys: ["ArrowUp"], label: "select the previous node", run: () => stepNode(-1) },
      { keys: ["e"], label: "next eviction", run: () => next("evict") },
      { keys: ["x"], label: "next split", run: () => next("split") },
      { keys: ["o"], label: "open the step's attention", run: () => tabs.open("attention") },
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => draw.schedule());
  const picture = makePicture(frame.tooltip, disposer, (node) => select(node));
  const pool = makePool((node) => select(node));
  frame.view.classList.add("srt-view");
  frame.view.append(pool.canvas, picture.root, pool.order); // the pool stays in place, however high the tree is
  disposer.listen(pool.canvas, "click", (event) => {
    const op = pool.opAt(event.offsetX);
    if (op !== undefined) transport.goTo(op);
  });
  const opPane = h("div");
  const nodePane = h("div");
  const attention = makeStepAttention(source, frame, disposer);
  const tabs = new Tabs(
    [
      { id: "op", label: "Operation", panel: opPane },
      { id: "node", label: "Node", panel: nodePane },
      { id: "attention", label: "Attention", panel: attention.root },
    ],
    "Details",
    disposer,
    () => built && draw.schedule(),
  );
  frame.details.append(tabs.element);
  const jump = (text: string, title: string, kind: Op["kind"]) => {
    const button = h("button", { type: "button", class: "sg-button", title }, text);
    disposer.listen(button, "click", () => next(kind));
    return button;
  };
  frame.toolbar.append(
    jump("next split", "To the next split (x)", "split"),
    jump("next eviction", "To the next eviction (e)", "evict"),
  );
  if (source.live) frame.toolbar.append(follow);

  const index = () => Math.max(0, Math.min(transport.position, states.ops.length - 1));

  /** A node; its first page is selected for the notebook's other widgets. Two nodes may have one page at two moments. */
  function select(node: number | undefined): void {
    const [before, page] = [selected, pageOf(node)];
    const was = selection.value;
    choose(node, page === undefined ? {} : { page });
    if (before === node) return;
    const now = selection.value;
    history.did({ undo: () => choose(before, was), redo: () => choose(node, now) });
  }

  function choose(node: number | undefined, value: Selection): void {
    selected = node;
    history.quietly(() => selection.set(value, frame));
    if (node !== undefined) tabs.open("node");
    showSelected(node);
  }

  function selectRequest(request: number): void {
    selected = undefined;
    selection.set({ rid: nameOf(source.get("requests"), request) }, frame);
    tabs.open("node");
    showSelected(states.nodesOf(request, index(), states.at(index())).at(-1));
  }

  function showSelected(node: number | undefined): void {
    draw.now();
    if (states.ops.length) transport.refresh();
    if (node !== undefined) picture.reveal(node);
  }

  const pageOf = (node: number | undefined) => states.at(index()).get(node ?? -1)?.pages[0]?.[0];

  /** The request that is selected in the notebook, by its name: its number in a batch is another. */
  function request(): number | undefined {
    const at = source.get("requests").indexOf(selection.value.rid ?? "");
    return at < 0 ? undefined : at;
  }

  /** Something was selected elsewhere: its node, or the nodes of its request. */
  function selectedElsewhere(): void {
    const { page = -1, rid } = selection.value;
    const tree = states.at(index());
    const own = states.nodesOf(request() ?? -1, index(), tree);
    const holds = (node: TreeNode) => node.pages.some(([first, last]) => first <= page && page <= last);
    const among = [...tree.values()].filter(({ id }) => rid === undefined || own.includes(id)); // others' pages are of their pool
    selected = among.find(holds)?.id;
    showSelected(selected ?? own.at(-1));
  }

  function stepNode(step: number): void {
    if (!order.length) return;
    const now = states.ops[index()]?.path?.at(-1);
    if (selected === undefined && now !== undefined && order.includes(now)) {
      select(now); // what the operation was about
      return;
    }
    const at = selected === undefined ? -1 : order.indexOf(selected);
    const from = at >= 0 ? at : step > 0 ? -1 : order.length;
    select(order[Math.max(0, Math.min(order.length - 1, from + step))]);
  }

  function next(kind: Op["kind"]): void {
    const all = states.ops.flatMap((op, i) =>
      op.kind === kind && (kind !== "evict" || op.evicted?.length) ? [i] : [],
    );
    const to = all.find((each) => each > transport.position) ?? all[0];
    if (to === undefined)
      frame.notify("info", `There was no ${kind === "evict" ? "eviction" : kind} in this recording.`);
    else transport.goTo(to);
  }

  /** Why the attention of an operation's step cannot be opened. */
  function refusal(op: Op): string | undefined {
    if (op.kind === "start") return "Go to an operation of a step first.";
    const none = source.get("steps") && op.step >= source.get("steps");
    return none ? "No step has followed this operation: go back to one of an earlier step." : undefined;
  }

  function track(): Track {
    const { ops } = states;
    const stepEnds = ops.flatMap((op, i) => (ops[i + 1]?.step !== op.step ? [i] : []));
    return {
      length: Math.max(0, ops.length - 1),
      granularities: [
        { id: "op", label: "operation" },
        {
          id: "change",
          label: "change of the tree",
          stops: ops.flatMap((op, i) => (changesTree(op) ? [i] : [])),
        },
        { id: "step", label: "engine's step", stops: stepEnds },
      ],
      marks: ops.flatMap((op, i) =>
        op.kind === "evict" && op.evicted?.length ? [{ at: i, label: "evicted" }] : [],
      ),
      describe: (position) => {
        const op = ops[position];
        return op ? sentence(op, source.get("requests"), source.get("page_size")) : "";
      },
      eventsOfSelection: () => {
        const one = request();
        if (selected !== undefined) return states.of(selected);
        return one === undefined ? undefined : states.ofRequest(one);
      },
    };
  }

  const draw = framed(() => {
    const at = index();
    const op = states.ops[at];
    if (!op || frame.view.clientWidth === 0) return;
    const tree = states.at(at);
    const before = at > 0 ? states.at(at - 1) : tree;
    const layout = layoutOf(tree, before, op.del ?? []);
    order = [...layout.places.values()].filter(({ ghost }) => !ghost).map(({ node }) => node.id);
    const chosen = request();
    const own = chosen === undefined ? [] : states.nodesOf(chosen, at, tree);
    const lit = own.length ? new Set(own) : undefined;
    const shown = { layout, op, pageSize: source.get("page_size"), selected, lit, clock: op.clock };
    const height = frame.room();
    pool.show(states.ops, at, tree, source.get("pool_size"), frame.view.clientWidth, theme());
    const around = pool.canvas.offsetHeight + pool.order.offsetHeight + 2 * BETWEEN; // what would go may take several lines
    picture.show(shown, frame.view.clientWidth, Math.max(LEAST, height - around), theme());
    const told: Told = {
      states,
      index: at,
      tree: new Map([...before, ...tree]),
      requests: source.get("requests"),
      pageSize: source.get("page_size"),
      poolSize: source.get("pool_size"),
      steps: source.get("steps"),
      dark: theme().dark,
      pick: select,
      pickRequest: selectRequest,
      goTo: (to) => transport.goTo(to),
    };
    if (tabs.current === "op") keepFocus(opPane, opDetails({ ...told, tree: op.evicted ? tree : told.tree }));
    if (tabs.current === "node")
      keepFocus(nodePane, selectedDetails({ ...told, tree }, selected, chosen, own));
    attention.show(op.step, refusal(op));
    const measured = `${frame.view.clientWidth} ${height}`;
    if (measured !== room) tallest = 0;
    room = measured;
    const drawn = around + picture.root.offsetHeight;
    tallest = frame.detailsBelow() ? drawn : Math.max(tallest, drawn, frame.details.scrollHeight);
    const least = Math.max(drawn, Math.min(height, tallest)); // nothing lies over the details, which follow in a narrow widget
    frame.view.style.minHeight = `${least}px`; // the transport stays under the pointer
  });
  built = true;
  disposer.add(source.onChange("steps", () => draw.schedule()));
  const inSight = whenInSight(frame.root, disposer);
  disposer.add(
    selection.on((_, origin) => {
      if (origin !== frame) inSight("selection", selectedElsewhere);
    }),
  );
  frame.setLegend(LEGEND());

  disposer.add(
    transport.changed.on(() => {
      draw.now();
      if (transport.position === stood) return; // what was selected stays in sight
      stood = transport.position;
      const last = states.ops[index()]?.path?.at(-1);
      if (last !== undefined) picture.reveal(last);
    }),
  );
  followRun(
    { source, frame, disposer },
    () => lines.read(),
    () => {
      const end = Math.max(0, states.ops.length - 1);
      transport.load(track(), growing.standing(end));
    },
    draw,
  );
}

function LEGEND(): LegendItem[] {
  const mark = (kind: string) => h("i", { class: `srt-mark srt-mark-${kind}`, "aria-hidden": "true" });
  return [
    { label: "locked by requests", mark: mark("locked") },
    { label: "evictable", mark: mark("free") },
    { label: "path of the operation", mark: mark("path") },
    { label: "where a node was split", mark: mark("cut") },
    { label: "evicted", mark: mark("gone") },
    { label: "on the host alone", mark: mark("host") },
    { label: "outside the tree: of requests that run or end in the step", mark: mark("own") },
    { label: "page border", mark: mark("page") },
    { label: "p.: pages of the pool; used: its last access" },
    { label: "selected", mark: mark("selected") },
  ];
}

export default defineWidget<typeof RADIX_TREE>({ name: "radix_tree", version: 1, render });
