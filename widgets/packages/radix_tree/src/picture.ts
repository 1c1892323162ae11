// The tree as bars: tokens from left to right, a branch per row, pages as cells, locks and last access above each bar.

import { type Disposer, format, h, revealWithin, s, type Theme, type Tooltip, uniqueId } from "@sglab/core";
import type { Op } from "./protocol";
import type { Layout, Place } from "./states";
import { runs } from "./words";

const ROW = 44;
const CAPTION = 15;
const BAR = 21;
const NOTCH = 5;
const LEFT = 44;
const GAP = 5;
const MOST = 15; // px of a token
const LEAST = 0.02; // all of a tree is seen, however long its prefixes are
const CHARACTER = 7.3; // px of the code font at 12 px
const MANY = 600; // nodes beyond which bars have no texts

export interface Shown {
  layout: Layout;
  op: Op;
  pageSize: number;
  selected: number | undefined;
  /** Nodes of the request that is selected, if there are any: the others are dimmed. */
  lit: ReadonlySet<number> | undefined;
  clock: number;
}

export interface TreePicture {
  root: HTMLElement;
  show(shown: Shown, width: number, height: number, theme: Theme): void;
  reveal(node: number): void;
}

export function makePicture(tooltip: Tooltip, disposer: Disposer, pick: (node: number) => void): TreePicture {
  const svg = s("svg", { class: "srt-svg", role: "img", "data-picture": "" });
  const root = h(
    "div",
    { class: "srt-scroll", tabindex: 0, role: "group", "aria-label": "The radix tree" },
    svg,
  );
  const pattern = uniqueId("evictable");
  let described = new Map<number, string>();
  const nodeAt = (event: Event): number | undefined => {
    const found = (event.target as Element).closest<SVGElement>("[data-node]")?.dataset.node;
    return found === undefined ? undefined : Number(found);
  };
  disposer.listen(root, "click", (event) => {
    const node = nodeAt(event);
    if (node !== undefined) pick(node);
  });
  disposer.listen(root, "pointermove", (event) => {
    const node = nodeAt(event);
    tooltip.show(node === undefined ? undefined : described.get(node), event.clientX, event.clientY);
  });
  disposer.listen(root, "pointerleave", () => tooltip.hide());

  return {
    root,
    show(shown, width, height, theme) {
      const { layout } = shown;
      const depth = Math.max(1, layout.tokens);
      const levels = deepest(layout);
      const unit = Math.max(LEAST, Math.min(MOST, (width - LEFT - 20 - levels * GAP) / depth));
      const wide = Math.max(width - 4, LEFT + depth * unit + levels * GAP + 16);
      const tall = layout.rows * ROW + 8;
      svg.setAttribute("width", String(wide));
      svg.setAttribute("height", String(tall));
      svg.setAttribute("aria-label", `A tree of ${format.plural(layout.places.size - 1, "node")}`);
      root.style.height = `${Math.min(height, tall + 4)}px`;
      described = new Map();
      const lines: SVGElement[] = [];
      const bars: SVGElement[] = [];
      const x = new Map<number, number>();
      for (const place of layout.places.values()) {
        const { node } = place;
        const parent = layout.places.get(node.parent);
        const left = parent
          ? (x.get(node.parent) as number) + parent.node.tokens * unit + (parent.node.parent < 0 ? 0 : GAP)
          : 2;
        x.set(node.id, node.parent < 0 ? LEFT : left);
        if (parent) lines.push(connection(place, parent, x, unit));
        bars.push(
          node.parent < 0
            ? rootMark(place, shown)
            : bar(place, left, unit, { ...shown, pattern }, theme, layout.places.size),
        );
        described.set(node.id, describe(place, shown));
      }
      svg.replaceChildren(hatch(pattern, theme), ...lines, ...bars);
    },
    reveal(node) {
      const root = svg.closest(".sg-widget");
      if (root) revealWithin(root, svg.querySelector(`[data-node="${node}"]`));
    },
  };
}

function deepest(layout: Layout): number {
  let most = 0;
  for (const place of layout.places.values()) {
    let levels = 0;
    for (let at: Place | undefined = place; at; at = layout.places.get(at.node.parent)) levels += 1;
    most = Math.max(most, levels);
  }
  return most;
}

