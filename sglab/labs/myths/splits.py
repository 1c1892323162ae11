"""Statements on splits: how many, what they cost, who plans them."""

from __future__ import annotations

from typing import Any

import torch

from sglab.gpu import KernelError
from sglab.gpu.architecture import B200_SMS, H100_SMS
from sglab.kernels import cutlass_mla_get_workspace_size, decode_attention_fwd, merge_state_v2
from sglab.labs.mla_hang import GuardedDecode
from sglab.labs.mla_hopper import Call
from sglab.planning import (
    PLANNERS,
    cutlass_workspace_size,
    decode_plan,
    deterministic_num_kv_splits,
    get_num_kv_splits,
    individual_schedule,
    num_splits_heuristic,
    persistent_schedule,
    set_split_kv,
    set_split_kv_cluster_aware,
    split_ranges,
)
from sglab.planning.num_kv_splits import kv_len_per_split

from .statement import Found, statement


@statement(
    "c",
    a=(True, "That product has 2 bytes per number and forgets something. Look at what the real formula gives."),
    b=(False, "Alignment is a few bytes. What type do partials have, and what else is kept of each?"),
    c=(False, "Partials are float32, with a float32 LSE each: (4 · 512 + 4) · 128 · 4 · 32 bytes."),
)
def workspace_16_mib() -> Found:
    """For 32 requests in 4 splits CUTLASS's MLA decode needs 32 · 4 · 128 · 512 · 2 = 16,777,216 bytes of workspace."""
    needed = cutlass_workspace_size(4, 32)
    found: dict[str, object] = {"32 requests, 4 splits": f"{needed:,}"}
    found["8 requests, 1 split"] = cutlass_workspace_size(1, 8)
    for requests in (8, 64):
        size = cutlass_mla_get_workspace_size(8192, requests)
        found[f"SGLang's copy asks for, {requests} requests, 1 split"] = f"{size:,}"
    found["grid of the 32 × 4"] = individual_schedule(32, 4).grid
    return needed == 16_777_216, found


@statement(
    "a",
    a=(False, "It computes how many waves there would be, and no later line reads the number."),
    b=(False, "The rule limits the splits by the SMs, but it counts CTAs, and a cluster has two of them."),
    c=(True, "Look at the waves for 4 requests: more than one."),
)
def planner_minds_waves() -> Found:
    """CUTLASS's choice of splits keeps the grid within one wave of SMs: that is what its variable `waves` is for."""
    plain = {requests: set_split_kv(8192, requests, B200_SMS) for requests in (4, 8, 37)}
    aware = {requests: set_split_kv_cluster_aware(8192, requests, B200_SMS) for requests in (4, 8, 37)}
    found = {f"{n} requests: splits, CTAs, waves": (c.split_kv, c.ctas, round(c.waves, 2)) for n, c in plain.items()}
    found |= {f"FlashInfer's, {n} requests": (c.split_kv, c.ctas, round(c.waves, 2)) for n, c in aware.items()}
    return all(choice.waves <= 1 for choice in plain.values()), found


@statement(
    "b",
    a=(True, "With two splits a request of 100 tokens already leaves its second unit empty: see the table."),
    b=(False, "100 tokens are one tile, which cannot be cut: the second unit is empty. One split leaves none."),
    c=(False, "Each request is cut by its own length, but all get the same number of units."),
)
def two_splits_avoid_empty_units() -> Found:
    """The hang of CUTLASS's MLA decode needs an empty work unit, and with `num_kv_splits = 2` there is none."""
    used = {splits: split_ranges([100, 5000], splits).local_split_kv.tolist() for splits in (1, 2)}
    found: dict[str, object] = {f"units with tokens, {n} split(s) of [100, 5000]": each for n, each in used.items()}
    for lengths in ((150, 150), (150, 0, 0, 150)):
        try:
            GuardedDecode(seq_lens=lengths).run()
            found[f"the faulty guard, lengths {lengths}"] = "ends"
        except KernelError as error:
            found[f"the faulty guard, lengths {lengths}"] = str(error).splitlines()[0]
    return min(used[2]) == 2, found


