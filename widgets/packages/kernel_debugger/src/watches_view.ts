// Watched memory: expressions and their values at this moment, those that changed marked.

import { type Disposer, format, h, replaceChanged, setAttributes } from "@sglab/core";
import type { Tensor } from "@sglab/protocol";
import { replaceKeepingFocus } from "./kept_children";
import type { Finding, State, Watch } from "./protocol";
import { floatAt, floatText } from "./registers";
import { warpName } from "./warp_looks";

export interface WatchEvents {
  /** Resolves to what is wrong with it, or "". */
  add: (expression: string) => Promise<string>;
  remove: (expression: string) => void;
  stop: (expression: string) => void;
  select: (address: string) => void;
  /** Goes to where a finding's party acts. */
  show: (finding: Finding) => void;
}

const SHOWN = 32;
const OFFERED = 12;
const OFFERED_FOUND = 4;

export class WatchesView {
  readonly element = h("div", { class: "kd-watches" });
  #form = h("form", { class: "kd-bar" });
  #input = h("input", {
    class: "sg-field",
    type: "text",
    spellcheck: "false",
    "aria-label": "Memory to watch",
  });
  #wrong = h("p", { class: "kd-wrong", role: "alert" });
  /** What has a name and is not watched yet, to press. */
  #names = h("div", { class: "kd-bar kd-names" });
  #list = h("div");
  #before = new Map<string, string[]>();
  #shown = new Map<string, string[]>();
  #moved = -1;

  constructor(
    private live: boolean,
    private events: WatchEvents,
    disposer: Disposer,
  ) {
    const add = h("button", { type: "submit", class: "sg-button" }, "watch");
    this.#form.append(this.#input, add);
    this.#form.hidden = !live;
    this.element.append(this.#form, this.#wrong, this.#names, this.#list);
    disposer.listen(this.#form, "submit", (event) => {
      event.preventDefault();
      const expression = this.#input.value.trim();
      if (expression) void this.add(expression);
    });
  }

  /** Watches it, as if it had been written. */
  async add(expression: string): Promise<void> {
    const wrong = await this.events.add(expression);
    this.#wrong.textContent = wrong;
    this.#input.setAttribute("aria-invalid", String(wrong !== ""));
    this.#input.select();
  }

  /** Offers an address that was selected elsewhere. */
  offer(address: string): void {
    if (/^[sg]mem(@\d+)?\+(0x[0-9a-f]+|\d+)$/i.test(address)) this.#input.value = address;
  }

  focus(): void {
    this.#input.focus();
  }

  show(state: State): void {
    setAttributes(this.#input, {
      placeholder: `${state.names.slice(0, 3).join(", ")}, smem+0x400*8:f32`,
      title: `${state.help} Names: ${state.names.join(", ")}`,
    });
    if (state.moved !== this.#moved) {
      this.#before = this.#shown;
      this.#shown = new Map(state.watches.map((watch) => [watch.expression, valuesOf(watch)]));
      this.#moved = state.moved;
    }
    const help = h(
      "p",
      { class: "kd-note" },
      this.live ? state.help : "No memory was watched when this page was saved.",
    );
    replaceChanged(this.#names, this.#offers(state)); // a button does what its title says
    const { watches } = state;
    replaceKeepingFocus(
      this.#list,
      watches.length ? watches.map((each) => this.#watch(each, state)) : [help],
    );
  }

  /** Memory in which something was found comes first. */
  #offers({ names, watches, findings }: State): HTMLElement[] {
    if (!this.live) return [];
    const watched = new Set(watches.map((each) => each.expression));
    const found = new Map(findings.map((each) => [each.watch, each]));
    const wrong = [...found].filter(([name]) => name && !watched.has(name)).slice(0, OFFERED_FOUND);
    const rest = names.filter((name) => name !== "smem" && !watched.has(name) && !found.has(name));
    return [
      ...wrong.map(([name, finding]) => {
        const title = `Watch ${name}: ${words(finding)}`;
        const offer = small(
          `${sign(finding)} ${name}`,
          "sg-button kd-small",
          title,
          () => void this.add(name),
        );
        offer.dataset.severity = finding.severity;
        return offer;
      }),
      ...rest
        .slice(0, OFFERED)
        .map((name) => small(name, "sg-button kd-small", `Watch ${name}`, () => void this.add(name))),
    ];
  }

  #watch(watch: Watch, { findings }: State): HTMLElement {
    const values = this.#shown.get(watch.expression) ?? [];
    const before = this.#before.get(watch.expression);
    const shape = watch.shape.length > 1 || watch.shape[0] !== 1 ? ` [${watch.shape.join(", ")}]` : "";
    const name = small(watch.expression, "kd-link", "Select its address", () =>
      this.events.select(watch.address),
    );
    const head = h(
      "div",
      { class: "kd-watch-head" },
      name,
      h("span", { class: "kd-hint" }, `${watch.dtype}${shape} at ${watch.address}`),
    );
    if (this.live)
      head.append(
        small("stop", "sg-button kd-small", `Stop when ${watch.expression} is written`, () =>
          this.events.stop(watch.expression),
        ),
        small("✕", "sg-button kd-small", `Stop watching ${watch.expression}`, () =>
          this.events.remove(watch.expression),
        ),
      );
    if (watch.error) return h("div", { class: "kd-watch" }, head, h("p", { class: "kd-note" }, watch.error));
    const foundIn = new Map((watch.found ?? []).map(([number, element]) => [element, findings[number]]));
    const cells = values.slice(0, SHOWN).map((value, i) => {
      const cell = h(
        "span",
        { class: "kd-value", "data-changed": before !== undefined && before[i] !== value },
        value,
      );
      const finding = foundIn.get(i);
      if (finding) {
        cell.dataset.severity = finding.severity;
        cell.title = `${sign(finding)} ${words(finding)}`;
      }
      return cell;
    });
    const more =
      values.length > SHOWN ? h("span", { class: "kd-hint" }, `… ${values.length - SHOWN} more`) : undefined;
    const about = [...new Set(foundIn.values())].filter((each) => each !== undefined);
    return h(
      "div",
      { class: "kd-watch" },
      head,
      h("div", { class: "kd-values" }, ...cells, more),
      ...about.map((finding) => this.#about(finding)),
    );
  }

  /** What was found in watched memory; a press goes there. */
  #about(finding: Finding): HTMLElement {
    const link = h(
      "button",
      { type: "button", class: "kd-link", title: finding.message, disabled: !finding.at },
      words(finding),
    );
    link.addEventListener("click", () => this.events.show(finding));
    const mark = h("span", { class: "kd-sign", "aria-hidden": "true" }, sign(finding));
    return h("div", { class: "kd-watch-found", "data-severity": finding.severity }, mark, " ", link);
  }
}

