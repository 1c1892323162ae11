// Choices sorted by expert and padded to whole blocks: a row per block, as a grouped GEMM's tiles take them.

import {
  type Cell,
  CellGrid,
  type Disposer,
  format,
  h,
  lookOf,
  type Rect,
  sharedPaint,
  type Theme,
  type Tooltip,
} from "@sglab/core";
import type { Recorded } from "./data";
import type { Standing } from "./steps";
import { tokenName } from "./words";

const HEIGHT = 20;
const LEFT = 92;
const WIDEST = 30;
const LEAST = 9;
const WITH_NUMBER = 20;

export interface BlocksShown {
  recorded: Recorded;
  standing: Standing;
  token: number | undefined;
  expert: number | undefined;
  width: number;
  height: number;
}

export class BlocksView {
  readonly element: HTMLElement;
  #grid: CellGrid;
  #note = h("p", { class: "sg-note" });
  #shown: BlocksShown | undefined;

  constructor(
    private theme: () => Theme,
    tooltip: Tooltip,
    disposer: Disposer,
    press: (token: number | undefined, expert: number) => void,
  ) {
    this.#grid = new CellGrid(
      {
        label: "sorted_token_ids, a row per block",
        theme,
        tooltip,
        paint: (context, cell, rect) => this.#paint(context, cell, rect),
        paintRowHeader: (context, row, rect) => this.#label(context, row, rect),
        describe: (cell) => this.#describe(cell),
        select: (cell) => {
          const expert = this.#shown?.recorded.blockExperts[cell.row] ?? -1;
          if (expert >= 0) press(this.#tokenAt(cell), expert);
        },
      },
      disposer,
    );
    this.element = h("div", {}, this.#note, this.#grid.element);
  }

  draw(shown: BlocksShown): void {
    const before = this.#shown;
    this.#shown = shown;
    const { recorded, width, height, standing } = shown;
    const { block } = recorded.shown;
    const cellWidth = Math.max(LEAST, Math.min(WIDEST, Math.floor((width - LEFT - 20) / block)));
    this.#note.textContent = blocksNote(recorded, cellWidth >= WITH_NUMBER);
    const geometry = {
      rows: recorded.blockExperts.length,
      columns: block,
      cellWidth,
      cellHeight: HEIGHT,
      headerWidth: LEFT,
      headerHeight: 0,
      maxHeight: height,
    };
    const now = this.#grid.geometry;
    if ((Object.keys(geometry) as (keyof typeof geometry)[]).every((key) => now[key] === geometry[key]))
      this.#grid.redraw();
    else this.#grid.setGeometry(geometry);
    if (before?.recorded === recorded && before.standing.blocks !== standing.blocks && standing.blocks)
      this.#grid.reveal({ row: standing.blocks - 1 });
  }

  #choiceAt({ row, column }: Cell): number {
    const { recorded } = this.#shown as BlocksShown;
    return recorded.sorted[row * recorded.shown.block + column] as number;
  }

  /** undefined: padding. */
  #tokenAt(cell: Cell): number | undefined {
    const { recorded } = this.#shown as BlocksShown;
    const choice = this.#choiceAt(cell);
    return choice < recorded.tokens.length * recorded.rule.topK
      ? Math.floor(choice / recorded.rule.topK)
      : undefined;
  }

  #paint(context: CanvasRenderingContext2D, cell: Cell, { x, y, width, height }: Rect): void {
    const { recorded, standing, token, expert } = this.#shown as BlocksShown;
    const theme = this.theme();
    context.strokeStyle = theme.border;
    context.lineWidth = 1;
    if (cell.row >= standing.blocks) {
      context.strokeRect(x + 0.5, y + 0.5, width, height);
      return;
    }
    const whose = recorded.blockExperts[cell.row] as number;
    const at = this.#tokenAt(cell);
    const look = lookOf(Math.max(0, whose), theme.dark);
    const paint = sharedPaint();
    context.fillStyle = at === undefined ? paint.empty(theme.muted) : look.fill;
    context.fillRect(x, y, width, height);
    context.strokeRect(x + 0.5, y + 0.5, width, height);
    if (at !== undefined && width >= WITH_NUMBER) {
      context.fillStyle = look.ink;
      context.font = `11px ${theme.codeFont}`;
      context.textAlign = "center";
      context.fillText(String(at), x + width / 2, y + height / 2 + 1, width - 2);
      context.textAlign = "left";
    }
    if (at !== undefined && at === token) {
      context.strokeStyle = theme.focus;
      context.lineWidth = 3;
      context.strokeRect(x + 2, y + 2, width - 3, height - 3);
    } else if (whose === expert) {
      context.fillStyle = theme.focus;
      context.fillRect(x, y, width, 2);
      context.fillRect(x, y + height - 2, width, 2);
    }
  }

  #label(context: CanvasRenderingContext2D, row: number, { x, y, height }: Rect): void {
    const { recorded, standing } = this.#shown as BlocksShown;
    const expert = recorded.blockExperts[row] as number;
    const theme = this.theme();
    context.fillStyle = theme.text;
    context.font = `12px ${theme.uiFont}`;
    const name = expert < 0 ? "elsewhere" : `expert ${expert}`;
    context.fillText(row < standing.blocks ? `${row}: ${name}` : String(row), x + 4, y + height / 2);
  }

  #describe(cell: Cell): string | undefined {
    if (!this.#shown) return undefined;
    const { recorded, standing } = this.#shown;
    if (cell.row >= standing.blocks) return `block ${cell.row}: not laid out yet`;
    const at = this.#tokenAt(cell);
    const place = `sorted_token_ids[${cell.row * recorded.shown.block + cell.column}] = ${this.#choiceAt(cell)}`;
    if (at === undefined) return `${place}\npadding: computes nothing that is kept`;
    return `${place}\nchoice ${this.#choiceAt(cell) % recorded.rule.topK} of token ${at}\n${tokenName(recorded, at)}`;
  }
}

/** "74 choices in 9 blocks: 144 rows, 70 of them padding (49 %). Numbers are tokens." */
export function blocksNote({ tokens, rule, postPad, blockExperts }: Recorded, numbered: boolean): string {
  const choices = tokens.length * rule.topK;
  const padding = postPad - choices;
  return `${format.plural(choices, "choice")} in ${format.plural(blockExperts.length, "block")}: num_tokens_post_pad is ${format.count(postPad)}, ${format.count(padding)} of it padding (${format.percent(postPad ? padding / postPad : 0)}).${numbered ? " Numbers are tokens." : ""}`;
}
