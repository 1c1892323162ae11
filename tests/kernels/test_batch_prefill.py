"""FlashInfer's batch prefill, multi-item scoring, and cascades = attention over all levels' keys."""

import math

import pytest
import torch

from sglab.kernels import (
    CascadeLevel,
    ContractError,
    MultiLevelCascadeAttentionWrapper,
    batch_prefill_with_paged_kv_cache,
    batch_prefill_with_ragged_kv_cache,
    cascade_attention,
    multi_item_positions,
)
from tests.support.kernels.compare import ROUNDING, assert_close

IMPLEMENTATIONS = ["reference", "torch", "triton"]


def ints(*values, device="cpu"):
    return torch.tensor(values, dtype=torch.int32, device=device)


def attention(q, k, v, seen):
    """O and base-2 LSE in float64 of (queries, heads, dim) over (keys, kv_heads, dim)."""
    q, k, v = (x.double().cpu() for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(~seen, -math.inf)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v), scores.logsumexp(-1).T / math.log(2)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_paged_and_ragged(implementation, device, generator) -> None:
    """Requests of 7 and 3 keys in pages of 4, one without pages; HND; base-2 LSE."""
    cache = torch.randn(6, 2, 2, 4, 16, generator=generator).to(device)  # pages, K or V, heads, rows
    q = torch.randn(5, 4, 16, generator=generator).to(device)
    qo, pages = ints(0, 3, 4, 5, device=device), [[5, 2], [], [1]]
    o, lse = batch_prefill_with_paged_kv_cache(
        *(q, cache, qo, ints(0, 2, 2, 3, device=device), ints(5, 2, 1, device=device), ints(3, 0, 3, device=device)),
        kv_layout="HND",
        causal=True,
        return_lse=True,
        implementation=implementation,
    )
    rows = cache.transpose(2, 3)
    ragged = []
    for request, (own, length) in enumerate(zip(pages, [7, 0, 3], strict=True)):
        k, v = (rows[own, side].flatten(0, 1)[:length] for side in (0, 1))
        ragged.append((k, v))
        now = slice(*qo[request : request + 2].tolist())
        count = now.stop - now.start
        seen = torch.arange(length) <= torch.arange(count)[:, None] + length - count
        if length:
            wanted = attention(q[now], k, v, seen)
            assert_close(o[now], wanted[0], 4e-6)
            assert_close(lse[now], wanted[1], 4e-6)
        else:
            assert not o[now].any() and (lse[now] == -math.inf).all()
    k, v = (torch.cat([each[side] for each in ragged]) for side in (0, 1))
    same = batch_prefill_with_ragged_kv_cache(
        *(q, k, v, qo, ints(0, 7, 7, 10, device=device)), causal=True, implementation=implementation
    )
    assert_close(same, o, 4e-6)


class TestMultiItem:
    def test_positions_by_hand(self) -> None:
        """A prefix of 7, then three items of one token, with delimiters around them."""
        prefix, positions, longest = multi_item_positions(torch.tensor([1] * 7 + [9, 2, 9, 3, 9, 4, 9]), 9)
        assert (prefix, positions.tolist(), longest) == (7, [0, 1, 0, 1, 0, 1, 0], 1)
        with pytest.raises(ContractError, match="with the delimiter 9 in it"):
            multi_item_positions(torch.tensor([1]), 9)

    @pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
    def test_an_item_sees_the_prefix_and_itself(self, implementation, device, generator) -> None:
        """Keys of the prefix are in the cache already: queries begin inside it."""
        tokens = [5] * 6 + [9, 5, 5, 5, 9, 5, 9, 5, 5, 9]
        prefix, positions, _ = multi_item_positions(torch.tensor(tokens), 9)
        total, queries = len(tokens), 12
        q = torch.randn(queries, 4, 16, generator=generator).to(device)
        cache = torch.randn(4, 2, 4, 2, 16, generator=generator).to(device)
        o = batch_prefill_with_paged_kv_cache(
            *(q, cache, ints(0, queries, device=device), ints(0, 4, device=device), ints(2, 0, 3, 1, device=device)),
            ints(4, device=device),
            prefix_len_ptr=ints(prefix, device=device),
            token_pos_in_items_ptr=positions[None].to(device, torch.uint16),
            implementation=implementation,
        )
        seen = torch.zeros(queries, total, dtype=torch.bool)
        for i in range(queries):
            p = i + total - queries
            for key in range(p + 1):
                start = p if p < prefix else max(j for j in range(p + 1) if tokens[j] == 9)
                seen[i, key] = key < prefix or (tokens[p] != 9 and key > start)
        k, v = (cache[[2, 0, 3, 1], side].flatten(0, 1) for side in (0, 1))
        assert_close(o, attention(q, k, v, seen)[0], 4e-6)


