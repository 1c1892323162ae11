// Drawing one CTA's tensor memory. What is drawn follows from the arguments alone.

import { sharedPaint, type Theme } from "@sglab/core";
import { inkFor } from "@sglab/memory/cividis";
import { firstNumber, textOf } from "@sglab/memory/words";
import { NOTHING } from "./cells";
import { COLUMNS, LANES, QUARTER } from "./data";
import { LEFT, paintHeads, TOP } from "./heads";
import { type Category, categoryOf } from "./looks";
import type { Kind } from "./reading";
import type { Box, BoxOf, Scene } from "./scene";
import { type Size, scaleOf } from "./viewport";

const TEXT_FROM = 30; // px of cell width from which values are written
const CROSS_FROM = 7;

export function paintMap(context: CanvasRenderingContext2D, scene: Scene, size: Size): void {
  const plot = { width: size.width - LEFT, height: size.height - TOP };
  const scale = scaleOf(scene.viewport, plot);
  // Whole pixels, so that neighbours leave no seam.
  const x = (column: number) => Math.round(LEFT + (column - scene.viewport.column) * scale.width);
  const y = (lane: number) => Math.round(TOP + (lane - scene.viewport.lane) * scale.height);
  const boxOf = (lane: number, lanes: number, column: number, columns: number): Box => ({
    x: x(column),
    y: y(lane),
    width: x(column + columns) - x(column),
    height: y(lane + lanes) - y(lane),
  });
  context.save();
  context.beginPath();
  context.rect(LEFT, TOP, plot.width, plot.height);
  context.clip();
  paintGround(context, scene, boxOf);
  if (scene.mode === "values") paintValues(context, scene, boxOf, scale, plot);
  else paintCategories(context, scene, boxOf);
  paintQuarters(context, scene, boxOf);
  paintMarks(context, scene, boxOf);
  context.restore();
  paintHeads(context, scene, boxOf, size);
}

function fill(context: CanvasRenderingContext2D, { x, y, width, height }: Box): void {
  context.fillRect(x, y, width, height);
}

function outline(context: CanvasRenderingContext2D, box: Box, color: string, width: number): void {
  context.strokeStyle = color;
  context.lineWidth = width;
  const inset = width / 2;
  context.strokeRect(
    box.x + inset,
    box.y + inset,
    Math.max(1, box.width - width),
    Math.max(1, box.height - width),
  );
}

/** Free columns are plain, allocated ones hatched until something is written there. */
function paintGround(context: CanvasRenderingContext2D, scene: Scene, boxOf: BoxOf): void {
  context.fillStyle = scene.theme.surface;
  fill(context, boxOf(0, LANES, 0, COLUMNS));
  for (const { column, columns } of scene.allocations) {
    const box = boxOf(0, LANES, column, columns);
    context.fillStyle = scene.theme.background;
    fill(context, box);
    context.fillStyle = sharedPaint().empty(scene.theme.muted);
    fill(context, box);
  }
}

function paintCategories(context: CanvasRenderingContext2D, scene: Scene, boxOf: BoxOf): void {
  const labels = new Map<string, { category: Category; box: Box; around: Box; area: number }>();
  for (const r of scene.regions) {
    if (r.cta !== scene.rank) continue;
    const category = categoryOf(scene.facts, scene.mode, r, scene.theme.dark);
    if (!category) continue;
    const box = boxOf(r.lane, r.lanes, r.column, r.columns);
    context.fillStyle = sharedPaint().fill(category.look);
    fill(context, box);
    const area = box.width * box.height;
    const known = labels.get(category.key);
    if (!known) {
      labels.set(category.key, { category, box, around: box, area });
      continue;
    }
    // of parts of one size the first, whatever rounding says
    if (area > 1.01 * known.box.width * known.box.height) known.box = box;
    known.around = union(known.around, box);
    known.area += area;
  }
  for (const { category, box, around, area } of labels.values()) {
    const whole = area > 0.98 * around.width * around.height; // its parts are one rectangle
    paintLabel(context, scene.theme, category, whole ? around : box);
  }
}

function union(one: Box, other: Box): Box {
  const [x, y] = [Math.min(one.x, other.x), Math.min(one.y, other.y)];
  const right = Math.max(one.x + one.width, other.x + other.width);
  const bottom = Math.max(one.y + one.height, other.y + other.height);
  return { x, y, width: right - x, height: bottom - y };
}

function paintLabel(context: CanvasRenderingContext2D, theme: Theme, category: Category, box: Box): void {
  context.font = `11px ${theme.uiFont}`;
  const width = context.measureText(category.label).width + 8;
  if (width > box.width || box.height < 16) return;
  const x = Math.max(LEFT + 2, box.x + 2);
  const y = Math.max(TOP + 2, box.y + 2);
  context.fillStyle = theme.background;
  context.fillRect(x, y, width, 14);
  context.fillStyle = theme.text;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(category.label, x + 4, y + 7.5);
}

