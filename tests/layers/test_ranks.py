"""Layers on several ranks, with real collectives: what every rank ends with is the unsharded layer."""

import pytest
import torch

from sglab.engine import BadArgumentError
from sglab.layers import SINGLE, TensorParallel
from sglab.layers.dp_attention import DpPaddingMode
from sglab.layers.moe import ExpertLocation
from tests.support.ranked_layers import WIDTH, drawn, gathered, layers
from tests.support.ranks import on_ranks


@pytest.mark.parametrize(("size", "ep_size"), [(2, 1), (2, 2), (4, 2)])
def test_sharded_layers_are_the_unsharded_ones(size: int, ep_size: int) -> None:
    given, x = drawn(), torch.randn(5, WIDTH)
    expected = layers(SINGLE, given, x)
    for found in on_ranks(size, layers, given, x, ep_size=ep_size):
        for name, tensor in expected.items():
            assert torch.allclose(found[name], tensor, rtol=1e-4, atol=1e-4), name


def test_padding_moves_fewer_bytes() -> None:
    choose = DpPaddingMode.get_dp_padding_mode
    assert choose(False, [4, 4]) is DpPaddingMode.MAX_LEN
    assert choose(False, [10, 10, 0, 0]) is DpPaddingMode.SUM_LEN
    assert choose(True, [4, 4]) is DpPaddingMode.SUM_LEN


@pytest.mark.parametrize("mode", list(DpPaddingMode))
@pytest.mark.parametrize("counts", [(3, 2), (0, 5)])
def test_every_rank_has_all_groups_tokens(counts: tuple[int, ...], mode: DpPaddingMode) -> None:
    parts = [torch.arange(n * 3).view(-1, 3) + 100.0 * group for group, n in enumerate(counts)]
    rows = -(-max(counts) // 2) * 2
    if mode is DpPaddingMode.MAX_LEN:
        parts = [torch.cat((part, torch.zeros(rows - len(part), 3))) for part in parts]
    for whole, difference in on_ranks(4, gathered, counts, mode, dp_size=2):
        assert torch.equal(whole, torch.cat(parts))
        assert not difference.any()


def test_redundant_experts_share_the_tokens() -> None:
    location = ExpertLocation((0, 1, 2, 0), ep_size=2)
    ids = torch.tensor([[0, 1], [0, 2], [0, -1]])
    assert location.physical_ids(ids).tolist() == [[0, 1], [3, 2], [0, -1]]
    assert location.local_ids(ids, 0).tolist() == [[0, 1], [-1, -1], [0, -1]]
    assert location.local_ids(ids, 1).tolist() == [[-1, -1], [1, 0], [-1, -1]]
    with pytest.raises(BadArgumentError, match="physical experts: expected a multiple of the 2 ranks, got 3"):
        ExpertLocation((0, 1, 2), ep_size=2)
    with pytest.raises(BadArgumentError, match="physical_to_logical: expected every expert once at least"):
        ExpertLocation((0, 2), ep_size=2)


def test_what_ranks_cannot_share_is_refused() -> None:
    with pytest.raises(BadArgumentError, match="ep_size: expected a divisor of the 4 ranks, got 3"):
        TensorParallel(0, 4, ep_size=3)
    with pytest.raises(BadArgumentError, match="dp_size: expected a divisor of the 4 ranks, got 3"):
        TensorParallel(0, 4, dp_size=3)