class TestCascade:
    def problem(self, device, generator, dtype=torch.float32):
        """Four requests of 1, 2, 1 and 3 queries; all share 2 pages, the first two and the last two another each."""
        cache = torch.randn(12, 2, 4, 2, 32, generator=generator).to(device, dtype)
        q = torch.randn(7, 6, 32, generator=generator).to(device, dtype)
        levels = [
            CascadeLevel(ints(0, 7), ints(0, 2), ints(4, 1), ints(4)),
            CascadeLevel(ints(0, 3, 7), ints(0, 1, 2), ints(7, 0), ints(4, 4)),
            CascadeLevel(ints(0, 1, 3, 4, 7), ints(0, 1, 2, 2, 4), ints(3, 5, 9, 10), ints(1, 3, 0, 2)),
        ]
        levels = [CascadeLevel(*(x.to(device) for x in vars(level).values())) for level in levels]
        slots = [[4, 1, 7, 3], [4, 1, 7, 5], [4, 1, 0], [4, 1, 0, 9, 10]]
        return q, cache, levels, slots, [13, 15, 12, 18]

    @pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
    def test_three_levels(self, implementation, device, generator) -> None:
        q, cache, levels, pages, lens = self.problem(device, generator)
        given = {"causal": True, "implementation": implementation}
        # What is shared is not causal: requests have as many own keys as queries, or none.
        o, lse = cascade_attention(q[:, :], cache, levels, return_lse=True, **given)
        first = 0
        for own, length, count in zip(pages, lens, [1, 2, 1, 3], strict=True):
            k, v = (cache[own, side].flatten(0, 1)[:length] for side in (0, 1))
            unique = length - 12
            key = torch.arange(length)
            seen = (key < 12) | (key <= torch.arange(count)[:, None] + length - count) & (unique > 0)
            wanted = attention(q[first : first + count], k, v, seen)
            assert_close(o[first : first + count], wanted[0], 4e-6)
            assert_close(lse[first : first + count], wanted[1], 4e-6)
            first += count

    def test_the_wrapper(self, device, generator) -> None:
        q, cache, levels, _, _ = self.problem(device, generator, torch.float16)
        wrapper = MultiLevelCascadeAttentionWrapper(3, torch.empty(16, dtype=torch.uint8))
        with pytest.raises(ContractError, match="Call plan first"):
            wrapper.run(q, cache)
        arrays = [[list(vars(level).values())[i] for level in levels] for i in range(4)]
        with pytest.raises(ContractError, match="one per level"):
            wrapper.plan(*(array[:2] for array in arrays), 6, 2, 32, 4)
        wrapper.plan(*arrays, 6, 2, 32, 4, causal=True)
        wanted = cascade_attention(q, cache, levels, causal=True, implementation="reference")
        assert_close(wrapper.run(q, cache), wanted, ROUNDING[torch.float16])
        with pytest.raises(ContractError, match="of 6 heads of 32, as planned"):
            wrapper.run(q[:, :4], cache)
        halves = cache.flatten(0, 0).unflatten(2, (2, 2)).permute(0, 2, 1, 3, 4, 5).flatten(0, 1)
        with pytest.raises(ContractError, match="of pages of 4 tokens and 2 KV heads of 32, as planned; got"):
            wrapper.run(q, halves)  # last pages' lengths would count tokens of other pages

    def test_every_level_has_every_query(self, generator) -> None:
        q, cache, levels, _, _ = self.problem(torch.device("cpu"), generator)
        with pytest.raises(ContractError, match="qo_indptr must be from 0 to 6"):
            cascade_attention(q[:6], cache, levels)
