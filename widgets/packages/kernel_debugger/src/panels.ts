// The lists beside the registers: breakpoints, barriers, operations in flight, printf output.

import { format, h } from "@sglab/core";
import type { CodeModel } from "./code_model";
import type { MBarrier, State, StopEdit, StopOptions, StopPoint } from "./protocol";
import { barrierKey, sharedAddress } from "./words";

export type Edit = (edit: StopEdit, options: StopOptions, failed?: (error: unknown) => void) => Promise<void>;

/** Conditions that were refused, by breakpoint: as they were written, to be mended, and what is wrong with them. */
export type Refused = Map<number, { text: string; wrong: string }>;

const STOP_COLUMNS = ["on", "no.", "where", "which warps", "when", ""];

function button(label: string, title: string, run: () => void): HTMLButtonElement {
  const made = h(
    "button",
    { type: "button", class: "sg-button kd-small", title, "aria-label": title },
    label,
  );
  made.addEventListener("click", run);
  return made;
}

function table(headings: string[], rows: HTMLElement[][]): HTMLElement {
  return h(
    "table",
    { class: "kd-table" },
    h(
      "thead",
      {},
      h("tr", {}, ...headings.map((text) => (text ? h("th", { scope: "col" }, text) : h("td")))),
    ),
    h("tbody", {}, ...rows.map((cells) => h("tr", {}, ...cells))),
  );
}

const cell = (...children: (Node | string | undefined)[]) => h("td", {}, ...children);

function note(text: string): HTMLElement {
  return h("p", { class: "kd-note" }, text);
}

export function stopsPanel(
  state: State,
  live: boolean,
  edit: Edit,
  go: (stop: StopPoint) => void,
  refused: Refused,
  redraw: () => void,
): HTMLElement[] {
  if (state.stops.length === 0)
    return [
      note(
        live
          ? "None. Press a line's number, or b on a line, to stop before it; watch memory to stop at its accesses."
          : "None were set when this page was saved.",
      ),
    ];
  const rows = state.stops.flatMap((stop) => {
    const on = h("input", { type: "checkbox", "aria-label": `Breakpoint ${stop.id} is on` });
    on.checked = stop.enabled;
    on.disabled = !live;
    on.addEventListener("change", () => edit("enable", { id: stop.id, enabled: on.checked }));
    const place = button(stop.label, `Show ${stop.label}`, () => go(stop));
    place.className = "kd-link";
    const wrong = h("p", { class: "kd-wrong", role: "alert" }, refused.get(stop.id)?.wrong);
    const row = [
      cell(on),
      cell(
        h("span", { title: stop.number ? `session.unbreak(${stop.number})` : "" }, String(stop.id)),
        state.stoppedBy === stop.id ? " ◀" : "",
      ),
      cell(place),
      cell(live ? warpChoice(state, stop, edit) : warpWords(stop)),
      cell(live ? condition(stop, edit, refused, wrong, redraw) : (stop.when ?? "")),
      cell(
        live ? button("✕", `Remove breakpoint ${stop.id}`, () => edit("remove", { id: stop.id })) : undefined,
      ),
    ];
    return refused.has(stop.id) ? [row, [h("td", { colspan: STOP_COLUMNS.length }, wrong)]] : [row];
  });
  const parts = [table(STOP_COLUMNS, rows)];
  if (live && state.stops.length > 1)
    parts.push(button("remove all", "Remove all breakpoints", () => edit("clear", {})));
  return parts;
}

/** Values that a lane must hold; of breakpoints before instructions alone. */
function condition(
  stop: StopPoint,
  edit: Edit,
  refused: Refused,
  wrong: HTMLElement,
  redraw: () => void,
): HTMLElement | undefined {
  if (stop.kind === "watch" || stop.kind === "phase") return undefined;
  const before = refused.get(stop.id);
  const field = h("input", {
    type: "text",
    class: "sg-input kd-when",
    value: before?.text ?? stop.when ?? "",
    placeholder: "%r5 == 3",
    title: "Stops only where a lane holds such values: %r5 == 3, %f1 == nan, lane < 4 and %r5 > 0x10",
    "aria-label": `Condition of breakpoint ${stop.id}`,
    "aria-invalid": before ? "true" : undefined,
  });
  const judge = () => {
    const same = field.value === before?.text;
    wrong.hidden = !same;
    field.ariaInvalid = String(same);
  };
  if (before) field.addEventListener("input", judge); // what is being mended is not wrong yet
  field.addEventListener("change", async () => {
    const text = field.value;
    refused.delete(stop.id);
    await edit("condition", { id: stop.id, when: text }, (error) =>
      refused.set(stop.id, { text, wrong: (error as Error).message }),
    );
    redraw();
  });
  return field;
}

