// Experts: a mixture's routing, token by token, and what it makes: loads, blocks of a grouped GEMM, ranks.

import type { Selection } from "@sglab/protocol";
import type { EXPERTS, Shown } from "./protocol";
import "./experts.css";
import {
  type Context,
  defineWidget,
  followRun,
  framed,
  h,
  type LegendItem,
  legendMark,
  legendScale,
  makeFrame,
  requestsOf,
  type TourStep,
  Transport,
  watchTheme,
  whenInSight,
} from "@sglab/core";
import { gathered, oneAtATime, stepsAsked } from "@sglab/engine/asking";
import { cssGradient, NAN_COLOR } from "@sglab/memory/cividis";
import { highest } from "./routing_view";
import "@sglab/engine/engine_style";
import { makeOpeners, OF_A_LAUNCH } from "@sglab/engine/openers";
import { makeControls } from "./controls";
import { type Recorded, readRun } from "./data";
import { Steps } from "./steps";
import { makeView } from "./view";

const NONE: readonly string[] = [];
const TOUR: TourStep[] = [
  { key: "Home", text: "to go to the beginning: no token is routed." },
  { key: "ArrowRight", text: "to take the next step of a token: scores, bias, groups, choice, weights." },
  { key: "]", text: "to finish the token: its experts have an outline, and their loads grow." },
  { key: "End", text: "to route all tokens and sort their choices into blocks." },
  {
    key: "b",
    text: "to open the next tab: load, blocks with their padding, ranks and EPLB. ? lists all keys.",
  },
];

const scaleOf = (top: number): LegendItem =>
  legendScale(
    "score",
    cssGradient(),
    ["0", String(Number(top.toPrecision(2)))],
    "The highest score of this pass has the lightest colour.",
  );

const legendOf = (read: Recorded): LegendItem[] => [
  ...(read.scores.every(Number.isNaN) ? [] : [scaleOf(highest(read.scores))]),
  { label: "chosen, with its weight", look: { fill: "#D55E00", hatch: "none", ink: "#000000" } },
  ...(read.rule.groups > 1
    ? [
        { label: "its group is out; padding", mark: legendMark("hatch") },
        { label: "edge of a group of experts", mark: legendMark("line") },
      ]
    : [{ label: "padding", mark: legendMark("hatch") }]),
  { label: "mean", mark: legendMark("dashes") },
  ...(read.scores.some(Number.isNaN)
    ? [{ label: "NaN", look: { fill: NAN_COLOR, hatch: "none" as const, ink: "#ffffff" } }]
    : []),
];

function render({ el, source, selection: shared, disposer }: Context<typeof EXPERTS>): void {
  const selection = requestsOf(() => recorded?.names ?? NONE, shared);
  let recorded: Recorded | undefined;
  let steps: Steps | undefined;
  let token: number | undefined;
  let expert: number | undefined;
  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    tour: { name: "experts", steps: TOUR },
    onEscape: () => pick(undefined, undefined),
    keys: () => [
      { keys: ["ArrowDown"], label: "select the next token", run: () => stepToken(1) },
      { keys: ["ArrowUp"], label: "select the previous token", run: () => stepToken(-1) },
      { keys: ["e"], label: "select the next expert", run: () => stepExpert() },
      { keys: ["b"], label: "next of load, blocks and ranks", run: () => view.nextTab() },
      ...(source.live
        ? [
            { keys: ["."], label: "next pass", run: () => stepPass(1) },
            { keys: [","], label: "previous pass", run: () => stepPass(-1) },
            { keys: ["l"], label: "next layer", run: () => nextLayer() },
          ]
        : []),
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => draw.schedule());
  const asking = oneAtATime(frame, { refused: () => recorded && controls.show(recorded) });
  const ask = gathered(asking, (change: Partial<Shown>) => source.call("show", change));
  const controls = makeControls(disposer, (change) => void ask(change));
  if (source.live) {
    frame.toolbar.append(...controls.parts);
    frame.more.append(...controls.more);
  } else
    frame.notify(
      "info",
      "A saved page: step and select here; open the notebook for other passes and layers.",
    );
  const openers = makeOpeners({ frame, live: source.live, disposer }, OF_A_LAUNCH, (widget) =>
    source.call("open_widget", { widget }),
  );
  frame.more.append(h("span", { class: "sg-muted" }, "its grouped GEMM:"), ...openers.buttons, openers.made);
  const view = makeView(frame, disposer, theme, { pick });
  const draw = framed(() => {
    if (!recorded || !steps || frame.view.clientWidth === 0) return; // drawn when it is laid out
    view.draw({ recorded, standing: steps.standing(transport.position), token, expert });
  });

  function pick(nextToken: number | undefined, nextExpert: number | undefined): void {
    token = nextToken;
    expert = nextExpert;
    const one = recorded?.tokens[token ?? -1];
    selection.set(one ? { request: one.request, token: one.position, tokens: 1 } : {}, frame);
    draw.schedule();
  }

  /** Of this pass the one that is selected elsewhere, or again by Ctrl+Z. */
  function tokenOf({ request, token: position, tokens = 1 }: Selection): number | undefined {
    if (position === undefined || tokens !== 1) return undefined;
    const at = recorded?.tokens.findIndex((one) => one.request === request && one.position === position);
    return at === undefined || at < 0 ? undefined : at;
  }

  function stepToken(step: number): void {
    const count = recorded?.tokens.length ?? 0;
    const from = token ?? steps?.standing(transport.position).token ?? (step > 0 ? -1 : count);
    pick(Math.max(0, Math.min(count - 1, from + step)), undefined);
  }

  function stepExpert(): void {
    const count = recorded?.rule.experts ?? 1;
    pick(token, expert === undefined ? 0 : (expert + 1) % count);
  }

  const stepPass = stepsAsked(
    () => source.get("shown").step,
    () => source.get("passes").length,
    (step) => ask({ step }),
  );

  function nextLayer(): void {
    if (recorded) void ask({ layer: (recorded.shown.layer + 1) % recorded.layers.length });
  }

  disposer.add(transport.changed.on(() => draw.schedule()));
  const inSight = whenInSight(frame.root, disposer);
  disposer.add(
    selection.on((value, origin) => {
      if (origin === frame) return;
      token = tokenOf(value);
      inSight("selection", draw.schedule);
    }),
  );
  followRun(
    { source, frame, disposer },
    () => readRun(source),
    (read) => {
      const { shown } = read;
      const same = recorded?.shown.step === shown.step && recorded.shown.layer === shown.layer;
      const blocks = recorded?.shown.block === shown.block;
      recorded = read;
      frame.setLegend(legendOf(read));
      steps = new Steps(read);
      if (!same) token = undefined;
      controls.show(read);
      openers.enable(true);
      transport.load(
        steps.track(() => ({ token, expert })),
        same && blocks ? transport.position : steps.moments.length,
      );
    },
    draw,
  );
}

export default defineWidget<typeof EXPERTS>({ name: "experts", version: 1, render });