@statement(
    "c",
    a=(True, "The GPU was full before: see how long the attention takes for every number of splits."),
    b=(False, "It is more than the merge's few microseconds: look at the bytes of the partials."),
    c=(False, "512 requests fill 148 SMs. Splits then shorten nothing, and partials are written and read on top."),
)
def a_split_is_cheap(requests: int = 512) -> Found:
    """Splitting costs 5 to 15 % for the merge, and the shorter parts win it back, however many requests there are."""
    found: dict[str, object] = {"cache read, MiB": requests * 2048 * 1152 // 2**20}
    spans = []
    for splits in (1, 2, 4, 8):
        options: dict[str, Any] = {"num_heads": 128, "num_kv_heads": 1, "sm_count": B200_SMS, "num_kv_splits": splits}
        plan = PLANNERS["sglang_cutlass_mla"]([2048] * requests, **options)
        spans.append(plan.makespan)
        partials = f"{plan.merge.bytes_read / 2**20:,.0f} MiB of partials"
        found[f"{splits} split(s)"] = f"modelled time {plan.makespan:,}, {partials}"
    return spans[-1] < spans[0], found


@statement(
    "b",
    a=(True, "A merge reads the LSE of every part. Look at what an old one does to the result."),
    b=(False, "O = 0 and LSE = −∞ have to be written: a merge gives such a part the weight 0."),
    c=(False, "O alone may hold anything finite. It is the other output that decides its weight."),
)
def empty_requests_may_be_skipped() -> Found:
    """A decode kernel may skip a part without tokens: what it leaves in its outputs does not matter."""
    out, lse = Call([0, 5]).run()
    value, one = torch.full((1, 1, 4), 2.0), torch.ones(1, 1, 4)
    log = torch.zeros(1, 1)
    right = merge_state_v2(value, log, one * 0, log - torch.inf)[0]
    stale = merge_state_v2(value, log, one * 7, log)[0]
    return torch.equal(stale, right), {
        "our kernel, 0 tokens": f"O {float(out[0].abs().max()):g}, LSE {float(lse[0, 0, 0])}",
        "2 merged with an empty part, O = 0 and LSE = −∞": float(right[0, 0, 0]),
        "2 merged with what lay there, O = 7 and LSE = 0": float(stale[0, 0, 0]),
    }


@statement(
    "a",
    a=(False, "The other requests change how this one is split, and sums in another order round differently."),
    b=(False, "No kernel here draws random numbers. What does the planner look at?"),
    c=(True, "Run it alone, twice, on a busy machine: bit-equal. Then look at the splits."),
)
def busy_gpu_changes_bits() -> Found:
    """If the same request gives other last digits in another run, the reason is what else the GPU was doing."""
    options = {"num_head": 16, "num_kv_head": 1, "device_core_count": H100_SMS}
    splits = {str(lengths): int(get_num_kv_splits(lengths, **options)[0]) for lengths in ([2000], [2000, 40000])}
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(n, 4, 32, generator=random) for n in (1, 500, 500))
    outs = {}
    for count in (2, 8):
        outs[count], again = (_split(q, k, v, count) for _ in range(2))
        assert torch.equal(outs[count], again)
    different = int((outs[2] != outs[8]).sum())
    found: dict[str, object] = {f"splits of the first request of {batch}": n for batch, n in splits.items()}
    always = [int(deterministic_num_kv_splits(lengths)[0]) for lengths in ([2000], [2000, 40000])]
    found |= {"SGLang's deterministic rule": always, "the same call twice": "bit-equal"}
    return not different, {**found, "numbers that differ, 2 splits or 8": f"{different} of {outs[2].numel()}"}


def _split(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, splits: int) -> torch.Tensor:
    (_, heads, dim), tokens = q.shape, len(k)
    out, parts = torch.zeros_like(q), (torch.zeros(1, heads, splits, dim), torch.zeros(1, heads, splits))
    indices = torch.tensor([0, tokens], dtype=torch.int32), torch.arange(tokens, dtype=torch.int32)
    counts = torch.full((1,), splits, dtype=torch.int32)
    decode_attention_fwd(q, k, v, out, *indices, *parts, counts, splits, dim**-0.5)
    return out


