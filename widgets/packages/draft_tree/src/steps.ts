// Every verification as moments: build, mask, verify, accept, compact.

import { format, type Track, tokenText } from "@sglab/core";
import type { Pass, Recorded } from "./data";
import { probability } from "./words";

export const PHASES = ["build", "mask", "verify", "accept", "compact"] as const;
export type Phase = (typeof PHASES)[number];

/** One thing that happens to a tree. */
export interface Moment {
  pass: number;
  phase: Phase;
  /** Built, masked, visited or moved. */
  node: number;
  /** accept: the child that is compared; −1: none is left, the walk ends. */
  child: number;
  /** accept: the child holds what the target says. */
  matches: boolean;
}

/** What has happened to the tree of one pass by some position. */
export interface Standing {
  pass: number;
  /** The moment that just happened; undefined at the very beginning. */
  now: Moment | undefined;
  built: number;
  masked: number;
  verified: boolean;
  /** Comparisons so far, in order. */
  walk: Moment[];
  ended: boolean;
  /** Nodes whose rows have moved so far. */
  moved: number[];
  compacted: boolean;
}

/** The walk down: a child is kept where it holds what the target says at its parent. */
export function walkOf(pass: Pass, index: number): Moment[] {
  const made: Moment[] = [];
  let node = 0;
  for (;;) {
    const at = pass.nodes[node];
    if (!at) return made;
    let child = at.nextToken;
    const compares = !pass.plain;
    while (compares && child >= 0 && pass.nodes[child]?.token !== at.chosen) {
      made.push({ pass: index, phase: "accept", node, child, matches: false });
      child = pass.nodes[child]?.nextSibling ?? -1;
    }
    if (!compares || child < 0) {
      made.push({ pass: index, phase: "accept", node, child: -1, matches: false });
      return made;
    }
    made.push({ pass: index, phase: "accept", node, child, matches: true });
    node = child;
  }
}

export function momentsOf(pass: Pass, index: number): Moment[] {
  const all = (phase: Phase, nodes: number[]): Moment[] =>
    nodes.map((node) => ({ pass: index, phase, node, child: -1, matches: false }));
  const every = pass.nodes.map((_, node) => node);
  const moved = every
    .filter((node) => (pass.nodes[node]?.movedTo ?? -1) >= 0)
    .sort((a, b) => (pass.nodes[a]?.kept ?? 0) - (pass.nodes[b]?.kept ?? 0));
  return [
    ...all("build", every),
    ...all("mask", every),
    ...all("verify", [0]),
    ...walkOf(pass, index),
    ...all("compact", moved.length ? moved : [-1]),
  ];
}

export class Steps {
  readonly moments: Moment[];
  /** Where each pass ends. */
  readonly ends: number[] = [];
  readonly #phaseEnds: number[] = [];

  constructor(readonly recorded: Recorded) {
    this.moments = [];
    for (const [index, pass] of recorded.passes.entries()) {
      this.moments.push(...momentsOf(pass, index));
      this.ends.push(this.moments.length);
    }
    this.moments.forEach((moment, i) => {
      const next = this.moments[i + 1];
      if (next?.phase !== moment.phase || next.pass !== moment.pass) this.#phaseEnds.push(i + 1);
    });
  }

  /** After `position` moments. */
  standing(position: number): Standing {
    const now = this.moments[position - 1];
    const pass = now?.pass ?? 0;
    const past = this.moments.slice(pass ? this.ends[pass - 1] : 0, position);
    const of = (phase: Phase) => past.filter((each) => each.phase === phase);
    const walk = of("accept");
    const compact = of("compact");
    const last = walk.at(-1);
    return {
      pass,
      now,
      built: of("build").length,
      masked: of("mask").length,
      verified: of("verify").length > 0,
      walk,
      ended: last !== undefined && last.child < 0,
      moved: compact.map(({ node }) => node).filter((node) => node >= 0),
      compacted: position === this.ends[pass],
    };
  }

  track(selected: () => number | undefined): Track {
    const { passes } = this.recorded;
    return {
      length: this.moments.length,
      granularities: [
        { id: "step", label: "step" },
        { id: "phase", label: "phase", stops: this.#phaseEnds },
        { id: "pass", label: "pass", stops: this.ends },
      ],
      marks: this.ends.map((at, i) => ({ at, label: `pass ${passes[i]?.number}` })),
      describe: (position) => this.describe(position),
      eventsOfSelection: () => this.#eventsOf(selected()),
    };
  }

  #eventsOf(node: number | undefined): number[] | undefined {
    if (node === undefined) return undefined;
    return this.moments.flatMap((moment, i) =>
      moment.node === node || moment.child === node ? [i + 1] : [],
    );
  }

  describe(position: number): string {
    const moment = this.moments[position - 1];
    const pass = this.recorded.passes[moment?.pass ?? 0];
    if (!moment || !pass) return "Nothing is drafted yet.";
    const text = (token: number) => `“${tokenText(token, this.recorded.texts)}”`;
    const node = pass.nodes[moment.node];
    const child = pass.nodes[moment.child];
    const head = `Pass ${pass.number}, ${moment.phase}: `;
    switch (moment.phase) {
      case "build":
        return head + built(pass, moment.node, text);
      case "mask": {
        const seen = (node?.depth ?? 0) + 1;
        return `${head}node ${moment.node} sees the ${format.plural(pass.prefix, "token")} before it and ${seen === 1 ? "itself" : `${seen} nodes, its ancestors and itself`}.`;
      }
      case "verify":
        return `${head}one pass of the target over ${format.plural(pass.nodes.length, "node")}: it says a token after each.`;
      case "accept":
        if (child && moment.matches)
          return `${head}after node ${moment.node} the target says ${text(node?.chosen ?? 0)}, which node ${moment.child} holds: kept.`;
        if (child)
          return `${head}after node ${moment.node} the target says ${text(node?.chosen ?? 0)}; node ${moment.child} holds ${text(child.token)}: go to its sibling.`;
        if (pass.plain)
          return `${head}penalties, a bias or min_new_tokens: no draft is kept; the target's ${text(node?.chosen ?? 0)} is the one token gained.`;
        return `${head}no child of node ${moment.node} holds ${text(node?.chosen ?? 0)}: it is the bonus token, and the walk ends.`;
      case "compact":
        if (!node) return `${head}the kept rows lie one after another already; nothing moves.`;
        return `${head}the KV row of node ${moment.node} is copied from slot ${node.slot} to slot ${node.movedTo}.`;
    }
  }
}

function built(pass: Pass, at: number, text: (token: number) => string): string {
  const node = pass.nodes[at];
  if (!node) return "";
  if (node.parent < 0) return `the root is the request's last token, ${text(node.token)}; it has no KV yet.`;
  const likely = Number.isNaN(node.score)
    ? ""
    : `, its path ${probability(node.score)} likely to the draft model`;
  return `node ${at}, ${text(node.token)}, below node ${node.parent}${likely}.`;
}
