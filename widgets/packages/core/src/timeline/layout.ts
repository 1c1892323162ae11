// Where rows are. Pure.

import type { TimelineModel } from "./model";

export interface RowBox {
  y: number;
  height: number;
}

export interface GroupBox {
  name: string;
  y: number;
}

export interface Layout {
  rows: RowBox[];
  groups: GroupBox[];
  height: number;
}

export const AXIS_HEIGHT = 20;
export const GROUP_HEIGHT = 18;
const GAP = 2;

export function layoutOf({ rows }: Pick<TimelineModel, "rows">): Layout {
  const boxes: RowBox[] = [];
  const groups: GroupBox[] = [];
  let y = AXIS_HEIGHT;
  let group: string | undefined;
  for (const row of rows) {
    if (row.group !== group) {
      group = row.group;
      groups.push({ name: group, y });
      y += GROUP_HEIGHT;
    }
    boxes.push({ y, height: row.height });
    y += row.height + GAP;
  }
  return { rows: boxes, groups, height: y + 2 };
}

/** The height of every flexible row with which all of the timeline is `room` high, where there is such a height. */
export function flexibleHeight({ rows, heights }: TimelineModel, room: number): number | undefined {
  const flexible = rows.filter((row) => row.flexible);
  if (!heights || !flexible.length) return undefined;
  const taken = layoutOf({ rows }).height - flexible.reduce((sum, { height }) => sum + height, 0);
  return Math.max(heights.least, Math.min(heights.most, Math.floor((room - taken) / flexible.length)));
}

export function rowAtY({ rows }: Layout, y: number): number {
  return rows.findIndex((box) => y >= box.y && y < box.y + box.height + GAP);
}
