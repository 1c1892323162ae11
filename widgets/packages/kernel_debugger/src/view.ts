// What the widget shows of a moment, and what its controls, keys and the notebook's selection do.

import {
  type Disposer,
  type Frame,
  format,
  h,
  historyOf,
  type KeyBinding,
  makeSplitter,
  missedMoment,
  type SelectionStore,
  selectTold,
  Tabs,
  type Theme,
  type WhenInSight,
} from "@sglab/core";
import type { CodeModel, SourcePlace } from "./code_model";
import { CodeView } from "./code_view";
import { Controls } from "./controls";
import type { Driver } from "./driver";
import { findingsPanel } from "./findings_view";
import { replaceKeepingFocus } from "./kept_children";
import { keyBindings } from "./key_bindings";
import { barriersPanel, type Edit, flightPanel, outputPanel, type Refused, stopsPanel } from "./panels";
import type { DebuggerSource, KeptStop, Party, State, StopPoint } from "./protocol";
import { RegistersView } from "./registers_view";
import type { SessionTransport } from "./session_transport";
import { warpName } from "./warp_looks";
import { type ChosenBy, WarpsView } from "./warps_view";
import { WatchesView } from "./watches_view";
import { barrierKey, errorText, maskText } from "./words";

const LEAST_LOWER = 60; // px

export interface ViewParts {
  frame: Frame;
  source: DebuggerSource;
  selection: SelectionStore;
  disposer: Disposer;
  transport: SessionTransport;
  driver: Driver;
  code: CodeModel;
  theme: () => Theme;
  inSight: WhenInSight;
}

export interface View {
  open(): Promise<void>;
  keys(): KeyBinding[];
  escape(): void;
  repaint(): void;
}

function keptStops(state: State | undefined): KeptStop[] {
  return (state?.stops ?? []).map(({ id, cta, warp, when, enabled }) => ({ id, cta, warp, when, enabled }));
}

