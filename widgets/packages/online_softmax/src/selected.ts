// What a selection made elsewhere means here, and what selecting a split means elsewhere. Pure.

import type { Selection } from "@sglab/protocol";
import type { Recorded } from "./data";

/** Whether the keys are in the order of the request's tokens. */
const inOrder = ({ question }: Recorded) => ["stored", "masked"].includes(question.order);

/** The intended split: the one that contains a token, because another planner cuts elsewhere; else by its number. */
export function splitOf(recorded: Recorded, { request, split, token }: Selection): number | undefined {
  if (request !== undefined && request !== recorded.question.request) return undefined;
  if (request !== undefined && token !== undefined && inOrder(recorded))
    return recorded.tiles.find(({ start, end }) => start <= token && token < end)?.split;
  return split !== undefined && split < recorded.splits ? split : undefined;
}

/** A split with its tokens, where it has any. */
export function selectionOf(recorded: Recorded, split: number): Selection {
  const { request } = recorded.question;
  const steps = recorded.steps[split];
  const first = steps && recorded.tiles[steps.first];
  const last = steps && recorded.tiles[steps.last];
  if (!first || !last || !inOrder(recorded)) return { request, split };
  return { request, split, token: first.start, tokens: last.end - first.start };
}
