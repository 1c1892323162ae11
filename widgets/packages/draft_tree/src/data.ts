// One request's verifications as Python recorded them.

import type { DraftTreeSource, RequestInfo, RunInfo } from "./protocol";

export interface Likely {
  token: number;
  probability: number;
}

export interface TreeNode {
  token: number;
  /** −1: the root. */
  parent: number;
  depth: number;
  /** −1: none. */
  nextToken: number;
  nextSibling: number;
  slot: number;
  /** What the target says after this node. */
  chosen: number;
  /** Place among the accepted; −1: not accepted. */
  kept: number;
  /** Where its KV row was copied; −1: it stayed. */
  movedTo: number;
  position: number;
  /** Of its path, by the draft model; NaN: no model drafted. */
  score: number;
  /** The target's probability of this token after the parent; NaN for the root. */
  probability: number;
  likely: Likely[];
}

export interface Pass {
  /** Among all passes of the run. */
  number: number;
  nodes: TreeNode[];
  prefix: number;
  accepted: number;
  /** Candidates that the draft model made; 0: no model drafted. */
  offered: number;
  bonus: number;
  /** Tokens that the request got: fewer than accepted + 1 where it ended before the last of them. */
  gained: number;
  /** No draft could be accepted. */
  plain: boolean;
  /** The request's place in the pass's batch. */
  row: number;
}

export interface Recorded {
  requests: RequestInfo[];
  request: number;
  step: number;
  run: RunInfo;
  texts: Record<string, string>;
  passes: Pass[];
}

const ALL = 2 ** 31;
const COLUMNS = 10;
const PASS_COLUMNS = 6;

export async function readRun(source: DraftTreeSource): Promise<Recorded> {
  const [nodes, scores, likely, probs, passes] = await Promise.all([
    source.slice("nodes", 0, ALL),
    source.slice("scores", 0, ALL),
    source.slice("likely", 0, ALL),
    source.slice("likely_probs", 0, ALL),
    source.slice("passes", 0, ALL),
  ]);
  const [, count = 0, width = 0] = likely.shape;
  const { numbers, gained } = source.get("run");
  const node = (at: number): TreeNode => {
    const [token, parent, depth, nextToken, nextSibling, slot, chosen, kept, movedTo, position] =
      nodes.data.subarray(at * COLUMNS, (at + 1) * COLUMNS) as unknown as [
        number,
        number,
        number,
        number,
        number,
        number,
        number,
        number,
        number,
        number,
      ];
    return {
      token,
      parent,
      depth,
      nextToken,
      nextSibling,
      slot,
      chosen,
      kept,
      movedTo,
      position,
      score: scores.data[2 * at] as number,
      probability: scores.data[2 * at + 1] as number,
      likely: Array.from({ length: width }, (_, i) => ({
        token: likely.data[at * width + i] as number,
        probability: probs.data[at * width + i] as number,
      })),
    };
  };
  return {
    requests: source.get("requests"),
    request: source.get("request"),
    step: source.get("step"),
    run: source.get("run"),
    texts: source.get("texts"),
    passes: numbers.map((number, p) => {
      const [prefix, accepted, offered, bonus, plain, row] = passes.data.subarray(
        p * PASS_COLUMNS,
        (p + 1) * PASS_COLUMNS,
      ) as unknown as [number, number, number, number, number, number];
      return {
        number,
        nodes: Array.from({ length: count }, (_, i) => node(p * count + i)),
        prefix,
        accepted,
        offered,
        bonus,
        gained: gained?.[p] ?? accepted + 1,
        plain: plain === 1,
        row,
      };
    }),
  };
}
