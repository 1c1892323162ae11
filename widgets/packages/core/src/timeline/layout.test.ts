import { expect, test } from "vitest";
import { barWithId, hitAt, spanOf, waitWithId } from "./hits";
import { AXIS_HEIGHT, flexibleHeight, GROUP_HEIGHT, layoutOf, rowAtY } from "./layout";
import type { TimelineModel } from "./model";
import type { Spans } from "./spans";

const line = (start: number, end: number, id: number): Spans => ({
  size: 1,
  start: Float64Array.of(start),
  end: Float64Array.of(end),
  look: Uint8Array.of(0),
  id: Uint32Array.of(id),
});
const row = (group: string, lanes: Spans[], waits?: Spans) => ({
  label: "",
  title: "",
  group,
  lanes,
  waits,
  height: 20,
});
const MODEL = {
  length: 100,
  rows: [
    row("CTA 0", [line(0, 10, 7), line(40, 50, 8)]),
    row("CTA 0", [line(20, 30, 9)], line(60, 90, 3)),
    row("CTA 1", []),
  ],
} as unknown as TimelineModel;
const layout = layoutOf(MODEL);

test("rows are below the axis and their group's heading, and do not overlap", () => {
  expect(layout.groups.map(({ name }) => name)).toEqual(["CTA 0", "CTA 1"]);
  expect(layout.rows[0]?.y).toBe(AXIS_HEIGHT + GROUP_HEIGHT);
  const boxes = [...layout.rows, ...layout.groups.map(({ y }) => ({ y, height: GROUP_HEIGHT }))];
  boxes.sort((a, b) => a.y - b.y);
  for (const [i, box] of boxes.entries())
    expect(box.y + box.height).toBeLessThanOrEqual(boxes[i + 1]?.y ?? layout.height);
});

test("a height leads to its row, and a heading's to none", () => {
  layout.rows.forEach(({ y, height }, i) => {
    expect([rowAtY(layout, y), rowAtY(layout, y + height - 1)]).toEqual([i, i]);
  });
  for (const { y } of layout.groups) expect(rowAtY(layout, y + 1)).toBe(-1);
});

test("a place leads to the bar of its lane, then to a wait, then to what is near", () => {
  const y = (index: number, share: number) => (layout.rows[index]?.y as number) + 20 * share;
  expect(hitAt(MODEL, layout, 5, y(0, 0.2), 0)).toMatchObject({ row: 0, layer: "bar", lane: 0, id: 7 });
  expect(hitAt(MODEL, layout, 45, y(0, 0.8), 0)).toMatchObject({ lane: 1, id: 8 });
  expect(hitAt(MODEL, layout, 45, y(0, 0.2), 0)).toBeUndefined();
  expect(hitAt(MODEL, layout, 70, y(1, 0.5), 0)).toMatchObject({ layer: "wait", id: 3 });
  expect(hitAt(MODEL, layout, 32, y(1, 0.5), 3)).toMatchObject({ layer: "bar", id: 9 });
  expect(hitAt(MODEL, layout, 5, y(2, 0.5), 3)).toBeUndefined();
});

test("an id leads to its span, and a span to its place on the axis", () => {
  const bar = barWithId(MODEL, 0, 8);
  const wait = waitWithId(MODEL, 1, 3);
  expect([bar && spanOf(MODEL, bar), wait && spanOf(MODEL, wait)]).toEqual([
    { start: 40, end: 50 },
    { start: 60, end: 90 },
  ]);
  expect([barWithId(MODEL, 1, 8), waitWithId(MODEL, 0, 3)]).toEqual([undefined, undefined]);
});

test("flexible rows take the height with which all of the timeline fits, within their limits", () => {
  const one = (flexible: boolean, height: number) => ({ ...row("CTA 0", []), height, flexible });
  const rows = [one(true, 17), one(true, 17), one(false, 36)];
  const model = { ...MODEL, rows, heights: { least: 12, most: 17 } };
  const fixed = layoutOf(model).height - 2 * 17;
  expect(flexibleHeight(model, fixed + 2 * 14)).toBe(14);
  expect(flexibleHeight(model, fixed + 2 * 14 + 1)).toBe(14);
  expect(flexibleHeight(model, 10)).toBe(12);
  expect(flexibleHeight(model, 4000)).toBe(17);
  expect(flexibleHeight({ ...model, rows: [one(false, 36)] }, 100)).toBeUndefined();
});