function paintValues(
  context: CanvasRenderingContext2D,
  scene: Scene,
  boxOf: BoxOf,
  scale: Size,
  plot: Size,
): void {
  const { picture, viewport } = scene;
  if (picture) {
    const x = LEFT - viewport.column * scale.width;
    const y = TOP - viewport.lane * scale.height;
    context.imageSmoothingEnabled = scale.width < 1 || scale.height < 1;
    context.drawImage(picture.canvas, x, y, COLUMNS * scale.width, LANES * scale.height);
  }
  if (scale.width >= CROSS_FROM) paintNans(context, picture?.nans ?? [], boxOf);
  if (scale.width >= TEXT_FROM && scale.height >= 11) paintTexts(context, scene, boxOf, scale, plot);
}

function paintNans(context: CanvasRenderingContext2D, nans: readonly number[], boxOf: BoxOf): void {
  context.strokeStyle = "#ffffff";
  context.lineWidth = 1;
  context.beginPath();
  for (let i = 0; i < nans.length; i += 2) {
    const { x, y, width, height } = boxOf(nans[i] as number, 1, nans[i + 1] as number, 1);
    context.moveTo(x + 1, y + 1);
    context.lineTo(x + width - 1, y + height - 1);
    context.moveTo(x + width - 1, y + 1);
    context.lineTo(x + 1, y + height - 1);
  }
  context.stroke();
}

function paintTexts(
  context: CanvasRenderingContext2D,
  scene: Scene,
  boxOf: BoxOf,
  scale: Size,
  plot: Size,
): void {
  const { viewport, written, read, kinds, ranges } = scene;
  const lastColumn = Math.min(COLUMNS, Math.ceil(viewport.column + plot.width / scale.width));
  const lastLane = Math.min(LANES, Math.ceil(viewport.lane + plot.height / scale.height));
  context.font = `11px ${scene.theme.codeFont}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let column = Math.floor(viewport.column); column < lastColumn; column++) {
    const words = scene.words(column);
    for (let lane = Math.floor(viewport.lane); words && lane < lastLane; lane++) {
      const word = words[lane] as number;
      const number = read[column * LANES + lane] as number;
      const { format } = kinds[number] as Kind;
      const value = firstNumber(word, format);
      if (!written[column * LANES + lane] || Number.isNaN(value)) continue;
      const box = boxOf(lane, 1, column, 1);
      context.fillStyle = inkFor(value, ranges[number] ?? NOTHING);
      context.fillText(
        textOf(word, format),
        box.x + box.width / 2,
        box.y + box.height / 2 + 0.5,
        box.width - 2,
      );
    }
  }
}

/** The quarter of the lanes that a warp may access: warp % 4. */
function paintQuarters(context: CanvasRenderingContext2D, scene: Scene, boxOf: BoxOf): void {
  context.strokeStyle = scene.theme.text;
  context.lineWidth = 1;
  context.setLineDash([5, 4]);
  for (let lane = QUARTER; lane < LANES; lane += QUARTER) {
    const { x, y, width } = boxOf(lane, 1, 0, COLUMNS);
    context.beginPath();
    context.moveTo(x, Math.round(y) + 0.5);
    context.lineTo(x + width, Math.round(y) + 0.5);
    context.stroke();
  }
  context.setLineDash([]);
}

function paintMarks(context: CanvasRenderingContext2D, scene: Scene, boxOf: BoxOf): void {
  const { theme, quarter } = scene;
  if (quarter !== undefined) {
    context.globalAlpha = 0.55;
    context.fillStyle = theme.background;
    for (let other = 0; other < 4; other++)
      if (other !== quarter) fill(context, boxOf(other * QUARTER, QUARTER, 0, COLUMNS));
    context.globalAlpha = 1;
  }
  for (const [lane, lanes, column, columns] of scene.touched as [number, number, number, number][]) {
    const box = boxOf(lane, lanes, column, columns);
    outline(context, box, theme.background, 4);
    outline(context, box, theme.text, 2);
  }
  const tile = scene.selectedTile;
  if (tile)
    for (const [rank, lane, lanes, column, columns] of tile.blocks as [
      number,
      number,
      number,
      number,
      number,
    ][]) {
      if (rank !== scene.rank) continue;
      context.setLineDash([6, 3]);
      outline(context, boxOf(lane, lanes, column, columns), theme.focus, 2);
      context.setLineDash([]);
    }
  if (scene.selected)
    outlineCell(context, boxOf(scene.selected.lane, 1, scene.selected.column, 1), theme, []);
  if (scene.cursor) outlineCell(context, boxOf(scene.cursor.lane, 1, scene.cursor.column, 1), theme, [3, 2]);
}

/** Tiny cells are marked by a frame around them. */
function outlineCell(context: CanvasRenderingContext2D, box: Box, theme: Theme, dash: number[]): void {
  const width = Math.max(8, box.width + 4);
  const height = Math.max(8, box.height + 4);
  const around = { x: box.x + (box.width - width) / 2, y: box.y + (box.height - height) / 2, width, height };
  outline(context, around, theme.background, 4);
  context.setLineDash(dash);
  outline(context, around, theme.focus, 2);
  context.setLineDash([]);
}
