// The pane beside the slots: a replay's inputs at their addresses, the launches, and what a stale pointer does.

import { format, h } from "@sglab/core";
import { definitions, link, note, requestLink, table, title } from "@sglab/engine/parts";
import type { Address, Capture, Event, Launch, Probe, Replay } from "./protocol";
import { addressText, neighbours, sentence } from "./words";

const LISTED = 64;
const { count, plural } = format;
const COLUMNS = [
  ["input_ids", "token"],
  ["req_pool_indices", "row"],
  ["seq_lens", "length"],
  ["positions", "position"],
  ["out_cache_loc", "KV slot"],
] as const;

export function eventDetails(
  event: Event | undefined,
  addresses: readonly Address[],
  slot: number | undefined,
  dark: boolean,
  pick: (slot: number) => void,
): HTMLElement[] {
  if (!event) return [note("→ goes to the first capture.")];
  const out = [
    title(event.kind === "capture" ? `Capture of size ${event.bs}` : `Replay with size ${event.bs}`),
    note(sentence(event)),
  ];
  if (event.kind === "capture") return [...out, ...captured(event)];
  return [...out, ...replayed(event, addresses, slot, dark, pick)];
}

function captured(event: Capture): HTMLElement[] {
  return [
    definitions([
      [
        "warm-ups",
        `${plural(event.warm_ups, "run")}: what compiles or tunes itself at the first call has done so`,
      ],
      ["launches", event.launches ? count(event.launches) : "kept by the GPU"],
    ]),
    note("The largest size is captured first: on a GPU the smaller graphs then reuse its memory."),
  ];
}

function replayed(
  event: Replay,
  addresses: readonly Address[],
  slot: number | undefined,
  dark: boolean,
  pick: (slot: number) => void,
): HTMLElement[] {
  const known = COLUMNS.filter(([name]) => event.inputs[name]);
  if (!known.length) return [note("This replay ran before it was recorded: its inputs are not known.")];
  const rows = Array.from({ length: Math.min(LISTED, event.bs) }, (_, i) => {
    const request = event.requests[i];
    const who = request
      ? requestLink(request[0], request[1] || "?", dark, () => pick(i))
      : link("padding", `Slot ${i}`, () => pick(i));
    return [
      slot === i ? h("b", {}, String(i)) : String(i),
      who,
      ...known.map(([name]) => count(event.inputs[name]?.[i] ?? 0)),
    ];
  });
  const where = known.map(([name, label]): [string, string] => {
    const found = addresses.find(([, each]) => each === `input ${name}`);
    return [label, found ? `${name} at ${found[0]}` : `${name}: read when the pass is prepared`];
  });
  const stale = event.bs > event.raw;
  return [
    table(["slot", "request", ...known.map(([, label]) => label)], rows, "Inputs"),
    ...(stale
      ? [
          note(
            "A padded slot has length 1 and KV slot 0, on the dummy page. Its token, row and position are what an earlier replay left there: nothing reads what comes of them.",
          ),
        ]
      : []),
    definitions(where, "The same addresses in every replay"),
  ];
}

export function launchDetails(
  launches: readonly Launch[],
  addresses: readonly Address[],
  selected: number | undefined,
  pick: (launch: number) => void,
): HTMLElement[] {
  if (!launches.length)
    return [note("A GPU's graph does not tell its launches; an engine on a CPU records them.")];
  const near = selected === undefined ? { before: [], after: [] } : neighbours(launches, selected);
  const marks = new Map([
    ...near.before.map((each) => [each, "writes what it reads"] as const),
    ...near.after.map((each) => [each, "reads what it writes"] as const),
  ]);
  const list = h("ol", { class: "sgr-launches", start: 0 });
  launches.forEach(([name], i) => {
    const item = h(
      "li",
      { class: i === selected ? "sgr-chosen" : marks.has(i) ? "sgr-near" : undefined },
      link(name, `Launch ${i}`, () => pick(i)),
    );
    const mark = marks.get(i);
    if (mark) item.append(h("span", { class: "sg-muted" }, ` · ${mark}`));
    list.append(item);
  });
  const chosen = selected === undefined ? undefined : launches[selected];
  const about = chosen
    ? [
        h(
          "div",
          { class: "sgr-about" },
          title(`Launch ${selected}: ${chosen[0]}`),
          definitions([
            ["reads", lines(chosen[1], addresses)],
            ["writes", lines(chosen[2], addresses)],
          ]),
        ),
      ]
    : [note("Press a launch: the addresses that it reads and writes stay the same in every replay.")];
  return [...about, title(plural(launches.length, "launch", "launches")), list];
}

function lines(numbers: readonly number[], addresses: readonly Address[]): HTMLElement {
  return h("div", {}, ...numbers.map((each) => h("div", {}, addressText(addresses, each))));
}

export function probeDetails(probe: Probe): HTMLElement[] {
  if (!probe.message)
    return [note("It is tried where launches are recorded (on a CPU) and no request is on its way.")];
  return [
    title("A stale pointer, tried on the smallest graph"),
    note(
      "A graph knows addresses, not names. The next tokens were put into a new tensor called input_ids, and the graph was replayed; then they were copied into the recorded tensor, and it was replayed again. All of it ran on the dummy page.",
    ),
    definitions([
      ["recorded", `${probe.name} at ${probe.recorded}`],
      ["new tensor", `at ${probe.fresh}`],
      ["its effect", `logits change by ${probe.unseen}: not seen`],
      ["copied", `logits change by ${(probe.seen ?? 0).toPrecision(3)}: seen`],
    ]),
    title("What RecordedGraph.check says to the new tensor"),
    h("div", { class: "sge-text" }, probe.message),
  ];
}
