// DraftTree: a request's verifications, moment by moment: build, mask, verify, accept, compact.

import type { DRAFT_TREE } from "./protocol";
import "./draft_tree.css";
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
import "@sglab/engine/engine_style";
import { makeOpeners, OF_A_BATCH, OF_A_LAUNCH } from "@sglab/engine/openers";
import { type Recorded, readRun } from "./data";
import { Steps } from "./steps";
import { makeView } from "./view";

const TOUR: TourStep[] = [
  { key: "Home", text: "to go to the beginning: nothing is drafted yet." },
  { key: "ArrowRight", text: "to draft a node; the root is the request's last token." },
  { key: "]", text: "to finish the phase: build, mask, verify, accept, compact." },
  { key: ".", text: "to go to the end of the pass: what it has kept, and where it lies." },
  { key: "ArrowDown", text: "to select a node: what the target says after it. ? lists all keys." },
];

const LEGEND = (scored: boolean): LegendItem[] => [
  { label: "✓ kept", look: { fill: "#009E73", hatch: "none", ink: "#000000" } },
  { label: "✗ refused: dashed" },
  { label: "just happened, moved", look: { fill: "#D55E00", hatch: "none", ink: "#000000" } },
  { label: "one token per pass, as plain decoding", mark: legendMark("dashes") },
  { label: "grey: possible with its drafts" },
  { label: "→ what the target says next" },
  ...(scored ? [{ label: "p of a path, by the drafter" }] : []),
];

// a verification has several queries of each request: Online softmax follows one
const OPENED = [...OF_A_BATCH.filter(({ widget }) => widget !== "OnlineSoftmax"), ...OF_A_LAUNCH];

function render({ el, source, selection, disposer }: Context<typeof DRAFT_TREE>): void {
  let recorded: Recorded | undefined;
  let steps: Steps | undefined;
  let picked: number | undefined;
  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    tour: { name: "draft_tree", steps: TOUR },
    onEscape: () => pick(undefined),
    keys: () => [
      { keys: ["ArrowDown"], label: "select the next node", run: () => stepNode(1) },
      { keys: ["ArrowUp"], label: "select the previous node", run: () => stepNode(-1) },
      { keys: ["."], label: "to the end of the next pass", run: () => stepPass(1) },
      { keys: [","], label: "to the end of the pass before", run: () => stepPass(-1) },
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => draw.schedule());
  const request = h("select", { class: "sg-select", "aria-label": "Request" });
  const pass = h("select", { class: "sg-select", "aria-label": "Pass" });
  disposer.listen(pass, "change", () => goTo(Number(pass.value)));
  disposer.listen(request, "change", () => {
    source.call("show", { request: Number(request.value) }).catch((error: Error) => {
      frame.notify("error", error.message);
      if (recorded) request.value = String(recorded.request);
    });
  });
  frame.toolbar.append(h("label", {}, "request", request), h("label", {}, "pass", pass));
  const openers = makeOpeners({ frame, live: source.live, disposer }, OPENED, (widget) =>
    source.call("open_widget", { widget, step: steps?.standing(transport.position).pass ?? 0 }),
  );
  frame.more.append(h("span", { class: "sg-muted" }, "the pass's"), ...openers.buttons, openers.made);
  frame.setLegend(LEGEND(false));
  const view = makeView(frame, disposer, theme, { node: (node) => pick(node), pass: (at) => goTo(at) });
  const draw = framed(() => {
    if (!recorded || !steps || frame.view.clientWidth === 0) return; // drawn when it is laid out
    const standing = steps.standing(transport.position);
    pass.value = String(standing.pass);
    view.draw({ recorded, steps, standing, selected: picked });
  });

  /** A node of the shown pass; its page is selected for the notebook's other widgets. */
  function pick(node: number | undefined): void {
    picked = node;
    const shown = recorded?.passes[steps?.standing(transport.position).pass ?? 0];
    const one = shown?.nodes[node ?? -1];
    if (!recorded || !shown || !one) selection.set({}, frame);
    else
      selection.set(
        { request: shown.row, page: Math.floor(one.slot / recorded.run.pageSize), slot: one.slot },
        frame,
      );
    draw.schedule();
  }

  function stepNode(step: number): void {
    const count = recorded?.passes[0]?.nodes.length ?? 0;
    const from = picked ?? (step > 0 ? -1 : count);
    pick(Math.max(0, Math.min(count - 1, from + step)));
  }

  function goTo(at: number): void {
    const end = steps?.ends[at];
    if (end !== undefined) transport.goTo(end);
  }

  function stepPass(step: number): void {
    const ends = steps?.ends ?? [];
    const { position } = transport;
    const next = step > 0 ? ends.find((end) => end > position) : ends.findLast((end) => end < position);
    if (next !== undefined) transport.goTo(next);
  }

  disposer.add(transport.changed.on(() => draw.schedule()));
  const inSight = whenInSight(frame.root, disposer);
  disposer.add(
    selection.on(({ slot }, origin) => {
      if (origin === frame) return;
      const shown = recorded?.passes[steps?.standing(transport.position).pass ?? 0];
      const at = slot === undefined ? -1 : (shown?.nodes.findIndex((node) => node.slot === slot) ?? -1);
      picked = at < 0 ? undefined : at;
      inSight("selection", draw.schedule);
    }),
  );
  followRun(
    { source, frame, disposer },
    () => readRun(source),
    (read) => {
      const same = recorded?.request === read.request;
      recorded = read;
      steps = new Steps(read);
      frame.setLegend(LEGEND(!Number.isNaN(read.passes[0]?.nodes[0]?.score ?? Number.NaN)));
      if (picked !== undefined) pick(undefined); // a node of the request before
      const { requests } = read;
      const all = requests.map(({ name, accepted, drafted }, i) =>
        h(
          "option",
          { value: i },
          `${name} · ${format.count(accepted)} of ${format.plural(drafted, "draft")} kept`,
        ),
      );
      request.replaceChildren(...(source.live ? all : all.slice(read.request, read.request + 1)));
      request.value = String(read.request);
      openers.enable(true);
      pass.replaceChildren(
        ...read.passes.map(({ number, accepted }, i) =>
          h("option", { value: i }, `${number} · ${accepted} kept`),
        ),
      );
      transport.load(
        steps.track(() => picked),
        same ? transport.position : (steps.ends[read.step] ?? 0),
      );
    },
    draw,
  );
}

export default defineWidget<typeof DRAFT_TREE>({ name: "draft_tree", version: 1, render });
