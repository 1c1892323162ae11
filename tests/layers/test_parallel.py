"""Linears, embeddings and experts that hold a rank's shard: all ranks together are the unsharded layer."""

import pytest
import torch
from torch import nn

from sglab.engine import BadArgumentError
from sglab.layers import (
    ColumnParallelLinear,
    MergedColumnParallelLinear,
    ParallelLMHead,
    QKVParallelLinear,
    ReplicatedLinear,
    RowParallelLinear,
    TensorParallel,
    VocabParallelEmbedding,
)
from sglab.layers.moe import FusedMoE, TopK

HIDDEN = 24


def ranks(size: int) -> list[TensorParallel]:
    return [TensorParallel(rank, size) for rank in range(size)]


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_column_parallel_layer_gives_its_outputs_in_order(size: int) -> None:
    weight, bias, x = normal(16, HIDDEN), normal(16), normal(5, HIDDEN)
    parts = []
    for tp in ranks(size):
        layer = ColumnParallelLinear(HIDDEN, 16, bias=True, tp=tp)
        layer.load_weight("weight", weight, None)
        layer.load_weight("bias", bias, None)
        parts.append(layer(x))
    assert torch.allclose(torch.cat(parts, -1), x @ weight.T + bias, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_each_part_of_a_merged_layer_is_cut_by_itself(size: int) -> None:
    gate, up, x = normal(16, HIDDEN), normal(8, HIDDEN), normal(5, HIDDEN)
    gates, ups = [], []
    for tp in ranks(size):
        layer = MergedColumnParallelLinear(HIDDEN, [16, 8], tp=tp)
        assert layer.load_weight("weight", up, 1) == ["weight.1"]
        assert layer.load_weight("weight", gate, 0) == ["weight.0"]
        mine = layer(x).split([16 // size, 8 // size], -1)
        gates.append(mine[0])
        ups.append(mine[1])
    assert torch.allclose(torch.cat(gates, -1), x @ gate.T, atol=1e-5)
    assert torch.allclose(torch.cat(ups, -1), x @ up.T, atol=1e-5)


def test_neighbouring_ranks_share_a_kv_head() -> None:
    """32 heads, 8 KV heads, 16 ranks: two query heads each, and ranks 2 i and 2 i + 1 have KV head i."""
    q, k, v = normal(32 * 4, HIDDEN), normal(8 * 4, HIDDEN), normal(8 * 4, HIDDEN)
    for tp in ranks(16):
        layer = QKVParallelLinear(HIDDEN, 4, 32, 8, tp=tp)
        for shard, whole in zip("qkv", (q, k, v), strict=True):
            layer.load_weight("weight", whole, shard)
        assert (layer.num_heads, layer.num_kv_heads) == (2, 1)
        head = tp.rank // 2
        mine = torch.cat((q[tp.rank * 8 :][:8], k[head * 4 :][:4], v[head * 4 :][:4]))
        assert torch.equal(layer.weight, mine)
    with pytest.raises(BadArgumentError, match="tensor-parallel size: expected a multiple of the 3"):
        QKVParallelLinear(HIDDEN, 4, 32, 3, tp=TensorParallel(0, 16))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_sum_over_ranks_of_a_row_parallel_layer(size: int) -> None:
    weight, bias, x = normal(10, HIDDEN), normal(10), normal(5, HIDDEN)
    total = torch.zeros(5, 10)
    for tp in ranks(size):
        layer = RowParallelLinear(HIDDEN, 10, bias=True, tp=tp, reduce_results=False)
        layer.load_weight("weight", weight, None)
        layer.load_weight("bias", bias, None)
        total += layer(tp.shard(x, 1))
    assert torch.allclose(total, x @ weight.T + bias, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2])
def test_embeddings_hold_a_range_of_the_vocabulary(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, ids = normal(100, HIDDEN), torch.tensor([0, 63, 64, 99])
    monkeypatch.setattr(TensorParallel, "all_reduce", lambda self, x: x)
    total, logits = torch.zeros(4, HIDDEN), []
    for tp in ranks(size):
        layer, head = VocabParallelEmbedding(100, HIDDEN, tp), ParallelLMHead(100, HIDDEN, tp)
        layer.load_weight("weight", weight, None)
        head.load_weight("weight", weight, None)
        total += layer(ids)
        logits.append(head(weight[:3]))
    assert torch.equal(total, weight[ids])
    assert torch.allclose(torch.cat(logits, -1)[:, :100], weight[:3] @ weight.T, atol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_sum_over_ranks_of_experts(size: int) -> None:
    x, routing = normal(6, HIDDEN), TopK(2)(normal(6, 4))
    whole = {(e, part): normal(*shape) + e for e in range(4) for part, shape in
             {"gate_proj": (8, HIDDEN), "up_proj": (8, HIDDEN), "down_proj": (HIDDEN, 8)}.items()}  # fmt: skip
    total = torch.zeros(6, HIDDEN)
    for tp in ranks(size):
        layer = FusedMoE(4, HIDDEN, 8, tp)
        filled = [layer.load_weight(f"{e}.{part}.weight", one, None) for (e, part), one in whole.items()]
        assert sorted(key for keys in filled for key in keys) == sorted(layer.weight_keys())
        total += layer(x, routing)
    expected = torch.zeros(6, HIDDEN)
    for token in range(6):
        for weight, e in zip(routing.weights[token], routing.ids[token].tolist(), strict=True):
            gate, up = whole[e, "gate_proj"] @ x[token], whole[e, "up_proj"] @ x[token]
            expected[token] += weight * (whole[e, "down_proj"] @ (nn.functional.silu(gate) * up))
    assert torch.allclose(total, expected, rtol=1e-4, atol=1e-3)


def test_what_cannot_be_dealt_out_is_refused() -> None:
    with pytest.raises(BadArgumentError, match="output_size: expected a multiple of the 3 ranks, got 16"):
        ColumnParallelLinear(HIDDEN, 16, tp=TensorParallel(0, 3))
    with pytest.raises(BadArgumentError, match="tp: expected a rank below a size"):
        TensorParallel(2, 2)
    with pytest.raises(BadArgumentError, match="bias: expected weight, got a name"):
        ReplicatedLinear(4, 4).load_weight("bias", torch.zeros(4), None)
