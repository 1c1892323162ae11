"""Rotary embeddings: both pairings, partial rotation, scalings that depend on the context."""

import math

import pytest
import torch

from sglab.engine import BadArgumentError
from sglab.layers.rotary import RopeConfig, RotaryEmbedding, rotate, yarn_get_mscale

X = torch.tensor([1.0, 2.0, 3.0, 4.0])
QUARTER_TURN = torch.zeros(2), torch.ones(2)


@pytest.mark.parametrize(("is_neox", "turned"), [(True, [-3.0, -4.0, 1.0, 2.0]), (False, [-2.0, 1.0, -4.0, 3.0])])
def test_which_dims_are_a_pair(is_neox: bool, turned: list[float]) -> None:
    assert rotate(X, *QUARTER_TURN, is_neox).tolist() == turned


def test_scores_depend_on_the_distance_alone() -> None:
    rotary = RotaryEmbedding(RopeConfig.of({"max_position_embeddings": 64}, 16))
    q, k = torch.randn(2, 1, 1, 16).double()

    def score(at: int, to: int) -> float:
        turned, _ = rotary(torch.tensor([at]), q, q)
        _, other = rotary(torch.tensor([to]), k, k)
        return float((turned * other).sum())

    assert math.isclose(score(30, 21), score(9, 0), abs_tol=1e-5)


def test_a_part_of_the_head_passes() -> None:
    rope = RopeConfig.of({"max_position_embeddings": 8, "partial_rotary_factor": 0.25}, 16)
    q = torch.randn(3, 2, 16)
    turned, _ = RotaryEmbedding(rope)(torch.tensor([1, 2, 3]), q, q)
    assert rope.rotary_dim == 4
    assert torch.equal(turned[..., 4:], q[..., 4:])
    assert not torch.equal(turned[..., :4], q[..., :4])


def test_dynamic_and_longrope_reckon_with_the_context_that_is_loaded() -> None:
    config = {"max_position_embeddings": 64, "rope_scaling": {"type": "dynamic", "factor": 2.0}}
    trained, longer = (RopeConfig.of(config, 8, length).frequencies()[0] for length in (64, 256))
    plain = RopeConfig.of({"max_position_embeddings": 64}, 8).frequencies()[0]
    assert torch.equal(trained, plain)
    base = 10000.0 * (2 * 256 / 64 - 1) ** (8 / 6)
    assert torch.allclose(longer, 1 / base ** (torch.arange(0, 8, 2) / 8))
    given = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "factor": 4.0}
    config = {"max_position_embeddings": 256, "original_max_position_embeddings": 64, "rope_parameters": given}
    short, long = (RopeConfig.of(config, 8, length).frequencies() for length in (64, 65))
    assert torch.equal(short[0], 2 * long[0])
    assert short[1] == long[1] == math.sqrt(1 + math.log(4) / math.log(64))


def test_deepseek_s_mscale() -> None:
    assert yarn_get_mscale(40, 1.0) == 0.1 * math.log(40) + 1
    assert yarn_get_mscale(0.5, 1.0) == 1.0


def test_an_unknown_scaling_is_refused_by_name() -> None:
    with pytest.raises(BadArgumentError, match=r"rope_type: expected default or linear .*, got 'su'"):
        RopeConfig.of({"rope_scaling": {"type": "su"}}, 8)
    with pytest.raises(BadArgumentError, match=r"rope_parameters\.low_freq_factor: expected a value for llama3"):
        RopeConfig.of({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, 8)