function hatch(id: string, theme: Theme): SVGElement {
  const line = s("path", {
    d: "M-1,1 L1,-1 M0,6 L6,0 M5,7 L7,5",
    stroke: theme.muted,
    "stroke-width": 1,
    opacity: 0.7,
  });
  const pattern = s("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, line);
  return s("defs", {}, pattern);
}

function connection(place: Place, parent: Place, x: ReadonlyMap<number, number>, unit: number): SVGElement {
  const from = (x.get(parent.node.id) as number) + parent.node.tokens * unit;
  const to = x.get(place.node.id) as number;
  const [y0, y1] = [parent.row, place.row].map((row) => row * ROW + CAPTION + BAR / 2) as [number, number];
  const start = parent.node.parent < 0 ? LEFT - 8 : from;
  const middle = parent.node.parent < 0 ? LEFT - 8 : from + GAP / 2;
  const d = place.row === parent.row ? `M${start},${y0} H${to}` : `M${middle},${y0} V${y1} H${to}`;
  return s("path", { d, class: place.ghost ? "srt-line srt-gone" : "srt-line" });
}

function rootMark(place: Place, { selected }: Shown): SVGElement {
  const y = place.row * ROW + CAPTION;
  return s(
    "g",
    { "data-node": place.node.id, class: "srt-node" },
    s("rect", { x: 2, y, width: LEFT - 10, height: BAR, rx: 3, class: "srt-root" }),
    s("text", { x: 6, y: y + BAR / 2 + 4, class: "srt-caption" }, "root"),
    selected === place.node.id
      ? s("rect", { x: 1, y: y - 1, width: LEFT - 8, height: BAR + 2, class: "srt-selected" })
      : undefined,
  );
}

function bar(
  place: Place,
  x: number,
  unit: number,
  shown: Shown & { pattern: string },
  theme: Theme,
  nodes: number,
): SVGElement {
  const { node, row, ghost } = place;
  const { op, pageSize, selected, lit } = shown;
  const y = row * ROW + CAPTION;
  const width = Math.max(3, node.tokens * unit);
  const onPath = op.path?.includes(node.id) ?? false;
  const kind =
    ghost || (op.evicted?.some(([id]) => id === node.id) ?? false) ? "gone" : node.lock ? "locked" : "free";
  const parts: (SVGElement | undefined)[] = [
    s("rect", {
      x,
      y,
      width,
      height: BAR,
      rx: 2,
      class: `srt-bar srt-${kind}${node.device ? "" : " srt-host"}`,
    }),
  ];
  if (kind === "free")
    parts.push(s("rect", { x, y, width, height: BAR, rx: 2, fill: `url(#${shown.pattern})`, opacity: 0.35 }));
  if (pageSize > 1 && pageSize * unit > 5)
    for (let token = pageSize; token < node.tokens; token += pageSize)
      parts.push(s("path", { d: pageBorder(x + token * unit, y), class: `srt-page srt-page-${kind}` }));
  if (nodes <= MANY) {
    const room = Math.floor((width - 6) / CHARACTER);
    const text = fitted(visible(node.text), room);
    if (text) parts.push(s("text", { x: x + 4, y: y + BAR / 2 + 4, class: `srt-text srt-on-${kind}` }, text));
    const caption = captionOf(place, Math.floor(width / 6.2));
    if (caption) parts.push(s("text", { x: x + 1, y: y - 4, class: "srt-caption" }, caption));
  }
  if (onPath)
    parts.push(
      s("rect", { x: x - 1, y: y - 1, width: width + 2, height: BAR + 2, rx: 3, class: "srt-path" }),
    );
  if (op.kind === "split" && op.path?.[0] === node.id)
    parts.push(s("path", { d: `M${x + width + GAP / 2},${y - 5} V${y + BAR + 5}`, class: "srt-cut" }));
  if (selected === node.id || lit?.has(node.id))
    parts.push(
      s("rect", { x: x - 2, y: y - 2, width: width + 4, height: BAR + 4, rx: 3, class: "srt-selected" }),
    );
  if (kind === "gone" && width > 14)
    parts.push(
      s("path", {
        d: `M${x},${y} l${width},${BAR} m0,${-BAR} l${-width},${BAR}`,
        stroke: theme.error,
        class: "srt-crossed",
      }),
    );
  const dim = lit && !lit.has(node.id) ? " srt-dim" : "";
  return s("g", { "data-node": node.id, class: `srt-node${dim}` }, ...parts);
}

/** Above and below the text, which it would cut. */
function pageBorder(x: number, y: number): string {
  return `M${x},${y} v${NOTCH} M${x},${y + BAR} v${-NOTCH}`;
}

/** The longest caption that fits: number, locks, pages, last access. */
function captionOf({ node }: Place, room: number): string {
  const locks = node.lock ? ` · ${node.lock} ${node.lock === 1 ? "lock" : "locks"}` : "";
  const host = node.device ? "" : " · host";
  const space = node.space ? ` · ${node.space}` : "";
  const short = `${node.id}${space}${locks}${host}`;
  const pages = node.pages.length ? ` · p. ${runs(node.pages)}` : "";
  const options = [`${short}${pages} · used ${node.at}`, `${short}${pages}`, short, String(node.id)];
  return options.find((each) => each.length <= room) ?? "";
}

function fitted(text: string, room: number): string {
  if (room < 1) return "";
  return text.length <= room ? text : room < 3 ? "" : `${text.slice(0, room - 1)}…`;
}

/** Spaces, line ends and other controls as marks: tokens are what they are. Few fonts have marks for each control. */
export function visible(text: string): string {
  const marked = text.replaceAll("\n", "⏎").replaceAll(" ", "\u00a0");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is replaced
  return marked.replace(/[\x00-\x1f\x7f]/g, "·");
}

function describe({ node, ghost }: Place, { clock, pageSize }: Shown): string {
  if (node.parent < 0) return "The root: it has no tokens and is always locked.";
  const where = node.device
    ? node.host
      ? "on the device and the host"
      : "on the device"
    : "on the host alone";
  const unit = pageSize === 1 ? "slots" : "pages";
  const space = node.space ? ` of the namespace ${node.space}` : "";
  return (
    `node ${node.id}${ghost ? " (gone)" : ""}${space}: ${format.plural(node.tokens, "token")}, ${where}\n${JSON.stringify(node.text)}\n` +
    `${unit} ${runs(node.pages) || "none"} · ${format.plural(node.lock, "lock")} · last used at ${node.at} of ${clock}`
  );
}
