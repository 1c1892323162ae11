// What went wrong: how the kernel failed, who waits for whom, and what the sanitizers found; each leads to its moment.

import { format, h } from "@sglab/core";
import type { CodeModel } from "./code_model";
import type { Finding, Party, State } from "./protocol";
import { ringOf, waitList } from "./ring";
import { graphOfCycle, waitGraph } from "./wait_graph";
import { warpName } from "./warp_looks";

export interface FindingEvents {
  /** Goes to a moment and shows a party there; the other's line is marked too. */
  show: (party: Party, other: Party | null) => void;
  seek: (position: number) => void;
  focus: (cta: number, warp: number) => void;
  /** Shows memory among the watches; where nothing more can be watched, there is none. */
  watch?: (expression: string) => void;
}

const UNWATCHED =
  "No sanitizer looks on: only what ends the launch is found. sglab.step(…) has them, and sessions of EmulatedDevice(…, sanitize=True).";

export function findingsPanel(state: State, code: CodeModel, events: FindingEvents): HTMLElement[] {
  const parts: HTMLElement[] = [];
  if (state.failure) parts.push(...failurePart(state, code, events));
  for (const finding of state.findings) parts.push(findingPart(state, finding, code, events));
  if (!parts.length)
    parts.push(
      h("p", { class: "kd-note" }, state.sanitized === false ? UNWATCHED : "Nothing is wrong up to here."),
    );
  return parts;
}

function failurePart(state: State, code: CodeModel, events: FindingEvents): HTMLElement[] {
  const failure = state.failure as NonNullable<State["failure"]>;
  const [first = "", ...rest] = failure.message.split("\n");
  const title = h("strong", {}, failure.kind.replaceAll("_", " "));
  const go = h(
    "button",
    { type: "button", class: "kd-link" },
    `after ${format.plural(failure.position, "instruction")}`,
  );
  go.addEventListener("click", () => events.seek(failure.position + 1));
  const card = h(
    "article",
    { class: "kd-finding", "data-severity": "error" },
    h("header", {}, h("span", { class: "kd-sign", "aria-hidden": "true" }, "▲"), title, go),
    h("p", {}, first),
  );
  if (rest.length)
    card.append(
      h(
        "details",
        {},
        h("summary", {}, "the whole message"),
        h("pre", { class: "kd-output" }, rest.join("\n")),
      ),
    );
  if (!state.failed) return [card];
  const graph = failure.cycle?.length
    ? graphOfCycle(failure.cycle, state, (line) => nameOf(code, line))
    : waitGraph(state, (pc) => code.placeName(pc));
  const focus = ({ warp }: { warp?: { cta: number; warp: number } }) => {
    if (warp) events.focus(warp.cta, warp.warp);
  };
  if (graph.cycle.length) card.append(ringOf(graph, focus));
  if (graph.edges.length) card.append(waitList(graph, focus));
  return [card];
}

function nameOf(code: CodeModel, ptxLine: number): string {
  const pc = code.pcAt(ptxLine);
  return pc === undefined ? `PTX line ${ptxLine}` : code.placeName(pc);
}

function findingPart(state: State, finding: Finding, code: CodeModel, events: FindingEvents): HTMLElement {
  const { at, other } = finding;
  const error = finding.severity === "error";
  const card = h(
    "article",
    { class: "kd-finding", "data-severity": finding.severity },
    h(
      "header",
      {},
      h("span", { class: "kd-sign", "aria-hidden": "true" }, error ? "▲" : "△"),
      h("strong", {}, finding.kind.replaceAll("_", " ")),
      h(
        "span",
        { class: "kd-hint" },
        `${finding.detector}${finding.count > 1 ? `, ${format.count(finding.count)} times` : ""}`,
      ),
    ),
    h("p", {}, finding.message, finding.memory ? h("span", { class: "kd-hint" }, ` ${finding.memory}`) : ""),
  );
  if (at && at.position >= state.position)
    card.append(h("p", { class: "kd-hint" }, "It comes after this moment."));
  if (at) card.append(partyPart("", at, other, code, events));
  if (other) card.append(partyPart(finding.otherDid || "other party", other, at, code, events));
  const { watch } = events;
  if (finding.watch && watch) {
    const button = h(
      "button",
      {
        type: "button",
        class: "sg-button kd-small",
        title: "Show this memory among the watches, at every stop",
      },
      `watch ${finding.watch}`,
    );
    button.addEventListener("click", () => watch(finding.watch));
    card.append(h("div", { class: "kd-party" }, button));
  }
  return card;
}

function partyPart(
  role: string,
  party: Party,
  other: Party | null,
  code: CodeModel,
  events: FindingEvents,
): HTMLElement {
  const where = party.pc >= 0 ? ` at ${code.placeName(party.pc)}` : "";
  const who = `${party.asynchronous ? "the operation issued by " : ""}${warpName(party)}${where}`;
  const button = h(
    "button",
    { type: "button", class: "kd-link" },
    `${who}, step ${format.count(party.position)}`,
  );
  button.addEventListener("click", () => events.show(party, other));
  return h("div", { class: "kd-party" }, role ? h("span", { class: "kd-hint" }, `${role}: `) : "", button);
}
