// The current collective: why, what, how much, and each rank's times.

import { definitions, format, h } from "@sglab/core";
import { exchanged, metAt, type Recorded, sharesOf, spanOf } from "./data";
import { commonUnit, micros, NAMES, reason, rule } from "./words";

export function jointDetails(recorded: Recorded, at: number): HTMLElement[] {
  const joint = recorded.joints[at];
  if (!joint)
    return [
      h("p", { class: "sg-note" }, "Step with → to the first collective, or press one."),
      ...shares(recorded),
    ];
  const ranks =
    joint.ranks.length === recorded.run.size ? `all ${joint.ranks.length}` : joint.ranks.join(", ");
  const rows: [string, string][] = [
    ["of", joint.module ? `${joint.module} (${joint.moduleClass})` : "the pass"],
    ["ranks", ranks],
    ["dtype", joint.dtype],
    ["leaves a rank", `${format.bytes(joint.moved)}: ${rule(joint)}`],
  ];
  if (joint.what) rows.unshift(["for", joint.what]);
  return [
    h("div", { class: "sg-heading" }, `${at + 1}. ${NAMES[joint.kind]}`),
    h("p", { class: "sg-note" }, reason(joint, recorded.passes[recorded.step], recorded.joints)),
    definitions(rows),
    timesTable(recorded, at),
    ...exchange(recorded, at),
    ...shares(recorded),
  ];
}

function table(heads: string[], rows: string[][]): HTMLElement {
  return h(
    "table",
    { class: "srk-table srk-small" },
    h("thead", {}, h("tr", {}, ...heads.map((head) => (head ? h("th", { scope: "col" }, head) : h("td"))))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, cell))))),
  );
}

function timesTable(recorded: Recorded, at: number): HTMLElement {
  const joint = recorded.joints[at];
  const met = metAt(recorded, at);
  const rows = (joint?.ranks ?? []).map((rank) => {
    const span = spanOf(recorded, at, rank);
    const from = Math.min(span?.end ?? 0, Math.max(span?.begin ?? 0, met));
    return [
      String(rank),
      (joint?.shapes[String(rank)] ?? []).join(" × "),
      micros(from - (span?.begin ?? 0)),
      micros((span?.end ?? 0) - from),
    ];
  });
  return table(["rank", "tensor", "waits", "then"], rows);
}

/** Bytes from rank to rank. */
function exchange(recorded: Recorded, at: number): HTMLElement[] {
  const parts = exchanged(recorded, at);
  if (!parts) return [];
  const { unit, write } = commonUnit(parts.flat());
  const rows = parts.map((row, from) => [String(from), ...row.map(write)]);
  const made = table(["", ...parts.map((_, to) => String(to))], rows);
  made.classList.add("srk-tight");
  return [
    h("div", { class: "sg-heading" }, `${unit} from rank (rows) to rank`),
    h("div", { class: "srk-sideways" }, made),
  ];
}

function shares(recorded: Recorded): HTMLElement[] {
  const rows = Array.from({ length: recorded.run.size }, (_, rank) => {
    const { computing, waiting, moving } = sharesOf(recorded, rank);
    return [String(rank), micros(computing), micros(waiting), micros(moving)];
  });
  return [
    h("div", { class: "sg-heading" }, "The whole pass"),
    table(["rank", "computes", "waits", "moves"], rows),
  ];
}
