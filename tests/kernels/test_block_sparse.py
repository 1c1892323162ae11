"""Vertical lines and slashes as blocks and columns, and attention over them = dense attention under the union mask."""

import pytest
import torch

from sglab.kernels import (
    ContractError,
    convert_vertical_slash_indexes,
    convert_vertical_slash_indexes_mergehead,
    sparse_attn_func,
    sparse_attn_varlen_func,
)
from sglab.kernels.vertical_slash.reference import one_row
from tests.support.kernels.compare import assert_close


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def lists(converted, head=0):
    counts, offsets, column_counts, columns = (x[0, head] for x in converted)
    rows = range(len(counts))
    return [(offsets[r, : counts[r]].tolist(), columns[r, : column_counts[r]].tolist()) for r in rows]


class TestConversion:
    def test_by_hand(self) -> None:
        """Both computed from upstream's kernel; the second has a prefix of 128 keys."""
        first = convert_vertical_slash_indexes(
            ints(256), ints(256), ints(0, 5, 100, 200)[None, None], ints(192, 64, 0)[None, None], 256, 64, 64
        )
        assert lists(first) == [([0], []), ([0, 64], []), ([64, 128], [0, 5]), ([0, 128, 192], [100])]
        second = convert_vertical_slash_indexes(
            ints(128), ints(256), ints(3, 130)[None, None], ints(100, 0)[None, None], 128, 64, 64
        )
        assert lists(second) == [([28, 128], [3]), ([92, 192], [3])]

    @pytest.mark.parametrize("queries", [64, 150, 256])
    def test_covers_what_the_lines_say(self, queries, generator) -> None:
        """Causal: every slash's and every vertical line's keys that a query sees are in a block or a column. Upstream
        drops the last vertical lines of a row; the others must be there, none is in both, none repeats."""
        keys = 256
        slashes = [0, *sorted(torch.randperm(200, generator=generator)[:5].tolist())][::-1]
        verticals = sorted(torch.randperm(250, generator=generator)[:6].tolist())
        converted = convert_vertical_slash_indexes(
            *(ints(queries), ints(keys), ints(*verticals)[None, None], ints(*slashes)[None, None], 256, 64, 64)
        )
        for row, (blocks, columns) in enumerate(lists(converted)[: -(-queries // 64)]):
            covered = {key for first in blocks for key in range(first, min(first + 64, keys))}
            assert len(blocks) <= len(slashes) and len(set(columns)) == len(columns)
            assert not covered & set(columns) and set(columns) <= set(verticals)
            for query in range(row * 64, min((row + 1) * 64, queries)):
                position = query + keys - queries
                for distance in slashes:
                    assert position - distance < 0 or position - distance in covered
        past = lists(converted)[-(-queries // 64) :]
        assert all(each == ([], []) for each in past), "rows past the queries are empty"

    def test_lines_per_head(self) -> None:
        verticals = ints([0, 5, 100, 200], [0, 5, 9, 9])[None]
        slashes = ints([192, 64, 0], [0, 0, 0])[None]
        given = (ints(256), ints(256), verticals, slashes)
        converted = convert_vertical_slash_indexes_mergehead(*given, ints(4, 2), ints(3, 1), 256, 64, 64)
        whole = convert_vertical_slash_indexes(*given, 256, 64, 64)
        alone = convert_vertical_slash_indexes(
            *(ints(256), ints(256), ints(0, 5)[None, None], ints(0)[None, None], 256, 64, 64)
        )
        assert lists(converted) == lists(whole) and lists(converted, 1) == lists(alone)

    @pytest.mark.parametrize("causal", [True, False])
    @pytest.mark.parametrize("merged", [False, True])
    def test_triton_makes_the_reference_s_arrays(self, causal, merged, generator) -> None:
        """Fresh lines: many of them past the keys, prefixes, rows that are narrower than blocks."""
        pytest.importorskip("triton")
        q_lens = torch.randint(1, 70, (2,), generator=generator)
        k_lens = q_lens + torch.randint(0, 60, (2,), generator=generator)

        def lines(count, descending):
            drawn = torch.rand(2, 3, 140, generator=generator).argsort(-1)[..., :count]
            return drawn.sort(-1, descending=descending).values.int()

        given = (q_lens.int(), k_lens.int(), lines(7, False), lines(5, True))
        counts = (ints(7, 3, 1), ints(2, 5, 1)) if merged else ()
        convert = convert_vertical_slash_indexes_mergehead if merged else convert_vertical_slash_indexes
        made = [convert(*given, *counts, 96, 8, 16, causal, implementation=which) for which in ("reference", "triton")]
        for expected, got in zip(*made, strict=True):
            assert torch.equal(expected, got)

    def test_wider_rows_than_blocks_are_refused(self) -> None:
        """Rows of 128 queries with blocks of 64 keys: two slashes make four blocks, upstream's output has room for
        two, and the others land in the next row's."""
        blocks, _ = one_row(1, 512, 512, [511], [100, 0], 128, 64, True)
        assert blocks == [28, 92, 156, 220]
        with pytest.raises(ContractError, match="block_size_M must be at most block_size_N = 64"):
            convert_vertical_slash_indexes(
                *(ints(512), ints(512), ints(511)[None, None], ints(100, 0)[None, None], 512, 128, 64)
            )
        with pytest.raises(ContractError, match="slash_indexes must be descending"):
            convert_vertical_slash_indexes(*(ints(9), ints(9), ints(1)[None, None], ints(0, 1)[None, None], 9, 64, 64))


@pytest.mark.parametrize("implementation", ["reference", "torch", "triton"])
def test_equals_masked_attention(implementation, generator) -> None:
    """Two requests, of 130 queries on 200 keys and of 64 on 70; two heads of one KV head with patterns of their own."""
    lens, heads, dim = [(130, 200), (64, 70)], 2, 16
    q_lens, k_lens = (ints(*each) for each in zip(*lens, strict=True))
    verticals = torch.randperm(60, generator=generator)[:12].view(2, 2, 3).sort(-1).values.int()
    slashes = torch.randperm(60, generator=generator)[:8].view(2, 2, 2).sort(-1, descending=True).values.int()
    converted = convert_vertical_slash_indexes(q_lens, k_lens, verticals, slashes, 192, 64, 64)
    q = torch.randn(194, heads, dim, generator=generator)
    k, v = (torch.randn(270, 1, dim, generator=generator) for _ in range(2))
    o, lse = sparse_attn_varlen_func(
        *(q, k, v, *converted, ints(0, 130, 194), ints(0, 200, 270)),
        causal=True,
        softcap=5.0,
        return_softmax_lse=True,
        implementation=implementation,
    )
    row = key = 0
    for request, (queries, keys) in enumerate(lens):
        for head in range(heads):
            seen = torch.zeros(queries, keys, dtype=torch.bool)
            for i in range(queries):
                at = (request, head, i // 64)
                for first in converted[1][at][: converted[0][at]]:
                    seen[i, first : first + 64] = True
                for column in converted[3][at][: converted[2][at]]:
                    seen[i, column] = True
                seen[i, i + keys - queries + 1 :] = False
            scores = q[row : row + queries, head].double() @ k[key : key + keys, 0].double().T / 4
            scores = (5 * (scores / 5).tanh()).masked_fill(~seen, -torch.inf)
            weights = scores.softmax(-1).nan_to_num(0.0)
            assert_close(o[row : row + queries, head], weights @ v[key : key + keys, 0].double(), 4e-6)
            assert_close(lse[head, row : row + queries], scores.logsumexp(-1), 4e-6)
        row, key = row + queries, key + keys


def test_batched_form_equals_the_ragged_one(generator) -> None:
    converted = convert_vertical_slash_indexes(
        *(ints(80, 80), ints(80, 80), ints(3, 70).expand(2, 2, 2), ints(40, 0).expand(2, 2, 2), 80, 64, 64)
    )
    q, k, v = (torch.randn(2, 80, 2, 8, generator=generator) for _ in range(3))
    o, lse = sparse_attn_func(q, k, v, *converted, causal=True, return_softmax_lse=True)
    cu = ints(0, 80, 160)
    flat, flat_lse = sparse_attn_varlen_func(
        *(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), *converted, cu, cu), causal=True, return_softmax_lse=True
    )
    assert_close(o.flatten(0, 1), flat, 0)
    assert_close(lse.transpose(0, 1).flatten(1), flat_lse, 0)
    with pytest.raises(ContractError, match="block_offset must be of keys that the request has"):
        sparse_attn_func(q, k[:, :20], v[:, :20], *converted)
    with pytest.raises(ContractError, match="v must be finite"):
        sparse_attn_func(q, k, v / 0, *converted)
