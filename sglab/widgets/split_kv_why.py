"""Why a planner cut a batch as it did: one sentence per planner, with this plan's own numbers.

Each restates the rule that `sglab.planning` computes, from what the plan recorded.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sglab.planning.plan import Plan

Rule = Callable[[Plan, int, int], str]


def why(name: str, plan: Plan, batch_size: int) -> str:
    """How planner `name` came to the splits of `plan`, and how many of the launched CTAs have work."""
    rule = _RULES.get(name)
    reason = rule(plan, batch_size, plan.launch.sm_count) if rule else ""
    busy, launched = int(np.unique(plan.work.cta).size), plan.launch.num_ctas
    idle = f"{launched - busy:,} of the {launched:,} CTAs have no work." if busy < launched else ""
    return " ".join(part for part in (reason, idle) if part)


def _cutlass(plan: Plan, batch: int, sms: int) -> str:
    budget = max(1, sms // batch)
    return _budgeted(plan, f"{sms} SMs // {_requests(batch)} = {budget}" if batch <= sms else "1", budget)


def _cluster_aware(plan: Plan, batch: int, sms: int) -> str:
    budget = max(1, sms // (2 * batch))
    known = f"{sms} SMs // (2 × {_requests(batch)}) = {budget}: a split is a CTA pair"
    return _budgeted(plan, known if 2 * batch <= sms else "1", budget)


def _budgeted(plan: Plan, budget_is: str, budget: int) -> str:
    width, splits = plan.scalars["K"], plan.scalars["split_kv"]
    tiles = -(-width // 128)
    per_split = -(-tiles // min(tiles, budget))
    capped = f", but no more than the {tiles} tiles" if budget > tiles else ""
    return (
        f"The longest request has {_many(tiles, 'tile')} of 128 KV tokens. Budget of splits per request: "
        f"{budget_is}{capped}. "
        f"ceil({tiles} / {min(tiles, budget)}) = {_many(per_split, 'tile')} per split, ceil({tiles} / {per_split}) = "
        f"{_many(splits, 'split')}. All requests get that grid; one with fewer tiles fills fewer splits."
    )


def _sglang_cutlass(plan: Plan, batch: int, sms: int) -> str:
    del plan, batch, sms
    return "SGLang's backend passes num_kv_splits = 1: nothing is split."


def _sm100(plan: Plan, batch: int, sms: int) -> str:
    del batch
    tiles, splits = plan.scalars["tiles_per_split"], int(np.sum(plan.arrays["num_splits"]))
    pairs = max(sms // 2, 1)
    if splits > pairs:
        return f"{_many(splits, 'split')} for {pairs} CTA pairs, at most {_many(tiles, 'tile')} of 128 KV tokens each."
    return (
        f"The fewest tiles of 128 KV tokens per split with which all splits run at once on {pairs} CTA pairs: "
        f"{_many(tiles, 'tile')}, {_many(splits, 'split')} in all."
    )


def _sm90(plan: Plan, batch: int, sms: int) -> str:
    del batch, sms
    return (
        f"Work units of at most {_many(plan.scalars['limit'], 'tile')} of 64 KV tokens, the limit with the least "
        f"modelled time, dealt out longest first to {_many(plan.scalars['parts'], 'part')}."
    )


def _flashinfer_mla(plan: Plan, batch: int, sms: int) -> str:
    del batch, sms
    clusters, limit = plan.scalars["num_blks_y"], plan.scalars["kv_len_limit"]
    return (
        f"Even shares of all KV tokens on {_many(clusters, 'cluster')}, rounded up to {limit:,} tokens (kv_len_limit): "
        "no work unit is longer, and each goes to the cluster with the least cost so far."
    )


def _flash_mla(plan: Plan, batch: int, sms: int) -> str:
    del batch, sms
    parts, total, payload = (plan.scalars[key] for key in ("num_sm_parts", "total_num_blocks", "payload"))
    return (
        f"{total:,} blocks of 64 KV tokens, 5 more per request counted for its overhead, are dealt out in order "
        f"to {parts} parts: ceil({total:,} / {parts}) + 5 = {payload} each. "
        "A part that is full leaves the rest of a request to the next."
    )


def _flash_attention_3(plan: Plan, batch: int, sms: int) -> str:
    del batch
    block, most = plan.scalars["kBlockN"], plan.scalars["num_splits"]
    if most == 1:
        return (
            f"num_splits_heuristic answers 1: the tiles nearly fill {sms} SMs, or there is little KV. Nothing is split."
        )
    return (
        f"Each tile of queries gets about an SM's share of all blocks of {block} KV tokens plus 10 %, so a "
        f"longer request gets more splits; at most {most} (num_splits_heuristic)."
    )


def _triton(plan: Plan, batch: int, sms: int) -> str:
    del batch
    return (
        "Two chunk lengths compete and a request takes the larger number of splits: one evens out the "
        f"batch's lengths, the other fills {sms} SMs; at most {plan.scalars['max_kv_splits']}. "
        "A split's length is rounded up to 32 tokens."
    )


def _triton_static(plan: Plan, batch: int, sms: int) -> str:
    del batch, sms
    return f"{plan.scalars['max_kv_splits']} splits for every request, whatever its length."


def _triton_deterministic(plan: Plan, batch: int, sms: int) -> str:
    del plan, batch, sms
    return "ceil(length / 256) splits: a request splits alike in every batch."


def _decode(plan: Plan, batch: int, sms: int) -> str:
    del batch, sms
    grid, chunk = plan.scalars["max_grid_size"], plan.scalars["kv_chunk_size_in_pages"]
    if not plan.scalars["split_kv"]:
        return f"Nothing is split: requests × KV heads fill the {grid} CTAs, or every request fits in one chunk."
    return (
        "The smallest chunk (at least 128 KV tokens) with which the chunks of all requests and KV heads fit in "
        f"{grid} CTAs, found by bisection: {_many(chunk, 'page')}."
    )


def _prefill(plan: Plan, batch: int, sms: int) -> str:
    del batch, sms
    most = plan.scalars["max_batch_size_if_split"]
    if not plan.scalars["split_kv"]:
        return "All tiles of queries fit without a split."
    return (
        f"The smallest chunk with which tiles of queries times chunks fit in {most}, found by bisection: "
        f"{int(plan.arrays['kv_chunk_size_ptr'][0]):,} KV tokens."
    )


def _prefill_sm90(plan: Plan, batch: int, sms: int) -> str:
    del plan, batch, sms
    return "It never splits KV: requests and heads go whole to the CTA with the least cost so far, longest first."


def _requests(count: int) -> str:
    return _many(count, "request")


def _many(count: float, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_RULES: dict[str, Rule] = {
    "cutlass_mla_individual": _cutlass,
    "cutlass_mla_persistent": _cutlass,
    "cutlass_mla_persistent_4_1": _cutlass,
    "flashinfer_cutlass_mla": _cluster_aware,
    "sglang_cutlass_mla": _sglang_cutlass,
    "sglab_mla_sm100": _sm100,
    "sglab_mla_sm90": _sm90,
    "flashinfer_mla": _flashinfer_mla,
    "flash_mla": _flash_mla,
    "flash_attention_3": _flash_attention_3,
    "sglang_triton": _triton,
    "sglang_triton_static": _triton_static,
    "sglang_triton_deterministic": _triton_deterministic,
    "flashinfer_decode": _decode,
    "flashinfer_prefill": _prefill,
    "flashinfer_prefill_sm90": _prefill_sm90,
}