export function makeView({
  frame,
  source,
  selection,
  disposer,
  transport,
  driver,
  code,
  theme,
  inSight,
}: ViewParts): View {
  const { live } = driver.backend;
  const look = driver.look;
  let shownPc: string | undefined;
  let hadFailed = false;
  /** Whose choice the focused warp is, until Esc. */
  let chosenBy: ChosenBy = "reader";
  /** The line to which a run was asked to go. */
  let asked: Partial<SourcePlace> | undefined;
  /** Whether the next state is to show a moment that was selected elsewhere. */
  let following = false;
  let announced: number | undefined;

  const history = historyOf(disposer);
  /** Ctrl+Z takes it back. */
  const edit: Edit = async (name, options, failed) => {
    const before = keptStops(driver.state);
    await driver.ask("edit_stops", { edit: name, ...options }, failed);
    const after = keptStops(driver.state);
    const putBack = (points: KeptStop[], now: KeptStop[]) =>
      driver.ask("edit_stops", { edit: "put_back", points, instead: now.map(({ id }) => id) });
    if (JSON.stringify(before) !== JSON.stringify(after))
      history.did({ undo: () => putBack(before, after), redo: () => putBack(after, before) });
  };
  const watch = (expression: string, failed?: (error: unknown) => void) =>
    driver.ask("watch", { expression }, failed);
  const unwatch = (expression: string) => driver.ask("unwatch", { expression });

  const codes = new CodeView(
    source,
    code,
    {
      toggleSource: (file, line) => edit("toggle_line", { file, line }),
      togglePtx: (line) => edit("toggle_ptx", { line }),
      failed: (error) => frame.notify("error", (error as Error).message),
    },
    disposer,
  );
  const warps = new WarpsView(
    code,
    {
      focus: (cta, warp, group) => focus(cta, warp, group, true),
      other: (cta) => focus(cta, 0, 0, true),
    },
    disposer,
  );
  const registers = new RegistersView(
    disposer,
    theme,
    frame.tooltip,
    live ? (register) => driver.go("write_back", { register }) : undefined,
  );
  const watches = new WatchesView(
    live,
    {
      add: async (expression) => {
        let wrong = "";
        const before = driver.state?.watches.length;
        await watch(expression, (error) => {
          wrong = (error as Error).message;
        });
        const made = driver.state?.watches.at(-1)?.expression;
        if (!wrong && made && driver.state?.watches.length !== before)
          history.did({ undo: () => unwatch(made), redo: () => watch(made) });
        return wrong;
      },
      remove: async (expression) => {
        await unwatch(expression);
        history.did({ undo: () => watch(expression), redo: () => unwatch(expression) });
      },
      stop: (expression) => edit("add_watch", { expression, access: "write" }),
      select: (address) => selection.set({ ...selection.value, address }, frame),
      show: ({ at, other }) => at && showParty(at, other),
    },
    disposer,
  );
  const panel = () => h("div", { class: "kd-panel" });
  const panels = {
    findings: panel(),
    stops: panel(),
    memory: panel(),
    barriers: panel(),
    flight: panel(),
    output: panel(),
  };
  panels.memory.append(watches.element);
  const refused: Refused = new Map();
  const makePanel: Record<string, (state: State) => HTMLElement[]> = {
    stops: (state) => stopsPanel(state, live, edit, showStop, refused, () => showPanel("stops")),
    barriers: (state) =>
      barriersPanel(state, live, selection.value.barrier, edit, ({ cta, offset }) =>
        selection.set({ ...selection.value, cta, barrier: barrierKey(cta, offset) }, frame),
      ),
    flight: (state) => flightPanel(state, code, (pc) => void codes.reveal(pc)),
    findings: (state) =>
      findingsPanel(state, code, {
        show: showParty,
        seek: (position) => transport.goTo(position),
        focus: (cta, warp) => focus(cta, warp, 0, true),
        watch: live ? watchFound : undefined,
      }),
    output: outputPanel,
  };

  const tabs = new Tabs(
    [
      { id: "stops", label: "Breakpoints", panel: panels.stops },
      { id: "memory", label: "Memory", panel: panels.memory },
      { id: "barriers", label: "Barriers", panel: panels.barriers },
      { id: "flight", label: "In flight", panel: panels.flight },
      { id: "findings", label: "Findings", panel: panels.findings },
      { id: "output", label: "Output", panel: panels.output },
    ],
    "What else there is",
    disposer,
    (id) => showPanel(id),
  );
  const controls = new Controls(live, code.hasSource, {
    ptx: (shown) => codes.showPtx(shown),
    run: () => driver.go("run"),
    runBack: () => driver.go("run_back"),
    toCursor: () => toCursor("to"),
    force: () => driver.go("force"),
    search: () => codes.active.openFinder(),
    halt: () => driver.halt(),
    measure: () => void driver.ask("measure", { seconds: 5 }),
  });
  frame.root.classList.add("kd-debugger");
  frame.toolbar.append(...controls.parts);
  frame.more.append(...controls.more);
  const lower = h("div", { class: "kd-lower" }, registers.element, tabs.element);
  const bar = makeSplitter(
    {
      label: "Height of registers and panels",
      axis: "y",
      pane: lower,
      after: true,
      least: LEAST_LOWER,
      size: (pixels) => {
        if (pixels === undefined) frame.root.style.removeProperty("--kd-lower");
        else frame.root.style.setProperty("--kd-lower", `${pixels}px`);
      },
    },
    disposer,
  );
  frame.view.append(codes.element, bar, lower);
  if (code.hasSource) transport.setGranularity("line");
  frame.details.append(warps.element);

  /** Looks at a warp; `pinned` until Esc. */
  function focus(cta: number, warp: number, group: number, publish: boolean): void {
    Object.assign(look, { cta, warp, group });
    chosenBy = "reader";
    shownPc = undefined;
    if (publish) selection.set({ ...selection.value, cta, warp, moment: driver.state?.position }, frame);
    driver.refresh();
  }

  function unpin(): void {
    for (const name of ["cta", "warp", "group"] as const) delete look[name];
    shownPc = undefined;
  }

  function nextWarp(step: number): void {
    const state = driver.state;
    if (!state?.warps.length) return;
    const here = state.warps.findIndex(
      ({ cta, warp }) => cta === state.focus?.[0] && warp === state.focus[1],
    );
    const next = state.warps[(here + step + state.warps.length) % state.warps.length];
    if (next) focus(next.cta, next.warp, 0, true);
  }

  function toCursor(action: "to" | "back_to"): void {
    const { cursor } = codes;
    asked = cursor && "file" in cursor ? cursor : undefined;
    if (cursor) driver.go(action, cursor);
    else frame.notify("info", "Press a line of the source or the PTX first: that is where the run goes to.");
  }

  function fold(): void {
    codes.active.folded = !codes.active.folded;
  }

  function showParty(party: Party, other: Party | null): void {
    codes.markParties([party, other]);
    Object.assign(look, { cta: party.cta, warp: party.warp, group: 0 });
    chosenBy = "reader";
    driver.go("seek", { position: party.position, ahead: true });
    if (party.pc >= 0) void codes.reveal(party.pc);
  }

  function watchFound(expression: string): void {
    tabs.open("memory");
    void watches.add(expression);
  }

  function showStop(stop: StopPoint): void {
    const [line] = stop.lines;
    if (stop.place.line !== undefined) void codes.revealPlace(stop.place);
    else if (line !== undefined) void codes.revealPlace({ ptx: line });
  }

  function show(state: State): void {
    if (state.yields) unpin();
    const focusOf = state.focus;
    const warp = state.warps.find((each) => each.cta === focusOf?.[0] && each.warp === focusOf[1]);
    const group = warp?.groups[focusOf?.[2] ?? 0];
    const pc = group?.[0] ?? state.last?.[2];
    const at = `${focusOf} ${pc}`;
    const stop = state.stops.find(({ id }) => id === state.stoppedBy);
    codes.show(state, at !== shownPc && !state.job, stop?.place ?? asked);
    if (!state.job) {
      shownPc = at;
      asked = undefined;
      showSelected(state);
    }
    transport.settle(state, sentenceOf(state));
    controls.show(state, live);
    const kept = look.cta === state.focus?.[0] && look.warp === state.focus?.[1]; // it may not run at this moment
    warps.show(state, look.cta !== undefined && kept ? chosenBy : undefined);
    const lanes = group && warp && warp.groups.length > 1 ? ` · ${maskText(group[1])}` : "";
    const instruction = pc === undefined ? "" : (codes.ptx.textOf(code.ptxLine(pc)) ?? "");
    registers.show(state, warp ? `Registers of ${warpName(warp)}${lanes}` : "Registers", instruction);
    watches.show(state);
    showPanels(state);
    if (state.failed && !hadFailed) {
      tabs.open("findings");
      const [first = ""] = state.failure?.message.split("\n") ?? [];
      frame.notify("error", `${first.replace(/[.]?$/, ".")} Step back (←) to see what led to this.`);
      focusFailed(state);
    } else if (!state.failed && hadFailed) frame.clearNotice();
    hadFailed = state.failed;
  }

  /** Goes to the moment that was selected elsewhere: most often this session has been moved there. */
  function follow(): void {
    const { moment } = selection.value;
    const { state } = driver;
    const known = state !== undefined && state.moved >= source.get("moved");
    if (moment === undefined || (known && moment === state.position)) {
      driver.refresh();
      return;
    }
    announced = Math.min(moment, state?.length ?? moment);
    driver.followTo(announced);
  }

  /** A moment selected elsewhere means what has just been executed there. */
  function showSelected({ last }: State): void {
    if (following && last && last[0] === look.cta && last[1] === look.warp) void codes.reveal(last[2]);
    following = false;
  }

  /** The warp whose instruction failed; of a deadlock's circle, the first of those who wait. */
  function focusFailed({ failure, warps, ctas }: State): void {
    const index = failure?.cta?.join();
    const own = ctas.find(([, x, y, z]) => `${x},${y},${z}` === index)?.[0];
    const { cta, warp, ptxLine } = failure?.cycle?.[0] ?? { ...failure, cta: own };
    const failed = warps.find((each) => each.cta === cta && each.warp === warp);
    if (!failed || !ptxLine) return;
    const group = failed.groups.findIndex(([pc]) => code.ptxLine(pc) === ptxLine);
    focus(failed.cta, failed.warp, Math.max(0, group), false);
    chosenBy = "failure";
  }

  function sentenceOf(state: State): string {
    if (state.note) return state.note;
    if (state.job) return "";
    return state.failed ? `The kernel failed: ${state.failure?.kind.replaceAll("_", " ")}.` : state.sentence;
  }

  /** Makes the panel in sight; the others when they are opened. */
  function showPanel(id: string): void {
    const { state } = driver;
    const parts = state && makePanel[id]?.(state);
    if (parts) replaceKeepingFocus(panels[id as keyof typeof panels], parts);
  }

  function showPanels(state: State): void {
    showPanel(tabs.current);
    tabs.count("stops", state.stops.length);
    tabs.count("memory", state.watches.length);
    tabs.count("barriers", state.mbarriers.length + state.barriers.length);
    tabs.count("flight", state.inFlight.length);
    tabs.count("findings", state.findings.length + (state.failure ? 1 : 0), true);
    tabs.count("output", state.output ? state.output.split("\n").length - 1 : 0);
  }

  disposer.add(
    driver.changed.on((state) => {
      show(state);
      codes.drawNow();
      frame.root.dataset.position = String(state.position);
      frame.root.dataset.answerMs = driver.latency.toFixed(1);
      if (announced === undefined) {
        announced = state.position; // opening it moves nothing
        if (missedMoment(source, selection, state.position) !== undefined) inSight("news", follow);
      }
      if (selection.value.moment !== undefined && !state.job && announced !== state.position) {
        announced = state.position;
        const [cta, warp] = state.focus ?? [];
        const whose = state.yields ? { cta, warp } : {};
        const select = () => selection.set({ ...selection.value, ...whose, moment: state.position }, frame);
        // a message of its own would make the notebook busy once more, and the page draw that
        if (state.told && driver.sent === selection.value) selectTold(select);
        else select();
      }
      const begin = performance.now() - driver.latency;
      requestAnimationFrame(() => {
        frame.root.dataset.stepMs = (performance.now() - begin).toFixed(1);
      });
    }),
  );
  disposer.add(driver.failed.on((error) => frame.notify("error", errorText(error, live))));
  const mayCross = () => {
    driver.selected = selection.value.moment === undefined ? undefined : selection.value;
  };
  mayCross();
  disposer.add(
    selection.on((value, origin) => {
      mayCross();
      if (origin === frame) return;
      const { cta, warp, moment, address } = value;
      following ||= moment !== undefined && moment !== driver.state?.position;
      if (address !== undefined) watches.offer(address);
      chosenBy = "reader";
      if (cta !== undefined && warp !== undefined) Object.assign(look, { cta, warp, group: 0 });
      else unpin();
      inSight("news", follow);
    }),
  );
  source.onChange("moved", () => inSight("news", () => driver.follow(source.get("moved"))));

  return {
    async open() {
      const { cta, warp } = selection.value;
      if (cta !== undefined && warp !== undefined) Object.assign(look, { cta, warp });
      await codes.open();
      if (!live)
        frame.notify(
          "info",
          `A saved page: it holds ${format.plural(driver.backend.positions?.length ?? 0, "moment")} and steps between them. What saved it, a notebook or sglab step, runs the launch further.`,
        );
    },
    keys: () =>
      keyBindings(live, {
        driver,
        toCursor,
        toggle: () => codes.toggleAtCursor(),
        watch() {
          tabs.open("memory");
          watches.focus();
        },
        nextWarp,
        fold,
        search: () => codes.active.openFinder(),
      }),
    escape() {
      unpin();
      codes.markParties([]);
      selection.set({}, frame);
      driver.refresh();
    },
    repaint() {
      registers.redraw();
      codes.redraw();
    },
  };
}
