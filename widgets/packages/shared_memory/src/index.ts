// SharedMemory: a CTA's window, tiles as bytes and as matrices, descriptors to edit, banks, cp.async groups.

import type { Area, Launch, SHARED_MEMORY } from "./protocol";
import "@sglab/memory/memory.css";
import "./shared_memory.css";
import {
  type Context,
  defineWidget,
  framed,
  makeFrame,
  type TourStep,
  Transport,
  watchTheme,
} from "@sglab/core";
import { followSession } from "@sglab/memory/following";
import { parseElement, parseSmem, smem } from "./data";
import { elementAt } from "./layout";
import { Model } from "./model";
import { makeToolbar } from "./toolbar";
import { eventsOf, granularitiesOf, marksOf } from "./track";
import { makeView } from "./view";
import { momentSentence } from "./words";

const TOUR: TourStep[] = [
  {
    key: "ArrowRight",
    text: "to step: what was just touched is filled in the strip of all memory, in the row “now”.",
  },
  { key: "]", text: "to open the next tile; [ goes back." },
  { press: ".ssm-sides .sg-cells", text: "a chunk of 16 bytes: it is outlined in memory and in the matrix." },
  { key: "v", text: "to see values instead of places." },
  {
    key: "Escape",
    text: "to clear the selection. ? lists all keys; the tabs decode descriptors and bank conflicts.",
  },
];

function render({ el, source, selection, disposer }: Context<typeof SHARED_MEMORY>): void {
  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    onEscape: () => selection.set({}),
    tour: { name: "shared_memory", steps: TOUR },
    keys: () => [
      { keys: ["["], label: "previous tile", run: () => model.stepTile(-1) },
      { keys: ["]"], label: "next tile", run: () => model.stepTile(1) },
      {
        keys: ["/"],
        label: "go to an address",
        run: () => {
          frame.openMore();
          toolbar.focusAddress();
        },
      },
      { keys: ["v"], label: "places or values in the cells", run: model.toggleContent },
      { keys: ["o"], label: "light up the chunks in their order", run: () => view.playOrder() },
      { keys: ["Enter"], shown: "arrows, Enter", label: "in a grid: walk to a chunk, select it" },
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => redraw());
  const failed = (error: unknown) => frame.notify("error", (error as Error).message);
  const redrawFrame = framed(() => {
    view.draw();
    toolbar.show(model.editor.tile, model.content);
  });
  const redraw = () => redrawFrame.schedule();
  disposer.add(() => redrawFrame.cancel());

  const model = new Model(source, {
    redraw,
    relayout: () => view.relayout(),
    opened: () => view.opened(),
    failed,
  });
  const { openTile, stepTile, setContent, setFollow } = model;
  const toolbar = makeToolbar(source, disposer, { openTile, stepTile, setContent, setFollow, goTo, failed });
  frame.toolbar.append(...toolbar.parts);
  frame.more.append(...toolbar.more);
  const view = makeView({
    frame,
    model,
    theme,
    disposer,
    select,
    pickArea,
    goToAddress,
    redraw,
    goToEvent: (event) => following.goToEvent(event),
  });
  const resized = new ResizeObserver(redraw);
  resized.observe(frame.view);
  disposer.add(() => resized.disconnect());
  disposer.add(frame.roomChanged.on(() => view.refit()));

  function select(address: number): void {
    selection.set({ ...selection.value, address: smem(address), cta: model.launch?.cta }, frame);
    view.reveal(address);
  }

  function pickArea(area: Area): void {
    if (area.tile >= 0) {
      openTile(area.tile);
      return;
    }
    model.openArea(area, area.start);
    select(area.start - (area.start % 16));
  }

  function goTo(text: string): void {
    const place = parseElement(text);
    const address = parseSmem(text);
    const bytes = model.launch?.bytes ?? 0;
    if (place) goToElement(...place);
    else if (address !== undefined && address < bytes) {
      frame.clearNotice();
      goToAddress(address - (address % 16));
    } else {
      const forms = `write smem+0x… below 0x${bytes.toString(16)}, or row, column of the open tile`;
      failed(new Error(`“${text}” is no place here: ${forms}.`));
    }
  }

  function goToElement(row: number, column: number): void {
    const { layout } = model.editor;
    const element = elementAt(layout, row, column);
    if (!element) {
      const columns = (layout.chunks * 128) / layout.elementBits;
      const size = `${layout.down} 0 to ${layout.lines - 1}, ${layout.across} 0 to ${columns - 1}`;
      failed(new Error(`The open tile has no element [${row},${column}]: it has ${size}.`));
      return;
    }
    frame.clearNotice();
    select(element.chunk);
    model.element = element;
    redraw();
  }

  function goToAddress(chunk: number): void {
    model.openAt(chunk);
    select(chunk);
  }

  async function load(): Promise<void> {
    const launch = source.get("launch");
    frame.setHeader(source.get("header"));
    if (launch.empty) {
      frame.setFailure(launch.error);
      const remedy = "WarpRoles and KernelDebugger show what this launch does instead.";
      frame.setPlaceholder({ kind: "empty", text: launch.empty, remedy });
      toolbar.showLaunch(launch, []);
      transport.load({ length: 0, granularities: [{ id: "event", label: "event" }], describe: () => "" });
      return;
    }
    if (await model.load(launch)) startOver(launch);
    frame.setPlaceholder(null);
    model.showFrame(following.frame);
  }

  function startOver(launch: Launch): void {
    const { facts } = model;
    if (!facts) return;
    frame.setFailure(launch.error);
    const { moments, tiles } = facts;
    toolbar.showLaunch(launch, tiles);
    view.reset();
    following.steps({
      moments,
      granularities: granularitiesOf(moments),
      marks: marksOf(moments),
      describe: (position) =>
        position === 0 ? "Nothing has touched shared memory yet." : momentSentence(facts, position - 1),
      eventsOfSelection: () => eventsOf(moments, model.selected, model.editor.tile, tiles),
    });
  }

  const following = followSession({
    source,
    selection,
    disposer,
    transport,
    frame,
    load,
    show: () => model.showFrame(following.frame),
  });
  disposer.add(
    selection.on((value, origin) => {
      const mine = value.cta === undefined || value.cta === model.launch?.cta;
      const address = mine && value.address?.startsWith("smem") ? parseSmem(value.address) : undefined;
      const chunk = address === undefined ? undefined : address - (address % 16);
      if (chunk === model.selected) return;
      model.selected = chunk;
      if (origin !== frame && chunk !== undefined) model.openAt(chunk);
      redraw();
    }),
  );
  frame.setHeader(source.get("header"));
  frame.setPlaceholder({ kind: "loading", text: "Reading shared memory." });
  following.reload();
}

/** The address arithmetic of this page, for the tests that hold it against the emulator's. */
export * as arithmetic from "./arithmetic";
export default defineWidget<typeof SHARED_MEMORY>({ name: "shared_memory", version: 2, render });
