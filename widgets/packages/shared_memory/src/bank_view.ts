// A warp's access over the 32 banks: who meets whom.

import { h, type Theme } from "@sglab/core";
import { BANKS, type BankUse, bankSentence } from "@sglab/memory/banks";

/** One row per phase, one column per bank; the number is how many distinct words, or lanes in turn, the bank must serve. */
export function bankTable(title: string, use: BankUse, turns: boolean, theme: Theme): HTMLElement {
  const what = turns
    ? "lanes that each bank must serve in turn, since they change words"
    : "different 4-byte words that each bank must deliver";
  const head = h("tr", {}, h("th", { scope: "col" }, "lanes"));
  for (let bank = 0; bank < BANKS; bank++) head.append(h("th", { scope: "col" }, String(bank)));
  head.append(h("th", { scope: "col" }, "passes"));
  const rows = use.phases.map(({ lanes, banks, passes }) => {
    const row = h("tr", {}, h("th", { scope: "row" }, `${lanes[0]}–${lanes[lanes.length - 1]}`));
    for (const { lanes: users, words, served } of banks) {
      const cell = h("td", { class: served > 1 ? "ssm-conflict" : served ? "ssm-used" : "" });
      if (served) {
        cell.textContent = served > 1 ? `▲${served}` : "1";
        cell.title = `lanes ${users.join(", ")}: ${words.map((word) => `smem+0x${(word * 4).toString(16)}`).join(", ")}`;
      }
      row.append(cell);
    }
    row.append(h("td", { class: "ssm-passes" }, String(passes)));
    return row;
  });
  const table = h(
    "table",
    { class: "ssm-banks" },
    h("caption", {}, `${title}: ${what}, phase by phase`),
    h("thead", {}, head),
    h("tbody", {}, ...rows),
  );
  const sentence = h(
    "p",
    { class: use.passes > use.least ? "ssm-verdict ssm-bad" : "ssm-verdict", role: "status" },
    bankSentence(use),
  );
  table.dataset.dark = String(theme.dark);
  return h(
    "div",
    {},
    sentence,
    h("div", { class: "ssm-scroll", tabindex: 0, role: "group", "aria-label": "Banks" }, table),
  );
}
