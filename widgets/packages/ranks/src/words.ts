// Collectives in words: what they are, why they are needed, what they move.

import { format } from "@sglab/core";
import { endOf, metAt, type Recorded, spanOf } from "./data";
import type { Joint, PassInfo } from "./protocol";

export const NAMES: Record<Joint["kind"], string> = {
  all_reduce: "all-reduce",
  all_gather: "all-gather",
  reduce_scatter: "reduce-scatter",
  all_to_all: "all-to-all",
  send: "send",
};

/** "12.3 µs", of microseconds. */
export function micros(value: number): string {
  return format.duration(value * 1000);
}

/** One unit for several numbers of bytes, and how each is written in it. NaN: nothing. */
export function commonUnit(all: readonly number[]): { unit: string; write(bytes: number): string } {
  const units = ["B", "KiB", "MiB", "GiB"];
  const most = Math.max(0, ...all.filter((each) => !Number.isNaN(each)));
  const power = most ? Math.min(units.length - 1, Math.floor(Math.log2(most) / 10)) : 0;
  return {
    unit: units[power] as string,
    write: (bytes) => (Number.isNaN(bytes) ? "" : inUnit(bytes / 1024 ** power)),
  };
}

function inUnit(value: number): string {
  return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

/** "model.layers.3.mlp" is "3 · mlp". */
export function shortName(module: string): string {
  return module
    .replace(/^model\./, "")
    .replace(/^layers\.(\d+)$/, "layer $1")
    .replace(/^layers\.(\d+)\./, "$1 · ")
    .replace("self_attn.", "");
}

/** A name in at most two lines of `most` characters, broken at a space, or else after a point or an underscore. */
export function wrapped(name: string, most: number): string[] {
  if (name.length <= most) return [name];
  const last = (breaks: RegExp) =>
    Math.max(...[...name.matchAll(breaks)].map(({ index }) => index).filter((at) => at <= most), 0);
  const [space, inWord] = [last(/(?<!·) (?!·)/g), last(/(?<=[._])/g)];
  const end = space || inWord || most;
  const rest = name.slice(end).trimStart();
  const second = rest.length > most ? `${rest.slice(0, most - 1)}…` : rest;
  return [name.slice(0, end).trimEnd(), second];
}

const ROWS = "rows of the prompts"; // as Python names them

/** Why a layer needs it. `joints`: all of its pass. */
export function reason(joint: Joint, pass: PassInfo | undefined, joints: readonly Joint[] = []): string {
  const { kind, what, moduleClass } = joint;
  if (what.startsWith("gather")) return gathering(joint, pass);
  if (what === ROWS)
    return "Ranks share the prompts' new tokens: each sends the rows of its own, as many as the rank with the most has, and gets all the others'.";
  if (moduleClass === "RadixAttention" && joints.some((other) => other.what === ROWS))
    return "Ranks share the prompts' new tokens: each has made keys and values of its own, and gets all the others' for its cache.";
  if (what === "dispatch: counts") return "Each rank tells the others how many rows it has for them.";
  if (what === "dispatch: rows") return "Tokens go to the ranks of their experts, once to each rank.";
  if (what.startsWith("dispatch: rows"))
    return "Each token goes to each of its experts, into room that every expert keeps for every rank; the room is sent whole, full or not.";
  if (what === "dispatch: scales")
    return "The scales of the rows that were sent in e4m3, one for 128 columns.";
  if (what.startsWith("dispatch")) return "Each sent row's choices of experts and their weights.";
  if (what === "combine: sums")
    return "Each rank sends back what its experts made of a token, weights applied; the sums are added there.";
  if (what === "combine: results")
    return "Experts send every row back; weights are applied where they come together.";
  if (what === "logits to rank 0")
    return "Rank 0 samples the tokens of all groups: the first rank of another group sends it that group's logits.";
  if (what) return `For ${what}.`;
  if (moduleClass === "VocabParallelEmbedding")
    return "Each rank holds a range of token ids and has zeros for the others: the sum is the embedding.";
  if (moduleClass === "RowParallelLinear")
    return "Each rank has multiplied its share of the input features: the sum over ranks is the result.";
  if (/Moe|MoE|Experts|MLP|Block/.test(moduleClass))
    return "Each rank has its experts' part of the weighted sum, or its slice of every expert: the sum is the output.";
  if (moduleClass === "RadixAttention") return sharing(joint, joints);
  if (kind === "all_gather")
    return "Each rank has a part of the columns, one after another they are the whole.";
  if (kind === "send") return "From one rank to another.";
  return "Each rank has a part of the sum.";
}

/** Of ranks that share a request's context. */
function sharing(joint: Joint, joints: readonly Joint[]): string {
  const shared = "Ranks share the keys of each request:";
  if (joint.kind === "all_gather") {
    if (joint.dtype === "uint8")
      return `${shared} all of a prompt's cached prefix comes to every rank, as bytes.`;
    return joints.some((sums) => areLsesOf(joint, sums))
      ? `${shared} the LSEs of what each found come to every rank, which weighs its own result by them.`
      : `${shared} the queries of all their heads come to every rank.`;
  }
  return `${shared} each has attended with all heads to its own, and gets what all found for its heads, weighed by LSE.`;
}

/** Whether a gathering has the LSEs, [1, tokens, heads], of results that are summed, [heads, tokens, features]. */
function areLsesOf(joint: Joint, sums: Joint): boolean {
  const [rank] = joint.ranks;
  const [heads, tokens] = sums.shapes[String(rank)] ?? [];
  return (
    sums.kind === "reduce_scatter" &&
    sums.module === joint.module &&
    joint.dtype === "float32" &&
    joint.shapes[String(rank)]?.join() === [1, tokens, heads].join()
  );
}

function gathering({ shapes, ranks }: Joint, pass: PassInfo | undefined): string {
  const start =
    "Groups attend apart and share the MLP: every rank gets the tokens of all groups, and keeps its own rows afterwards, which takes no collective.";
  if (!pass) return start;
  const tokens = pass.tokens.join(" + ");
  const real = pass.tokens.reduce((sum, each) => sum + each, 0);
  const here = (shapes[String(ranks[0])]?.[0] ?? 0) * (pass.padding === "MAX_LEN" ? ranks.length : 1);
  if (here < pass.rows)
    return `${start} The pass runs as two batches that take turns: this one gathers ${here} of the ${pass.rows} rows.`;
  return pass.padding === "MAX_LEN"
    ? `${start} MAX_LEN: ${tokens} ${real === 1 ? "token" : "tokens"}, each group's padded to the longest: ${pass.rows} rows, ${pass.rows - real} of padding.`
    : `${start} SUM_LEN: ${tokens} ${real === 1 ? "token" : "tokens"} one after another, zeros where a rank has none, summed: ${pass.rows} rows.`;
}

/** How bytes leave a rank. */
export function rule(joint: Joint): string {
  const n = joint.ranks.length;
  switch (joint.kind) {
    case "all_reduce":
      return `2 · ${n - 1}/${n} of the tensor (ring)`;
    case "reduce_scatter":
      return `${n - 1}/${n} of the tensor (ring)`;
    case "all_gather":
      return `${n - 1} × this rank's part (ring)`;
    case "all_to_all":
      return "what goes to other ranks, of the rank that sends most";
    case "send":
      return "the tensor";
  }
}

export function sentence(recorded: Recorded, at: number): string {
  const joint = recorded.joints[at];
  if (!joint) return "The pass begins: no collective has run.";
  const where = joint.module ? ` of ${joint.module}` : "";
  const what = joint.what ? ` (${joint.what})` : "";
  const begins = joint.ranks.map((rank) => spanOf(recorded, at, rank)?.begin ?? 0);
  const met = metAt(recorded, at);
  const waited = met - Math.min(...begins);
  const last = joint.ranks[begins.indexOf(Math.max(...begins))];
  return `${NAMES[joint.kind]}${where}${what}: ${format.bytes(joint.moved)} leave a rank; rank ${last} came last, after ${micros(waited)}; then ${micros(endOf(recorded, at) - met)}.`;
}
