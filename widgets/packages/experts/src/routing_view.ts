// Tokens × experts: a cell is coloured by its score; the chosen have an outline and their weight.

import {
  type Cell,
  CellGrid,
  cutText,
  type Disposer,
  HATCHED_FROM,
  type Rect,
  sharedPaint,
  type Theme,
  type Tooltip,
  tokenText,
} from "@sglab/core";
import { colorOf, inkFor } from "@sglab/memory/cividis";
import type { Numbers } from "@sglab/protocol";
import { choiceScore, choicesOf, groupOf, keepsGroup, type Recorded } from "./data";
import { lookedAt, type Standing } from "./steps";
import { requestName, tokenName } from "./words";

const HEIGHT = 22;
const LEFT = 104; // with "r3"
const LETTER = 6;
const NAME = 12; // letters of a request's name at most
const TOP = 22;
const WIDEST = 46;
const LEAST = 12;
const WITH_WEIGHT = 24;
const SCROLLBAR = 16;

/** Room for a token and whose it is. */
function leftOf({ names }: Recorded): number {
  const longest = names.reduce((most, name) => Math.max(most, Math.min(NAME, name.length)), 2);
  return LEFT + (longest - 2) * LETTER;
}

export interface RoutingShown {
  recorded: Recorded;
  standing: Standing;
  token: number | undefined;
  expert: number | undefined;
  width: number;
  height: number;
}

export class RoutingView {
  readonly grid: CellGrid;
  #shown: RoutingShown | undefined;
  #top = 1;

  constructor(
    private theme: () => Theme,
    tooltip: Tooltip,
    disposer: Disposer,
    press: (token: number, expert: number) => void,
  ) {
    this.grid = new CellGrid(
      {
        label: "Tokens by experts",
        theme,
        tooltip,
        paint: (context, cell, rect) => this.#paint(context, cell, rect),
        paintRowHeader: (context, row, rect) => this.#paintToken(context, row, rect),
        paintColumnHeader: (context, column, rect) => this.#paintExpert(context, column, rect),
        describe: (cell) => this.#describe(cell),
        select: ({ row, column }) => press(row, column),
      },
      disposer,
    );
  }

  draw(shown: RoutingShown): void {
    const before = this.#shown;
    this.#shown = shown;
    const { recorded, width, height, standing } = shown;
    const { experts } = recorded.rule;
    if (before?.recorded !== recorded) this.#top = highest(recorded.scores);
    const left = leftOf(recorded);
    const cellWidth = Math.max(LEAST, Math.min(WIDEST, Math.floor((width - left - SCROLLBAR) / experts)));
    const { geometry } = this.grid;
    const same =
      geometry.rows === recorded.tokens.length &&
      geometry.columns === experts &&
      geometry.cellWidth === cellWidth &&
      geometry.headerWidth === left &&
      geometry.maxHeight === height;
    if (same) this.grid.redraw();
    else
      this.grid.setGeometry({
        rows: recorded.tokens.length,
        columns: experts,
        cellWidth,
        cellHeight: HEIGHT,
        headerWidth: left,
        headerHeight: TOP,
        maxHeight: height,
      });
    const stepped = before?.recorded === recorded; // not what opens at its end: one begins to read at the top
    const row = shown.token ?? (stepped ? lookedAt(standing) : standing.token);
    const column = before?.expert === shown.expert ? undefined : shown.expert;
    if (row !== undefined && (before?.standing.now !== standing.now || before?.token !== shown.token))
      this.grid.reveal(column === undefined ? { row } : { row, column });
    else if (column !== undefined) this.grid.reveal({ column });
  }

