// The pane beside the board: a step's batch with its why, a request's life, and the attention that can be opened.

import { format, h } from "@sglab/core";
import { definitions, link, note, requestLink, table, title } from "@sglab/engine/parts";
import { newTokens, type Run, sentence } from "./model";
import type { Decision, Facts, Share, Step } from "./protocol";

const LISTED = 24;

export interface Goes {
  request(request: number): void;
  step(step: number): void;
}

export function stepDetails(run: Run, facts: Facts, at: number, dark: boolean, goes: Goes): HTMLElement[] {
  const step = run.steps[at];
  if (!step) return [note("No step has happened here: → plans the first one.")];
  const name = (request: number) =>
    requestLink(request, run.name(request), dark, () => goes.request(request));
  const out: HTMLElement[] = [title(`Step ${at} · ${step.mode}`), note(sentence(run, at))];
  out.push(batchTable(step, name));
  if (step.why?.length) out.push(title("Who was offered, and what became of it"), whyTable(step.why, name));
  if (step.stopped) out.push(note(`No more: ${step.stopped}.`));
  if (step.waiting.length) out.push(waiting(run, step));
  const text = step.out.filter(([, , piece]) => piece);
  if (text.length)
    out.push(
      title("Generated"),
      table(
        ["request", "text"],
        text.slice(0, LISTED).map(([request, , piece]) => [name(request), JSON.stringify(piece)]),
        "Generated text",
      ),
    );
  out.push(definitions(memory(step, facts), "Memory"));
  return out;
}

function batchTable(step: Step, name: (request: number) => HTMLElement): HTMLElement {
  const rows = step.batch
    .slice(0, LISTED)
    .map(([request, phase, start, count, cached]: Share) => [
      name(request),
      phase,
      format.count(start),
      format.count(count),
      phase === "prefill" || phase === "chunk" ? format.count(cached) : "",
    ]);
  const more = step.batch.length - LISTED;
  if (more > 0) rows.push([`… ${more} more`, "", "", "", ""]);
  return table(["request", "phase", "at", "new", "cached"], rows, "The batch");
}

const RESULTS: Record<string, string> = { CONTINUE: "taken", NO_TOKEN: "no slots", OTHER: "refused" };

function whyTable(why: Decision[], name: (request: number) => HTMLElement): HTMLElement {
  const rows: (string | HTMLElement)[][] = why
    .slice(0, LISTED)
    .map(([request, result, reason, total, , input, chunk]) => {
      const decision = h("span", {}, `${RESULTS[result] ?? result}: ${reason}`);
      if (total !== undefined) {
        const left = [format.plural(total, "slot"), `${format.count(input ?? 0)} of the pass`];
        if (chunk !== undefined && chunk !== null) left.push(`${format.count(chunk)} of the chunk`);
        decision.append(h("span", { class: "ssc-left" }, `left before: ${left.join(", ")}`));
      }
      return [name(request), decision];
    });
  const more = why.length - LISTED;
  if (more > 0) rows.push([`… ${more} more`, ""]);
  return table(["request", "decision"], rows, "Decisions");
}

function waiting(run: Run, step: Step): HTMLElement {
  const names = step.waiting.slice(0, LISTED).map((each) => run.name(each));
  const more = step.waiting.length > LISTED ? ` and ${step.waiting.length - LISTED} more` : "";
  const order = step.policy ? ` in the order of ${step.policy}` : "";
  return note(`Waiting${order}: ${names.join(", ")}${more}.`);
}

function memory(step: Step, facts: Facts): [string, string][] {
  const [free, evictable, locked, own, host] = step.pool;
  const slots = (count: number) =>
    `${format.plural(count, "slot")}${facts.page_size > 1 ? `, ${format.plural(Math.ceil(count / facts.page_size), "page")}` : ""}`;
  const rows: [string, string][] = [
    ["free", slots(free)],
    ["evictable", slots(evictable)],
    ["locked in the tree", slots(locked)],
    ["requests' own", slots(own)],
    ["new-token ratio", String(step.ratio)],
    ["tokens of the pass", format.count(newTokens(step))],
  ];
  if (host) rows.push(["on the host", slots(host)]);
  if (step.graph) rows.push(["graph", `of ${format.plural(step.graph, "request")}, replayed`]);
  if (step.drafts) rows.push(["drafts", `${step.drafts[0]} of ${step.drafts[1]} accepted`]);
  return rows;
}

export function requestDetails(run: Run, request: number | undefined, at: number, goes: Goes): HTMLElement[] {
  const about = request === undefined ? undefined : run.requests[request];
  if (request === undefined || !about) return [note("Press a request, or ↓, to see its life.")];
  const { tokens, text } = run.output(request, at);
  const rows = run
    .history(request)
    .map(({ step, text: what }) => [
      link(String(step), `Go to step ${step}`, () => goes.step(Math.min(step, run.steps.length - 1))),
      what,
    ]);
  const facts: [string, string][] = [
    ["prompt", format.plural(about.prompt, "token")],
    ["came before step", String(about.arrival)],
    [
      "generated",
      `${format.plural(tokens, "token")}${about.most ? ` of at most ${format.count(about.most)}` : ""}`,
    ],
  ];
  const prompt = Object.assign(document.createElement("div"), {
    className: "sge-text",
    textContent: about.text || "(the prompt came before the recording)",
  });
  const output = Object.assign(document.createElement("div"), {
    className: "sge-text",
    textContent: text || (tokens ? "…" : "nothing yet"),
  });
  return [
    title(about.rid),
    definitions(facts),
    title("Prompt"),
    prompt,
    title(`Generated by step ${Math.max(0, at)}`),
    output,
    title("Its life"),
    table(["step", "what"], rows, `Life of ${about.rid}`),
  ];
}
