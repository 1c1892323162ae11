// The selected token's experts, best first; the selected expert's share.

import { definitions, format, h } from "@sglab/core";
import { choiceScore, choicesOf, groupOf, keepsGroup, loadOf, type Recorded } from "./data";
import { segmentsOf } from "./ranks_view";
import { blocksSentence, type Phase } from "./steps";
import { tokenName } from "./words";

const LISTED = 12;

/** `run`: the token's phases that have run; nothing is told of the others. */
export function tokenDetails(recorded: Recorded, token: number, run: readonly Phase[]): HTMLElement[] {
  const { rule, scores, logits } = recorded;
  const heading = h("div", { class: "sg-heading" }, tokenName(recorded, token));
  if (!run.length) return [heading, h("p", { class: "sg-note" }, "Not routed yet.")];
  const has = (phase: Phase) => run.includes(phase);
  const choices = has("choose") ? choicesOf(recorded, token) : [];
  const chosen = new Map(choices.map(({ expert, weight }) => [expert, weight]));
  const leftOut = (expert: number) =>
    rule.groups > 1 && has("groups") && !keepsGroup(recorded, token, groupOf(recorded, expert));
  const score = (expert: number) => scores[token * rule.experts + expert] as number;
  const raised = (expert: number) =>
    has("bias") || !rule.biased ? choiceScore(recorded, token, expert) : score(expert);
  const order = Array.from({ length: rule.experts }, (_, expert) => expert).sort(
    (a, b) =>
      Number(chosen.has(b)) - Number(chosen.has(a)) ||
      Number(leftOut(a)) - Number(leftOut(b)) ||
      raised(b) - raised(a),
  );
  const heads = [
    "",
    "expert",
    ...(rule.groups > 1 ? ["group"] : []),
    "logit",
    "score",
    ...(rule.biased ? ["biased"] : []),
    "weight",
  ];
  const rows = order.slice(0, LISTED).map((expert) => {
    const at = token * rule.experts + expert;
    const group = groupOf(recorded, expert);
    const out = leftOut(expert);
    const weight = chosen.get(expert);
    return h(
      "tr",
      { "data-chosen": String(weight !== undefined), "data-out": String(out) },
      h("td", {}, weight !== undefined ? "✓" : out ? "✗" : ""),
      h("td", {}, `e${expert}`),
      ...(rule.groups > 1 ? [h("td", {}, String(group))] : []),
      h("td", {}, logitOf(logits[at] as number)),
      h("td", {}, score(expert).toFixed(3)),
      ...(rule.biased ? [h("td", {}, has("bias") ? raised(expert).toFixed(3) : "")] : []),
      h("td", {}, weight === undefined || !has("weigh") ? "" : weight.toFixed(3)),
    );
  });
  const more =
    order.length > LISTED ? [h("p", { class: "sg-note" }, `and ${order.length - LISTED} more`)] : [];
  return [
    heading,
    h(
      "table",
      { class: "sex-table" },
      h("thead", {}, h("tr", {}, ...heads.map((head) => (head ? h("th", { scope: "col" }, head) : h("td"))))),
      h("tbody", {}, ...rows),
    ),
    ...more,
  ];
}

export function expertFacts(recorded: Recorded, expert: number, routed: number): [string, string][] {
  const held = (spread: Recorded["eplb"]) =>
    segmentsOf(spread, recorded.load)
      .flatMap((segments, rank) => {
        const copies = segments.filter((each) => each.expert === expert).length;
        return copies ? [`rank ${rank}${copies > 1 ? ` ×${copies}` : ""}`] : [];
      })
      .join(", ");
  const rows: [string, string][] = [
    ["this pass", format.plural(loadOf(recorded, routed)[expert] ?? 0, "token")],
    ["all passes", format.plural(recorded.load[expert] ?? 0, "token")],
    ["in order on", held(recorded.even)],
    ["by EPLB on", held(recorded.eplb)],
  ];
  if (recorded.rule.groups > 1) rows.unshift(["group", String(groupOf(recorded, expert))]);
  if (recorded.rule.biased) rows.push(["correction bias", (recorded.bias[expert] as number).toFixed(4)]);
  return rows;
}

export function expertDetails(recorded: Recorded, expert: number, routed: number): HTMLElement[] {
  return [
    h("div", { class: "sg-heading" }, `Expert ${expert}`),
    definitions(expertFacts(recorded, expert, routed)),
    ...(recorded.blockExperts.includes(expert)
      ? [h("p", { class: "sg-note" }, blocksSentence(recorded, expert))]
      : []),
  ];
}

/** "0.00" for what rounds to it from below, "-∞" for an expert that is masked. */
export function logitOf(value: number): string {
  if (!Number.isFinite(value)) return String(value).replace("Infinity", "∞");
  return value.toFixed(2).replace(/^-(0\.00)$/, "$1");
}
