// The picture: tokens × experts beside loads, blocks and ranks.

import { type Disposer, type Frame, h, Tabs, type Theme } from "@sglab/core";
import { BlocksView } from "./blocks_view";
import type { Recorded } from "./data";
import { expertDetails, tokenDetails } from "./details";
import { LoadView } from "./load_view";
import { RanksView } from "./ranks_view";
import { RoutingView } from "./routing_view";
import { lookedAt, phasesRun, type Standing } from "./steps";

const HEADING = { least: 26, below: 5 }; // px: of one line, and its margin
const TABS = 34;
const NOTE = 46;
const LEAST = 180;
const MOST = 760;
const TWO_COLUMNS = 590; // px of the view
const OF_ONE_COLUMN = 0.6; // of its height for the tokens: what is below them begins in sight
const GAP = 12;

export interface Shown {
  recorded: Recorded;
  standing: Standing;
  token: number | undefined;
  expert: number | undefined;
}

export interface Actions {
  pick(token: number | undefined, expert: number | undefined): void;
}

export interface View {
  draw(shown: Shown): void;
  nextTab(): void;
}

export function makeView(frame: Frame, disposer: Disposer, theme: () => Theme, actions: Actions): View {
  let last: Shown | undefined;
  const routing = new RoutingView(theme, frame.tooltip, disposer, actions.pick);
  const load = new LoadView(frame.tooltip, (expert) => actions.pick(undefined, expert));
  const blocks = new BlocksView(theme, frame.tooltip, disposer, actions.pick);
  const ranks = new RanksView(frame.tooltip, (expert) => actions.pick(undefined, expert));
  const tabs = new Tabs(
    [
      { id: "load", label: "Load", panel: load.element },
      { id: "blocks", label: "Blocks", panel: blocks.element },
      { id: "ranks", label: "Ranks and EPLB", panel: ranks.element },
    ],
    "What the routing makes",
    disposer,
    () => last && draw(last),
  );
  const title = h("div", { class: "sex-heading" });
  const left = h("div", {}, title, routing.grid.element);
  frame.view.append(h("div", { class: "sex-upper" }, left, tabs.element));

  function draw(shown: Shown): void {
    last = shown;
    const { recorded, standing, token, expert } = shown;
    const { rule } = recorded;
    const whole = frame.view.clientWidth;
    const wide = whole >= TWO_COLUMNS;
    const width = wide ? Math.floor((whole - GAP) / 2) : whole;
    const height = Math.min(MOST, Math.max(LEAST, frame.room() - 8));
    title.textContent = `Tokens × experts: ${rule.scoring} scores, the ${rule.topK} chosen`;
    const heading = Math.max(HEADING.least, title.offsetHeight + HEADING.below); // it wraps in a narrow page
    const rows = wide ? height - heading : Math.max(LEAST, Math.floor(OF_ONE_COLUMN * height) - heading);
    routing.draw({ recorded, standing, token, expert, width, height: rows });
    if (tabs.current === "load") load.draw(recorded, standing, expert, width, height - TABS);
    if (tabs.current === "blocks")
      blocks.draw({ recorded, standing, token, expert, width, height: height - TABS - NOTE });
    if (tabs.current === "ranks") ranks.draw(recorded, expert, width, theme().dark);
    const looked = token ?? lookedAt(standing);
    frame.details.replaceChildren(
      ...(expert !== undefined ? expertDetails(recorded, expert, standing.routed) : []),
      ...(token === undefined && expert !== undefined
        ? []
        : tokenDetails(recorded, looked, phasesRun(recorded, standing, looked))),
    );
  }

  return { draw, nextTab: () => tabs.next() };
}
