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

export function layoutOf({ rows }: TimelineModel): Layout {
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

export function rowAtY({ rows }: Layout, y: number): number {
  return rows.findIndex((box) => y >= box.y && y < box.y + box.height + GAP);
}