  #paint(context: CanvasRenderingContext2D, { row, column }: Cell, { x, y, width, height }: Rect): void {
    const { recorded, standing, token, expert } = this.#shown as RoutingShown;
    const theme = this.theme();
    const under = standing.token === row ? standing.phase : undefined;
    const done = row < standing.routed;
    if (!done && under === undefined) {
      context.strokeStyle = theme.border;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, width, height);
      if (row === token || column === expert)
        this.#paintSelection(context, { x, y, width, height }, row === token, column === expert, theme);
      return;
    }
    const grouped = done || under === "groups" || under === "choose" || under === "weigh";
    const out = grouped && !keepsGroup(recorded, row, groupOf(recorded, column));
    const score = recorded.scores[row * recorded.rule.experts + column] as number;
    const range = { low: 0, high: this.#top };
    const ink = inkFor(score, range);
    context.fillStyle = colorOf(score, range);
    context.fillRect(x, y, width, height);
    if (out) {
      context.fillStyle = theme.background;
      context.globalAlpha = 0.55;
      context.fillRect(x, y, width, height);
      context.globalAlpha = 1;
      if (width >= HATCHED_FROM) {
        context.fillStyle = sharedPaint().empty(theme.muted);
        context.fillRect(x, y, width, height);
      }
    }
    context.strokeStyle = theme.background;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, width, height);
    this.#paintGroupEdge(context, recorded, column, x, y, height, theme);
    if (done || under === "choose" || under === "weigh")
      this.#paintChoice(context, row, column, { x, y, width, height }, ink, done || under === "weigh");
    if (row === token || column === expert)
      this.#paintSelection(context, { x, y, width, height }, row === token, column === expert, theme);
  }

  #paintChoice(
    context: CanvasRenderingContext2D,
    row: number,
    column: number,
    rect: Rect,
    ink: string,
    weighed: boolean,
  ): void {
    const { recorded } = this.#shown as RoutingShown;
    const choice = choicesOf(recorded, row).find(({ expert }) => expert === column);
    if (!choice) return;
    const { x, y, width, height } = rect;
    context.strokeStyle = "#D55E00";
    context.lineWidth = 2.5;
    context.strokeRect(x + 2.5, y + 2.5, width - 4, height - 4);
    if (!weighed || width < WITH_WEIGHT) return;
    context.fillStyle = ink;
    context.font = `11px ${this.theme().codeFont}`;
    context.textAlign = "center";
    context.fillText(choice.weight.toFixed(2).replace(/^0/, ""), x + width / 2 + 0.5, y + height / 2 + 1);
    context.textAlign = "left";
  }

  #paintGroupEdge(
    context: CanvasRenderingContext2D,
    recorded: Recorded,
    column: number,
    x: number,
    y: number,
    height: number,
    theme: Theme,
  ): void {
    if (column === 0 || groupOf(recorded, column) === groupOf(recorded, column - 1)) return;
    context.fillStyle = theme.text;
    context.fillRect(x - 0.5, y, 1.5, height);
  }

  #paintSelection(
    context: CanvasRenderingContext2D,
    { x, y, width, height }: Rect,
    row: boolean,
    column: boolean,
    theme: Theme,
  ): void {
    context.fillStyle = theme.focus;
    if (row) {
      context.fillRect(x, y, width, 2);
      context.fillRect(x, y + height - 2, width, 2);
    }
    if (column) {
      context.fillRect(x, y, 2, height);
      context.fillRect(x + width - 2, y, 2, height);
    }
  }

  #paintToken(context: CanvasRenderingContext2D, row: number, { x, y, height }: Rect): void {
    const { recorded, token, standing } = this.#shown as RoutingShown;
    const one = recorded.tokens[row];
    if (!one) return;
    const theme = this.theme();
    const now = row === token || row === standing.token;
    context.font = `${now ? "600 " : ""}12px ${theme.codeFont}`;
    context.fillStyle = theme.text;
    context.fillText(cutText(tokenText(one.token, recorded.texts), 6), x + 4, y + height / 2);
    context.fillStyle = theme.muted;
    context.font = `11px ${theme.uiFont}`;
    context.textAlign = "right";
    context.fillText(
      `${cutText(requestName(recorded, one.request), NAME)} @${one.position}`,
      x + leftOf(recorded) - 5,
      y + height / 2,
    );
    context.textAlign = "left";
  }

  #paintExpert(context: CanvasRenderingContext2D, column: number, { x, y, width, height }: Rect): void {
    const theme = this.theme();
    const every = width >= 30 ? 1 : Math.ceil(30 / width);
    if (column % every) return;
    context.fillStyle = column === this.#shown?.expert ? theme.text : theme.muted;
    context.font = `11px ${theme.uiFont}`;
    context.textAlign = every === 1 ? "center" : "left";
    context.fillText(`e${column}`, every === 1 ? x + width / 2 : x + 1, y + height / 2);
    context.textAlign = "left";
  }

  #describe({ row, column }: Cell): string | undefined {
    if (!this.#shown) return undefined;
    const { recorded, standing } = this.#shown;
    if (row >= standing.routed && row !== standing.token)
      return `${tokenName(recorded, row)}: not routed yet`;
    const score = recorded.scores[row * recorded.rule.experts + column] as number;
    const chosen = choicesOf(recorded, row).find(({ expert }) => expert === column);
    const group = groupOf(recorded, column);
    const lines = [
      tokenName(recorded, row),
      `expert ${column}${recorded.rule.groups > 1 ? `, group ${group}` : ""}: score ${score.toFixed(4)}`,
    ];
    if (recorded.rule.biased) lines.push(`with its bias ${choiceScore(recorded, row, column).toFixed(4)}`);
    if (!keepsGroup(recorded, row, group)) lines.push("its group is not among the best");
    if (chosen && row < standing.routed) lines.push(`chosen, weight ${chosen.weight.toFixed(4)}`);
    return lines.join("\n");
  }
}

/** Above zero, so that a scale up to it has a length. */
export function highest(scores: Numbers): number {
  let top = 1e-9;
  for (const score of scores) if (score > top) top = score; // no NaN: it would leave all others without a colour
  return top;
}
