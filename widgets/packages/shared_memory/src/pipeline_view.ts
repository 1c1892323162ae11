// cp.async as threads count it: what each group is after every commit_group and wait_group of a warp.

import { format, h } from "@sglab/core";
import { smem } from "./data";
import type { Group, Pipeline, Wait } from "./protocol";

const COLUMNS = 13; // marks shown around the present one

interface Mark {
  event: number;
  /** Of a commit, the group that it closes; of a wait, what it waits for. */
  group?: Group;
  wait?: Wait;
}

const STATES = {
  open: ["○", "open: copies go here until commit_group"],
  flying: ["◐", "in flight: closed, and no wait covers it yet"],
  done: ["●", "this wait has seen it done"],
  past: ["·", "done"],
} as const;
type State = keyof typeof STATES;

export interface PipelinePanel {
  root: HTMLElement;
  /** `position`: events that have happened. */
  show(pipelines: readonly Pipeline[], position: number): void;
}

export function pipelinePanel(goToEvent: (event: number) => void): PipelinePanel {
  const picker = h("select", { class: "sg-select", "aria-label": "Threads" });
  const chooser = h("label", { class: "smv-label" }, "threads ", picker);
  const body = h("div");
  let known: readonly Pipeline[] = [];
  let now = 0;
  const draw = () => {
    const pipeline = known[Math.max(0, picker.selectedIndex)];
    body.replaceChildren(...(pipeline ? pipelineParts(pipeline, now, goToEvent) : [nothing()]));
  };
  picker.addEventListener("change", draw);
  return {
    root: h("div", {}, chooser, body),
    show(pipelines, position) {
      if (pipelines !== known) {
        const labels = pipelines.map(threadsName);
        picker.replaceChildren(...labels.map((label, i) => h("option", { value: i }, label)));
        chooser.hidden = pipelines.length < 2;
      }
      known = pipelines;
      now = position;
      draw();
    },
  };
}

function nothing(): HTMLElement {
  return h("p", { class: "smv-note" }, "No warp of this CTA executes cp.async.");
}

function threadsName({ warp, lanes }: Pipeline): string {
  const numbers = Array.from({ length: 32 }, (_, lane) => lane).filter((lane) => (lanes >>> lane) & 1);
  const whole = numbers.length === 32 ? "0–31" : numbers.join(", ");
  return `warp ${warp}, lanes ${whole}`;
}

function marksOf({ groups, waits }: Pipeline): Mark[] {
  const commits = groups.filter((group) => group.committed >= 0);
  const marks: Mark[] = commits.map((group) => ({ event: group.committed, group }));
  marks.push(...waits.map((wait) => ({ event: wait.event, wait })));
  return marks.sort((a, b) => a.event - b.event);
}

/** What a group is once `event` has happened. */
function stateAt(group: Group, event: number): State | undefined {
  if (group.opened < 0 ? group.committed < 0 || group.committed > event : group.opened > event)
    return undefined;
  if (group.committed < 0 || group.committed > event) return "open";
  if (group.completed < 0 || group.completed > event) return "flying";
  return group.completed === event ? "done" : "past";
}

