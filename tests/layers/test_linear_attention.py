"""Gated DeltaNet's recurrence and its chunks, the causal convolution, and states across passes."""

import pytest
import torch
from torch.nn import functional

from sglab.kernels.gated_delta_rule.chunks import (
    chunk_gated_delta_rule,
    l2norm,
    recurrent_gated_delta_rule,
)
from sglab.layers.linear_attention.causal_conv1d import causal_conv1d_fn, causal_conv1d_update
from sglab.layers.linear_attention.ssd import chunk_ssd, recurrent_ssd


def test_three_tokens_by_hand() -> None:
    """q = k = 1, v = 2, decay and step one half: 1, 1.25, 1.3125."""
    one, half = torch.ones(1, 1, 1), torch.full((1, 1), 0.5)
    state, outputs = torch.zeros(1, 1, 1, 1), []
    for _ in range(3):
        o, state = recurrent_gated_delta_rule(one, one, 2 * one, half.log(), half, state)
        outputs.append(float(o))
    assert outputs == pytest.approx([1.0, 1.25, 1.3125])


def drawn(tokens: int, heads: int = 3, keys: int = 8, values: int = 5) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(tokens)
    q, k = (l2norm(torch.randn(tokens, heads, keys, generator=generator)).double() for _ in range(2))
    v = torch.randn(tokens, heads, values, generator=generator).double()
    g = -torch.rand(tokens, heads, generator=generator).double() * 3
    beta = torch.rand(tokens, heads, generator=generator).double()
    return [q, k, v, g, beta]


@pytest.mark.parametrize(("tokens", "cut"), [(1, 0), (63, 20), (64, 64), (65, 1), (200, 130)])
def test_chunks_are_the_recurrence_at_any_cut(tokens: int, cut: int) -> None:
    given, start = drawn(tokens), torch.randn(3, 8, 5).double()
    state, expected = start[None], []
    for t in range(tokens):
        o, state = recurrent_gated_delta_rule(*(one[t : t + 1] for one in given), state)
        expected.append(o)
    now, outputs = start, []
    for part in (slice(0, cut), slice(cut, tokens)):
        rows = [one[part] for one in given]
        if len(rows[0]):
            o, now = chunk_gated_delta_rule(*rows, now)
            outputs.append(o)
    assert torch.allclose(torch.cat(outputs), torch.cat(expected), atol=1e-12)
    assert torch.allclose(now, state[0], atol=1e-12)


@pytest.mark.parametrize(("tokens", "cut"), [(1, 0), (65, 1), (150, 70)])
def test_state_space_chunks_are_the_recurrence_at_any_cut(tokens: int, cut: int) -> None:
    x, b, c = torch.randn(tokens, 3, 5).double(), torch.randn(tokens, 3, 4).double(), torch.randn(tokens, 3, 4).double()
    dt, a = torch.rand(tokens, 3).double(), -torch.rand(3).double() * 4
    start = torch.randn(3, 5, 4).double()
    state, expected = start[None], []
    for t in range(tokens):
        now = slice(t, t + 1)
        y, state = recurrent_ssd(x[now], dt[now], a, b[now], c[now], state)
        expected.append(y)
    at, outputs = start, []
    for part in (slice(0, cut), slice(cut, tokens)):
        if len(x[part]):
            y, at = chunk_ssd(x[part], dt[part], a, b[part], c[part], at)
            outputs.append(y)
    assert torch.allclose(torch.cat(outputs), torch.cat(expected), atol=1e-12)
    assert torch.allclose(at, state[0], atol=1e-12)


def test_the_convolution_goes_on_where_it_ended() -> None:
    x, weight, bias = torch.randn(9, 4).double(), torch.randn(4, 3).double(), torch.randn(4).double()
    padded = functional.pad(x.T[None], (2, 0))
    expected = functional.silu(functional.conv1d(padded, weight[:, None], bias, groups=4))[0].T
    states = torch.zeros(2, 4, 2).double()
    first = causal_conv1d_fn(x[:5], weight, bias, states[1])
    second = causal_conv1d_fn(x[5:6], weight, bias, states[1])
    rest = [causal_conv1d_update(row[None], weight, bias, states, torch.tensor([1])) for row in x[6:]]
    assert torch.allclose(torch.cat((first, second, *rest)), expected)
    assert torch.equal(states[0], torch.zeros(4, 2).double())