function sign({ severity }: Finding): string {
  return severity === "error" ? "▲" : "△";
}

function words({ kind, at }: Finding): string {
  return `${kind.replaceAll("_", " ")}${at ? `, ${warpName(at)}, step ${format.count(at.position)}` : ""}`;
}

function small(label: string, className: string, title: string, run: () => void): HTMLButtonElement {
  const made = h("button", { type: "button", class: className, title }, label);
  if (label !== title && label.length < 2) made.setAttribute("aria-label", title);
  made.addEventListener("click", run);
  return made;
}

function valuesOf({ bytes, dtype }: Watch): string[] {
  if (!bytes) return [];
  const data = Uint8Array.from(Array.isArray(bytes) ? bytes : ((bytes as Tensor).data as Uint8Array));
  const view = new DataView(data.buffer);
  const size = Number(dtype.match(/\d+$/)?.[0] ?? 32) / 8;
  return Array.from({ length: Math.floor(data.length / size) }, (_, i) => text(view, i * size, size, dtype));
}

function text(view: DataView, at: number, size: number, dtype: string): string {
  if (dtype.includes("f")) return floatText(floatAt(view, at, size, dtype));
  const signed = dtype.startsWith("s");
  if (size === 8) return String(signed ? view.getBigInt64(at, true) : view.getBigUint64(at, true));
  if (size === 4) return String(signed ? view.getInt32(at, true) : view.getUint32(at, true));
  if (size === 2) return String(signed ? view.getInt16(at, true) : view.getUint16(at, true));
  return String(signed ? view.getInt8(at) : view.getUint8(at));
}