function pipelineParts(
  pipeline: Pipeline,
  position: number,
  goToEvent: (event: number) => void,
): HTMLElement[] {
  const marks = marksOf(pipeline);
  const present = marks.findLastIndex(({ event }) => event < position);
  const begin = Math.max(0, Math.min(present - (COLUMNS >> 1), marks.length - COLUMNS));
  const shown = marks.slice(begin, begin + COLUMNS);
  const [first, last] = [shown[0]?.event ?? 0, shown.at(-1)?.event ?? 0];
  const groups = pipeline.groups.filter(
    (group) => stateAt(group, last) && (group.completed < 0 || group.completed >= first),
  );
  const headers = shown.map((mark) => {
    const here = mark === marks[present];
    const button = h("button", { type: "button", class: "sg-button ssm-mark" }, markName(mark));
    button.title = `${markSentence(mark, pipeline)} Press to go there.`;
    button.addEventListener("click", () => goToEvent(mark.event));
    return h("th", { scope: "col", "aria-current": here ? "step" : "false" }, button);
  });
  const rows = groups.map((group) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, String(group.number)),
      h("td", {}, format.count(group.nbytes)),
      h("td", { class: "smv-code" }, group.copies ? smem(group.start) : "no copy"),
      ...shown.map((mark) => stateCell(stateAt(group, mark.event), mark === marks[present])),
    ),
  );
  const flying = shown.map((mark) => {
    const count = groups.filter((group) => stateAt(group, mark.event) === "flying").length;
    return h("td", { class: mark === marks[present] ? "ssm-count ssm-present" : "ssm-count" }, String(count));
  });
  const cut = pipeline.total > pipeline.groups.length;
  const table = h(
    "table",
    { class: "ssm-pipeline" },
    h("caption", {}, `What each group is after each commit and wait of ${threadsName(pipeline)}`),
    h(
      "thead",
      {},
      h("tr", {}, ...["group", "bytes", "to"].map((text) => h("th", { scope: "col" }, text)), ...headers),
    ),
    h("tbody", {}, ...rows),
    h("tfoot", {}, h("tr", {}, h("th", { scope: "row", colSpan: 3 }, "groups in flight"), ...flying)),
  );
  const mark = marks[present];
  return [
    h(
      "p",
      { class: "ssm-verdict", role: "status" },
      mark ? markSentence(mark, pipeline) : "These threads have closed no group yet.",
    ),
    h("div", { class: "ssm-scroll", tabindex: 0, role: "group", "aria-label": "Groups" }, table),
    h(
      "p",
      { class: "smv-note" },
      "○ open   ◐ in flight   ● seen done by this wait   · done before. Every thread counts its own groups; the bytes " +
        `are those of all these threads together.${cut ? ` The first ${pipeline.groups.length} of ${pipeline.total} groups are listed.` : ""}`,
    ),
  ];
}

function stateCell(state: State | undefined, present: boolean): HTMLElement {
  const [sign, title] = state ? STATES[state] : ["", ""];
  return h("td", { class: present ? "ssm-present" : "", title, "data-state": state ?? "" }, sign);
}

function markName({ group, wait }: Mark): string {
  if (group) return "commit";
  return wait?.left ? `wait ${wait.left}` : "wait 0";
}

function markSentence({ group, wait }: Mark, { groups }: Pipeline): string {
  if (group) return `commit_group closed group ${group.number}: ${bytesOf(groups, [group.number])}.`;
  const { left, completed, in_flight } = wait as Wait;
  const done = completed.length
    ? `Done now: ${groupsText(groups, completed)}.`
    : "Nothing had to be waited for.";
  const rest = in_flight.length
    ? ` May still be in flight: ${groupsText(groups, in_flight)}.`
    : " Nothing is in flight.";
  const which =
    left > 1 ? `all but the ${left} latest groups` : left ? "all groups but the latest" : "all groups";
  return `wait_group ${left} returns when ${which} are done. ${done}${rest}`;
}

/** "groups 1, 2 and 3 (1,536 bytes)" */
function groupsText(groups: readonly Group[], numbers: readonly number[]): string {
  const listed = [numbers.slice(0, -1).join(", "), numbers.at(-1)]
    .filter((each) => each !== "")
    .join(" and ");
  return `group${numbers.length > 1 ? "s" : ""} ${listed} (${bytesOf(groups, numbers)})`;
}

function bytesOf(groups: readonly Group[], numbers: readonly number[]): string {
  const bytes = numbers.reduce((sum, number) => sum + (groups[number]?.nbytes ?? 0), 0);
  return `${bytes.toLocaleString("en-US")} bytes`;
}
