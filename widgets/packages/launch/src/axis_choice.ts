// The choice between issue order and modelled time, and what the badge says of it.

import { type Disposer, type Frame, format, h } from "@sglab/core";
import type { Header } from "@sglab/protocol";
import type { Launch, LaunchMeta } from "./data";

export class AxisChoice {
  readonly element = h("select", { class: "sg-select", "aria-label": "Axis", title: "Axis", hidden: true });

  constructor(disposer: Disposer, choose: (timed: boolean) => void) {
    disposer.listen(this.element, "change", () => choose(this.timed));
  }

  get timed(): boolean {
    return this.element.value === "timed";
  }

  /** Modelled time first, where the model knows any; what the reader has chosen stays. */
  load({ timed }: LaunchMeta): void {
    const before = this.element.value;
    this.element.hidden = !timed;
    this.element.replaceChildren(
      ...(timed ? [h("option", { value: "timed" }, `modelled time, ${timed.product}`)] : []),
      h("option", { value: "issue" }, "issue order"),
    );
    this.element.value = timed && before !== "issue" ? "timed" : "issue";
  }
}

/** Says above the picture why a launch failed, or why its modelled times say little. */
export function notifyOf(frame: Pick<Frame, "notify" | "clearNotice">, { clock, meta }: Launch): void {
  if (meta.error) frame.notify("error", meta.error);
  else if (clock.timed && meta.spin) frame.notify("info", meta.spin);
  else if (meta.spin) frame.clearNotice();
}

/** The badge says what the axis is. */
export function headerFor(header: Header, { clock, meta }: Launch): Header {
  if (!clock.timed || !meta.timed) return header;
  const { product, total } = meta.timed;
  const title =
    `Events and values are those of the emulator; when they happened was not measured but modelled, for a ${product}: ` +
    `${format.duration(total)} for the launch. Steps go in the order of modelled time.` +
    (meta.spin ? ` ${meta.spin}` : "");
  return { ...header, badge: { text: `emulated · modelled time, ${product}`, title } };
}
