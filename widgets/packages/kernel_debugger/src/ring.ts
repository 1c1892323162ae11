// A deadlock as the cycle it is; without a cycle, as the list of who waits for what that will never come.

import { h, s, uniqueId } from "@sglab/core";
import { type WaitGraph, type WaitNode, withCta } from "./wait_graph";
import { roleLook } from "./warp_looks";

const SIZE = { width: 500, height: 330 };
const RADIUS = { x: 154, y: 122 };
const BOX = { width: 182, height: 38 };

export function ringOf(graph: WaitGraph, focus: (node: WaitNode) => void): HTMLElement {
  const { cycle } = graph;
  const nodes = cycle.map((id) => graph.nodes.find((node) => node.id === id) as WaitNode);
  const sentence = spoken(nodes);
  // so that boxes one above the other stay apart
  const height = Math.max(SIZE.height, 2 * RADIUS.y + BOX.height + 34 * (nodes.length - 6));
  const center = { x: SIZE.width / 2, y: height / 2 };
  const radius = (height - SIZE.height) / 2 + RADIUS.y;
  const at = (i: number) => {
    const angle = (2 * Math.PI * i) / nodes.length - Math.PI / 2;
    return { x: center.x + RADIUS.x * Math.cos(angle), y: center.y + radius * Math.sin(angle) };
  };
  const arrow = uniqueId("arrow");
  const svg = s(
    "svg",
    {
      class: "kd-ring",
      viewBox: `0 0 ${SIZE.width} ${height}`,
      role: "group",
      "aria-label": `Deadlock: ${sentence}`,
    },
    s(
      "defs",
      {},
      s(
        "marker",
        { id: arrow, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
        s("path", { d: "M0,0 L8,4 L0,8 z", class: "kd-arrow" }),
      ),
    ),
  );
  nodes.forEach((_, i) => {
    const [from, to] = [at(i), at((i + 1) % nodes.length)];
    svg.append(edge(from, to, center, arrow));
  });
  nodes.forEach((node, i) => {
    svg.append(box(node, at(i), focus));
  });
  return h("figure", { class: "kd-figure" }, svg, h("figcaption", {}, sentence));
}

/** "w0 waits for full[0], which w1 has to end; w1 waits for …" */
function spoken(nodes: WaitNode[]): string {
  const first = nodes.findIndex(({ kind }) => kind === "warp");
  const turned = [...nodes.slice(first), ...nodes.slice(0, first)].map(({ label }) => label);
  const parts: string[] = [];
  for (let i = 0; i < turned.length; i += 2) {
    const [who, what, next] = [turned[i], turned[i + 1], turned[(i + 2) % turned.length]];
    parts.push(`${who} waits for ${what}, which ${next} has to end`);
  }
  return `${parts.join("; ")}.`;
}

interface Point {
  x: number;
  y: number;
}

/** From the border of one box to that of the next, bent outwards. */
function edge(from: Point, to: Point, center: Point, arrow: string): SVGElement {
  const middle = { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
  const away = { x: middle.x - center.x, y: middle.y - center.y };
  const length = Math.hypot(away.x, away.y) || 1;
  const bend = { x: middle.x + (18 * away.x) / length, y: middle.y + (18 * away.y) / length };
  const start = border(from, bend);
  const end = border(to, bend);
  return s("path", {
    d: `M${start.x},${start.y} Q${bend.x},${bend.y} ${end.x},${end.y}`,
    class: "kd-edge",
    "marker-end": `url(#${arrow})`,
  });
}

/** Where the line from the centre of a box towards a point leaves the box. */
function border(box: Point, towards: Point): Point {
  const dx = towards.x - box.x;
  const dy = towards.y - box.y;
  const scale = Math.min(
    dx ? (BOX.width / 2 + 6) / Math.abs(dx) : Number.POSITIVE_INFINITY,
    dy ? (BOX.height / 2 + 6) / Math.abs(dy) : Number.POSITIVE_INFINITY,
  );
  return { x: box.x + dx * scale, y: box.y + dy * scale };
}

function box(node: WaitNode, { x, y }: Point, focus: (node: WaitNode) => void): SVGElement {
  const isWarp = node.kind === "warp";
  const group = s(
    "g",
    {
      class: `kd-node kd-node-${node.kind}`,
      transform: `translate(${x - BOX.width / 2},${y - BOX.height / 2})`,
      role: isWarp ? "button" : "img",
      tabindex: isWarp ? 0 : undefined,
      "aria-label": `${node.label}: ${node.title || node.detail}`,
    },
    s("title", {}, node.title || node.detail),
    s("rect", { ...BOX, rx: isWarp ? 4 : 19 }),
    s("text", { x: BOX.width / 2, y: 16 }, shortened(node.label, 22)),
    s("text", { x: BOX.width / 2, y: 30, class: "kd-node-detail" }, shortened(node.detail, 27)),
  );
  const look = roleLook(node.warp?.role);
  if (look) group.append(s("rect", { x: 0, y: 0, width: 6, height: BOX.height, fill: look.fill }));
  if (isWarp) {
    group.addEventListener("click", () => focus(node));
    group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.stopPropagation();
      focus(node);
    });
  }
  return group;
}

function shortened(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** Who waits for what, where nothing is left that could bring it. */
export function waitList(graph: WaitGraph, focus: (node: WaitNode) => void): HTMLElement {
  const barriers = graph.nodes.filter(({ kind }) => kind === "barrier");
  return h(
    "ul",
    { class: "kd-waits" },
    ...barriers.map((barrier) => {
      const waiting = graph.edges.filter(([, to]) => to === barrier.id).map(([from]) => from);
      const owing = graph.edges.filter(([from]) => from === barrier.id).map(([, to]) => to);
      const names = (ids: string[]) =>
        withCta(ids.map((id) => graph.nodes.find((each) => each.id === id) as WaitNode)).flatMap(
          ([cta, node]) => {
            const made = h("button", { type: "button", class: "kd-link", title: node.title }, node.label);
            made.addEventListener("click", () => focus(node));
            return [cta, made, " "];
          },
        );
      return h(
        "li",
        {},
        ...names(waiting),
        h("span", { "aria-hidden": "true" }, "⇢ "),
        h("strong", {}, barrier.label),
        barrier.detail ? ` ${barrier.detail}` : "",
        ...(owing.length
          ? [" · still to come: ", ...names(owing)]
          : [" · nothing is in flight that would bring it"]),
      );
    }),
  );
}
