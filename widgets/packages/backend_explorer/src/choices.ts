// SGLang's choice, version by version, with the rule that made it; press a version to ask under its rules.

import { h } from "@sglab/core";
import type { Choice } from "./protocol";
import { choiceText } from "./words";

export function choiceList(
  choices: readonly Choice[],
  version: string,
  live: boolean,
  choose: (version: string) => void,
): HTMLElement {
  const cards = [...choices].reverse().map((choice) => {
    const shown = choice.version === version;
    const name = h("b", {}, `SGLang ${choice.version}`);
    const parts: HTMLElement[] = [
      h("div", { class: "sbe-version" }, name, h("span", { class: "sbe-takes" }, choiceText(choice))),
      h("div", { class: "sbe-rule" }, choice.refused ?? choice.reason ?? ""),
    ];
    for (const note of choice.notes ?? []) parts.push(h("div", { class: "sbe-rule" }, `then: ${note}`));
    const button = h(
      "button",
      {
        type: "button",
        class: "sbe-choice",
        "aria-pressed": String(shown),
        "data-refused": String(choice.refused !== undefined),
        disabled: !live,
      },
      ...parts,
    );
    button.addEventListener("click", () => choose(choice.version));
    return button;
  });
  return h(
    "div",
    { class: "sbe-choices", role: "group", "aria-label": "SGLang's choice by version" },
    ...cards,
  );
}