@statement(
    "b",
    a=(True, "Its arrays are others: no tiles of queries, no merge_indptr. Compare the grids, too."),
    b=(False, "Decode on CUDA cores asks how many CTAs fit an SM, and cuts pages. Two per SM is prefill's constant."),
    c=(False, "Tensor-core decode does use prefill's planner. The question was about CUDA cores."),
)
def flashinfer_decode_uses_prefill() -> Found:
    """FlashInfer plans a decode on CUDA cores with its prefill planner, for two CTAs per SM."""
    found: dict[str, object] = {}
    arrays = {}
    for name in ("flashinfer_decode", "flashinfer_prefill"):
        plan = PLANNERS[name]([300, 1000, 77], num_heads=32, num_kv_heads=4, sm_count=H100_SMS)
        arrays[name] = set(plan.arrays)
        found[name] = f"grid {plan.grid}, arrays {', '.join(plan.arrays)}"
    for ctas in (2, 8):
        options: dict[str, Any] = {"num_qo_heads": 32, "num_kv_heads": 4, "page_size": 1, "sm_count": H100_SMS}
        plan_of = decode_plan([0, 30_000, 40_000, 47_700], num_blocks_per_sm=ctas, **options)
        found[f"47,700 tokens: tokens per split if {ctas} CTAs fit an SM"] = plan_of.kv_chunk_size_in_pages
    return arrays["flashinfer_decode"] == arrays["flashinfer_prefill"], found


@statement(
    "c",
    a=(True, "That is the grid with as many KV heads as query heads. Look at the two others."),
    b=(False, "The last number stays the most splits of any request. It is the second that changes."),
    c=(False, "Where heads share keys, a program takes up to 16 heads of a group: it loads the keys once for all."),
)
def triton_grid_per_head() -> Found:
    """The first stage of SGLang's Triton decode launches one program per request, query head and split."""
    grids = {}
    for heads, kv_heads in ((32, 32), (32, 8), (128, 1)):
        plan = PLANNERS["sglang_triton"]([1000] * 3, num_heads=heads, num_kv_heads=kv_heads, sm_count=H100_SMS)
        grids[f"{heads} query heads, {kv_heads} KV heads"] = plan.grid
    found = {**grids, "tokens per split, 1,000 in 6": kv_len_per_split([1000], [6]).tolist()}
    return grids["32 query heads, 8 KV heads"][1] == 32, found


@statement(
    "a",
    a=(True, "The fewest splits that fill the last wave to 85 % of the best: many tiles fill it without splits."),
    b=(True, "True, but L2 enters only for queries that pass over a long cache many times."),
    c=(False, "There is a rule of its own: see the row of numbers."),
)
def fa3_adapts() -> Found:
    """FlashAttention-3 takes fewer splits the more tiles the batch has, by itself."""
    tiles = (1, 8, 32, 64, 120)
    splits = [num_splits_heuristic(count, H100_SMS, 64, 1, 1 << 20, False) for count in tiles]
    return splits == sorted(splits, reverse=True) and splits[0] > splits[-1], {
        "tiles of queries in the batch": list(tiles),
        "splits of 64 blocks of keys, 132 SMs": splits,
    }


@statement(
    "b",
    a=(False, "Read the units in the order in which the pairs take them: which of the two numbers changes first?"),
    b=(
        True,
        "A unit's number is taken apart as m_block, split, request; until 4.1 it was m_block, request, split.",
    ),
    c=(True, "True, but lengths play no part: the order is how a unit's number is taken apart, whatever is in it."),
)
def splits_before_requests(requests: int = 64) -> Found:
    """CUTLASS's persistent scheduler (since 4.2) hands out all splits of a request before it comes to the next one."""
    found: dict[str, object] = {}
    firsts = {}
    for order, version in (("m_split_b", "4.2 and later"), ("m_b_split", "until 4.1, and FlashInfer 0.7.2")):
        schedule = persistent_schedule(requests, 4, B200_SMS, order=order)
        pairs = zip(schedule.batch[::2].tolist(), schedule.split[::2].tolist(), strict=True)
        firsts[order] = list(pairs)[:5]
        found[f"(request, split), {version}"] = firsts[order]
    found["units for 148 CTAs"] = len(schedule.batch)
    return [request for request, _ in firsts["m_split_b"]] == [0, 0, 0, 0, 1], found
