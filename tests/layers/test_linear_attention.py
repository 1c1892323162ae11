"""Gated DeltaNet's recurrence and its chunks, the causal convolution, and states across passes."""

import pytest
import torch
from torch.nn import functional

from sglab.engine import ForwardBatch, ForwardMode, LinearStatePool, StateConfig
from sglab.kernels import gated_delta_rule
from sglab.kernels.gated_delta_rule.chunks import (
    chunk_gated_delta_rule,
    l2norm,
    recurrent_gated_delta_rule,
)
from sglab.kernels.registry import record_choices
from sglab.layers.linear_attention import GatedDeltaNet, gated_deltanet
from sglab.layers.linear_attention.causal_conv1d import causal_conv1d_fn, causal_conv1d_update
from sglab.layers.linear_attention.ssd import chunk_ssd, recurrent_ssd
from sglab.layers.parallel import TensorParallel


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


def passes(layer: GatedDeltaNet, lens: list[int], generator: torch.Generator, device: str) -> list[torch.Tensor]:
    """Prompts of these lengths, then a decoding step of all, from a pool whose rows hold what others left."""
    pool = LinearStatePool(StateConfig(1, (2 * 16 + 2 * 24, 3), (4, 8, 12)), 5, torch.float32, device)
    pool.temporal.fill_(5.0)
    rows = torch.randperm(5, generator=generator)[: len(lens)].to(device)
    outputs = []
    for mode, counts in ((ForwardMode.EXTEND, lens), (ForwardMode.DECODE, [1] * len(lens))):
        x = torch.randn(sum(counts), 32, generator=generator).to(device)
        batch = ForwardBatch(mode, len(lens), torch.zeros(len(x), device=device).long(), rows, rows, rows, 0)
        batch.state_pool, batch.extend_seq_lens = pool, torch.tensor(counts, device=device).int()
        batch.extend_seq_lens_cpu, batch.extend_prefix_lens_cpu = counts, [0] * len(counts)
        outputs.append(layer(torch.empty(0), x, batch))
    return [*outputs, pool.temporal[0, rows]]


def in_triton(*given: torch.Tensor, **options: object) -> torch.Tensor:
    """What "auto" takes on a GPU: chunks for prompts, a token at a time in decode."""
    decoding = len(given[0]) == len(given[6])
    return gated_delta_rule(*given, **options, implementation="triton" if decoding else "triton_chunks")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_gated_deltanet_in_chunks(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts in Triton's chunks, then a step each: as PyTorch on the CPU. On a GPU that is what "auto" takes."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU")
    generator = torch.Generator()
    seed = generator.seed()
    layer = GatedDeltaNet(32, 2, 4, 8, 12, 4, 1e-6, 0, TensorParallel())
    for parameter in layer.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.3
    lens = [40, 1, 33]
    wanted = passes(layer, lens, generator.manual_seed(seed), "cpu")
    if device == "cpu":
        monkeypatch.setattr(gated_deltanet, "gated_delta_rule", in_triton)
    with record_choices() as choices:
        outputs = passes(layer.to(device), lens, generator.manual_seed(seed), device)
    assert [choice.implementation for choice in choices] == ["triton_chunks", "triton"]
    for output, expected in zip(outputs, wanted, strict=True):
        torch.testing.assert_close(output.cpu(), expected, atol=2e-5, rtol=2e-5)