function warpWords({ cta, warp }: StopPoint): string {
  return warp === null ? "all" : `warp ${warp} of CTA ${cta}`;
}

/** All warps, the one a breakpoint is limited to, or the one in focus. */
function warpChoice(state: State, stop: StopPoint, edit: Edit): HTMLElement {
  if (stop.kind === "watch" || stop.kind === "phase")
    return h("span", {}, stop.cta === null ? "all" : `CTA ${stop.cta}`);
  const choose = h("select", { class: "sg-select", "aria-label": `Warps that breakpoint ${stop.id} stops` });
  const options: [number | null, number | null][] = [[null, null]];
  if (stop.warp !== null) options.push([stop.cta, stop.warp]);
  for (const { cta, warp } of state.warps)
    if (cta !== stop.cta || warp !== stop.warp) options.push([cta, warp]);
  choose.append(
    ...options.map(([cta, warp], i) =>
      h("option", { value: i }, warp === null ? "all" : `warp ${warp} of CTA ${cta}`),
    ),
  );
  choose.value = stop.warp === null ? "0" : "1";
  choose.addEventListener("change", () => {
    const [cta, warp] = options[Number(choose.value)] ?? [null, null];
    edit("limit", { id: stop.id, cta, warp });
  });
  return choose;
}

export function barriersPanel(
  state: State,
  live: boolean,
  selected: string | undefined,
  edit: Edit,
  select: (barrier: MBarrier) => void,
): HTMLElement[] {
  const parts: HTMLElement[] = [];
  const several = new Set(state.warps.map(({ cta }) => cta)).size > 1;
  const who = (waiting: MBarrier["waiting"], own: number) =>
    waiting.map(([cta, warp]) => (cta === own ? `w${warp}` : `CTA ${cta} w${warp}`)).join(" ") || "–";
  if (state.barriers.length)
    parts.push(
      table(
        ["named barrier", "phase", "arrived", "warps there"],
        state.barriers.map((each) => [
          cell(`${several ? `CTA ${each.cta} ` : ""}${each.name || each.number}`),
          cell(String(each.phase)),
          cell(each.expected ? `${each.arrived} of ${each.expected} threads` : "none yet"),
          cell(
            each.waiting.map((warp) => `w${warp}`).join(" ") || "–",
            each.twice ? `; ${each.twice} threads of these came twice` : "",
          ),
        ]),
      ),
    );
  if (state.mbarriers.length)
    parts.push(
      table(
        ["mbarrier", "phase", "pending", "bytes", "who waits", ""],
        state.mbarriers.map((each) => {
          const name = button(sharedAddress(each.offset), `Select this mbarrier of CTA ${each.cta}`, () =>
            select(each),
          );
          name.className = "kd-link";
          name.setAttribute("aria-pressed", String(barrierKey(each.cta, each.offset) === selected));
          const stop = () => edit("add_phase", { cta: each.cta, offset: each.offset });
          return [
            cell(several ? `CTA ${each.cta} ` : "", name, each.name ? ` ${each.name}` : ""),
            cell(String(each.phase)),
            cell(`${each.pending} of ${each.expected}`),
            cell(each.tx ? format.count(each.tx) : "–"),
            cell(who(each.waiting, each.cta)),
            cell(
              live
                ? button("stop", `Stop when the phase of ${sharedAddress(each.offset)} ends`, stop)
                : undefined,
            ),
          ];
        }),
      ),
    );
  return parts.length ? parts : [note("No barrier has been used by the CTAs in focus.")];
}

export function flightPanel(state: State, code: CodeModel, show: (pc: number) => void): HTMLElement[] {
  if (state.inFlight.length === 0)
    return [
      note(
        "Nothing is in flight. Asynchronous operations take effect as late as the programming model allows.",
      ),
    ];
  const several = new Set(state.warps.map(({ cta }) => cta)).size > 1;
  const rows = state.inFlight.map(([kind, cta, warp, , pc, shared, bytes, mbarrier]) => {
    const place = button(code.placeName(pc), "Show the instruction that issued it", () => show(pc));
    place.className = "kd-link";
    const size = h(
      "span",
      { class: "kd-nowrap", title: `${format.count(bytes)} bytes` },
      bytes ? format.bytes(bytes) : "–",
    );
    return [
      cell(kind),
      cell(several ? `CTA ${cta} w${warp}` : `w${warp}`),
      cell(place),
      cell(shared ? sharedAddress(shared) : "–"),
      cell(size),
      cell(mbarrier === null ? "–" : sharedAddress(mbarrier)),
    ];
  });
  return [table(["operation", "issued by", "at", "smem", "size", "signals"], rows)];
}

export function outputPanel(state: State): HTMLElement[] {
  if (!state.output) return [note("The kernel has printed nothing up to here.")];
  return [h("pre", { class: "kd-output" }, state.output)];
}
