import { expect, test } from "vitest";
import { FAILED, Relations } from "./relations";
import { smallLaunch } from "./testing/small_launch";

const relations = new Relations(smallLaunch());
const [FULL, EMPTY] = [0, 1];
const COPY = 2;
const WAITED = 7;
const ARRIVED = 12;
const FOUND_IT_OVER = 14;

test("a phase belongs to the event that ended it, or issued what did", () => {
  expect([COPY, ARRIVED, WAITED].map((event) => relations.phasesEndedBy(event))).toEqual([[0], [1], []]);
});

test("who had waited is distinguished from who found the phase over", () => {
  expect(relations.releasedBy(0)).toEqual([{ event: WAITED, wait: 0 }]);
  expect(relations.releasedBy(1)).toEqual([{ event: FOUND_IT_OVER, wait: undefined }]);
});

test("an event could proceed because of what ended the phase it passed", () => {
  expect([WAITED, FOUND_IT_OVER, COPY].map((event) => relations.causeOf(event))).toEqual([
    COPY,
    ARRIVED,
    undefined,
  ]);
});

test("every action, wait and operation is found by its event", () => {
  expect(relations.actionOf(ARRIVED)).toBe(3);
  expect(relations.waitOf(WAITED)).toBe(0);
  expect(relations.operationOf(COPY)).toBe(0);
  expect([relations.actionOf(8), relations.waitOf(8), relations.operationOf(8)]).toEqual([
    undefined,
    undefined,
    1,
  ]);
});

test("a barrier's actions and phases come in order; who only made it has no part in it", () => {
  expect(relations.actionsOn(FULL)).toEqual([0, 1, 2]);
  expect(relations.phasesOf(EMPTY)).toEqual([1]);
  expect(relations.actionsOn(2)).toEqual([]);
  expect([...relations.rowsAt(FULL)].sort()).toEqual([0, 1]);
  expect([...relations.rowsAt(2)]).toEqual([]);
});

test("a test that is made again because the one before failed is told once", () => {
  const launch = smallLaunch();
  const passed = Int32Array.of(-1, FAILED, FAILED, FAILED, 0);
  const event = Int32Array.of(0, 7, 8, 11, 12); // warp 1 tests twice, warp 0 between, warp 1 passes
  const barrier = new Int32Array(5);
  const spinning = new Relations({ ...launch, actions: { ...launch.actions, event, barrier, passed } });
  expect(spinning.actionsOn(0)).toEqual([0, 1, 2, 3, 4]);
  expect(spinning.toldActionsOn(0)).toEqual([0, 1, 3, 4]);
});
