import type { AnyModel } from "@anywidget/types";
import type { Common, Traits } from "@sglab/protocol";
import { expect, test } from "vitest";
import { Disposer } from "./emitter";
import { mirrorSelection, selectTold } from "./mirror";
import { selectionStore } from "./selection";

let scopes = 0;

/** Several widgets of one kernel on a page; `sent` names who has told Python what. */
function page(count: number) {
  const store = selectionStore(`mirror.test ${scopes++}`);
  const sent: [number, object][] = [];
  const widgets = Array.from({ length: count }, (_, number) => {
    let selected: object = {};
    const heard = new Set<() => void>();
    const widget = { alive: true, mount, python, disposer: new Disposer() };
    const model = {
      get: () => selected,
      set: (_: string, value: object) => {
        selected = value;
      },
      save_changes: () => sent.push([number, selected]),
      on: (_: string, listener: () => void) => heard.add(listener),
      off: (_: string, listener: () => void) => heard.delete(listener),
    };
    function mount() {
      widget.disposer = new Disposer();
      const mirrored = model as unknown as AnyModel<Traits<Common>>;
      mirrorSelection(mirrored, store, widget.disposer, () => widget.alive);
    }
    function python(value: object) {
      selected = value;
      for (const listener of heard) listener();
    }
    mount();
    return widget;
  });
  return { store, widgets, sent };
}

test("what is selected on the page is told once, however many widgets there are", () => {
  const { store, sent } = page(20);
  store.set({ moment: 3 }, {});
  expect(sent).toEqual([[0, { moment: 3, by: "page" }]]);
  store.set({ moment: 4 }, {});
  store.set({ moment: 3 }, {});
  expect(sent.map(([, value]) => value)).toEqual([3, 4, 3].map((moment) => ({ moment, by: "page" })));
});

test("one that cannot reach Python, or has gone, leaves it to the next", () => {
  const { store, widgets, sent } = page(3);
  widgets[0]?.disposer.dispose();
  if (widgets[1]) widgets[1].alive = false;
  store.set({ cta: 1 }, {});
  expect(sent).toEqual([[2, { cta: 1, by: "page" }]]);
});

test("what Python selects is shown, and nobody sends it back", () => {
  const { store, widgets, sent } = page(3);
  for (const widget of widgets) widget.python({ warp: 2, by: "python", turn: 1 });
  expect(store.value).toEqual({ warp: 2 });
  store.set({ warp: 3 }, {});
  for (const widget of widgets) widget.python({ warp: 2, by: "python", turn: 2 });
  expect(store.value).toEqual({ warp: 2 });
  expect(sent).toEqual([[0, { warp: 3, by: "page" }]]);
});

test("a view that is made again does not bring back what the page has cleared since", () => {
  const { store, widgets } = page(2);
  for (const widget of widgets) widget.python({ warp: 2, by: "python", turn: 1 });
  store.set({}, {});
  widgets[1]?.disposer.dispose();
  widgets[1]?.mount();
  expect(store.value).toEqual({});
  widgets[1]?.python({ warp: 5, by: "python", turn: 2 });
  expect(store.value).toEqual({ warp: 5 });
});

test("a view that is made after Python has selected shows it", () => {
  const { store, widgets } = page(1);
  widgets[0]?.disposer.dispose();
  widgets[0]?.python({ warp: 2, by: "python", turn: 1 });
  widgets[0]?.mount();
  expect(store.value).toEqual({ warp: 2 });
});

test("what a command has told Python is not told again, and counts for a view that is made later", () => {
  const { store, widgets, sent } = page(2);
  for (const widget of widgets) widget.python({ warp: 2, by: "python", turn: 1 });
  selectTold(() => store.set({ moment: 4 }, {}));
  expect(sent).toEqual([]);
  widgets[1]?.disposer.dispose();
  widgets[1]?.mount();
  store.set({ moment: 5 }, {});
  expect(sent.map(([, value]) => value)).toEqual([{ moment: 5, by: "page" }]);
});
