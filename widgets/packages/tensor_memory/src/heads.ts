// What is beside and above a map: lanes with the warps that reach them, columns with the allocations.

import { COLUMNS, LANES, QUARTER } from "./data";
import type { BoxOf, Scene } from "./scene";
import type { Size } from "./viewport";
import { warpList, warpsOfLane } from "./words";

export const LEFT = 58;
export const TOP = 40;

export function paintHeads(context: CanvasRenderingContext2D, scene: Scene, boxOf: BoxOf, size: Size): void {
  context.font = `11px ${scene.theme.uiFont}`;
  context.fillStyle = scene.theme.muted;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillText("column", LEFT - 4, TOP - 26);
  context.fillText("lane", LEFT - 4, TOP - 12);
  paintLanes(context, scene, boxOf, size);
  paintColumns(context, scene, boxOf, size);
}

function paintLanes(context: CanvasRenderingContext2D, scene: Scene, boxOf: BoxOf, size: Size): void {
  const { theme } = scene;
  context.save();
  context.beginPath();
  context.rect(0, TOP, LEFT, size.height - TOP);
  context.clip();
  context.textBaseline = "middle";
  context.textAlign = "right";
  const high = boxOf(0, 1, 0, 1).height;
  const every = [1, 2, 4, 8, 16, 32].find((step) => step * high >= 13) ?? 32;
  context.font = `11px ${theme.uiFont}`;
  context.fillStyle = theme.muted;
  for (let lane = 0; lane < LANES; lane += every) {
    const { y, height } = boxOf(lane, 1, 0, 1);
    const middle = every === 1 ? y + height / 2 : y + 6;
    if (middle > TOP + 5 && middle < size.height - 5) context.fillText(String(lane), LEFT - 4, middle);
  }
  const texts = [0, 1, 2, 3].map((quarter) =>
    warpList(warpsOfLane(quarter * QUARTER, scene.facts.launch.warpsPerCta)),
  );
  const { height: whole } = boxOf(0, QUARTER, 0, 1);
  context.font = `11px ${theme.uiFont}`;
  const long = texts.every((text) => context.measureText(text).width < whole); // all in the same words
  for (let quarter = 0; quarter < 4; quarter++) {
    const { y, height } = boxOf(quarter * QUARTER, QUARTER, 0, 1);
    const top = Math.max(TOP, y);
    const bottom = Math.min(size.height, y + height);
    if (bottom - top < 40) continue;
    context.save();
    context.translate(9, (top + bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillStyle = theme.text;
    const warps = texts[quarter] as string;
    const text = long ? warps : warps.replace(/^warps? /, "w ");
    const fits = context.measureText(text).width < bottom - top;
    context.fillText(fits ? text : `w%4=${quarter}`, 0, 0);
    context.restore();
  }
  context.restore();
}

function paintColumns(context: CanvasRenderingContext2D, scene: Scene, boxOf: BoxOf, size: Size): void {
  const { theme } = scene;
  context.save();
  context.beginPath();
  context.rect(LEFT, 0, size.width - LEFT, TOP);
  context.clip();
  context.font = `11px ${theme.uiFont}`;
  context.textBaseline = "middle";
  for (const { number, column, columns } of scene.allocations) {
    const { x, width } = boxOf(0, 1, column, columns);
    context.strokeStyle = theme.text;
    context.lineWidth = 1;
    context.strokeRect(Math.round(x) + 1.5, 1.5, Math.round(width) - 3, 15);
    context.fillStyle = theme.text;
    context.textAlign = "left";
    const from = Math.max(LEFT, x) + 5;
    const label = `allocation ${number}: ${columns} ${columns === 1 ? "column" : "columns"}`;
    const short = `#${number}`;
    const room = Math.min(size.width, x + width) - from - 4;
    const text = [label, short].find((each) => context.measureText(each).width <= room);
    if (text) context.fillText(text, from, 9.5);
  }
  const wide = boxOf(0, 1, 0, 1).width;
  const every = [1, 2, 4, 8, 16, 32, 64, 128].find((step) => step * wide >= 36) ?? 128;
  context.textAlign = "left";
  context.fillStyle = theme.muted;
  context.strokeStyle = theme.border;
  for (let column = 0; column < COLUMNS; column += every) {
    const { x } = boxOf(0, 1, column, 1);
    if (x < LEFT - 1 || x > size.width) continue;
    context.fillRect(Math.round(x), TOP - 5, 1, 5);
    context.fillText(String(column), x + 3, TOP - 12);
  }
  context.restore();
}
