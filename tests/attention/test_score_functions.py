"""What models add to their logits: ALiBi in ascend, score functions in triton and fa4."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from sglab.attention import UnsupportedError, create_attention_backend
from sglab.attention.arithmetic.score_functions import alibi, relative_bias
from sglab.engine import BadArgumentError, ForwardMode, GraphBatch
from sglab.layers import RadixAttention
from sglab.workbench import Batch, decode_batch, extend_batch, max_error, reference

SHAPE: dict[str, Any] = {"kind": "mha", "num_heads": 4, "num_kv_heads": 2, "head_dim": 16, "page_size": 4}


def through_a_layer(batch: Batch, name: str, **options: Any) -> torch.Tensor:
    """As a model attends: its layer calls the batch's backend."""
    backend = create_attention_backend(name, batch.runner)
    backend.prepare(batch.forward_batch)
    layer = RadixAttention(4, 16, batch.sm_scale, 2, 0)
    passed = replace(batch.forward_batch, attn_backend=backend)
    return layer(batch.q, batch.k, batch.v, passed, **options).view(-1, 4, 16)


def explicitly(batch: Batch, bias: Any) -> torch.Tensor:
    """softmax(q · k · scale + bias(query's position, key's position, row)) over the keys up to each token, float64."""
    keys, values = (buffer.double() for buffer in batch.runner.token_to_kv_pool.get_kv_buffer(0))
    out, row = [], 0
    for i, count in enumerate(batch.new_tokens):
        slots = batch.slots(i)
        for at in range(len(slots) - count, len(slots)):
            k, v = (each[slots[: at + 1]].repeat_interleave(2, 1) for each in (keys, values))
            logits = torch.einsum("hd,shd->hs", batch.q[row].double(), k) * batch.sm_scale
            logits = logits + torch.stack([bias(at, key, row) for key in range(at + 1)], 1)
            out.append(torch.einsum("hs,shd->hd", logits.softmax(-1), v))
            row += 1
    return torch.stack(out)


@pytest.mark.parametrize("mode", ["decode", "extend"])
def test_alibi_is_a_slope_times_the_keys_position(mode: str) -> None:
    """SGLang's own form, over a cached prefix, too."""
    shape = {**SHAPE, "dtype": "bfloat16"}
    batch = decode_batch([21, 5], **shape) if mode == "decode" else extend_batch([21, 5], [13, 0], **shape)
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    out = through_a_layer(batch, "ascend", slopes=slopes)
    expected = explicitly(batch, lambda at, key, row: slopes.double() * key)
    assert max_error(out, expected) <= 1e-2
    assert max_error(out, reference(batch).o) > 5e-2, "it matters"


@pytest.mark.parametrize("name", ["triton", "fa4"])
@pytest.mark.parametrize("mode", ["decode", "extend"])
def test_a_bias_of_distances_is_added_to_each_tokens_logits(name: str, mode: str) -> None:
    shape = {**SHAPE, "dtype": "bfloat16"}
    batch = decode_batch([21, 5], **shape) if mode == "decode" else extend_batch([21, 5], [13, 0], **shape)
    bias = torch.randn(len(batch.q), 4, 6, generator=torch.Generator().manual_seed(1))

    def added(at: int, key: int, row: int) -> torch.Tensor:
        return bias[row, :, at - key].double() if at - key < 6 else torch.zeros(4, dtype=torch.float64)

    out = through_a_layer(batch, name, score_mod=relative_bias(bias))
    assert max_error(out, explicitly(batch, added)) <= 1e-2


def test_slopes_of_another_number_of_heads_are_refused() -> None:
    batch = decode_batch([9], dtype="bfloat16", **SHAPE)
    with pytest.raises(BadArgumentError, match=r"slopes: expected shape \(4,\), got \(3,\)"):
        through_a_layer(batch, "ascend", slopes=torch.ones(3))


def test_other_backends_name_one_that_adds_to_logits() -> None:
    batch = decode_batch([9], dtype="bfloat16", **SHAPE)
    with pytest.raises(UnsupportedError, match=r"slopes: expected None for fa3, got a tensor \(4,\)\. Use ascend\."):
        through_a_layer(batch, "fa3", slopes=torch.ones(4))
    with pytest.raises(
        UnsupportedError, match=r"score_mod: expected None for fa3, got a function\. Use fa4 or triton\."
    ):
        through_a_layer(batch, "fa3", score_mod=alibi(torch.ones(4)))


@pytest.mark.parametrize(("name", "argument"), [("ascend", "slopes"), ("triton", "score_mod"), ("fa4", "score_mod")])
def test_no_graph_captures_them(name: str, argument: str) -> None:
    batch = decode_batch([9, 4], dtype="bfloat16", **SHAPE)
    runner = replace(batch.runner, kernel_implementation="reference")
    backend = create_attention_backend(name, runner)
    backend.init_graph(2, 2)
    forward = batch.forward_batch
    backend.prepare_capture(GraphBatch(2, 2, ForwardMode.DECODE, forward.req_pool_indices, forward.seq_lens))
    given = {"slopes": torch.ones(4), "score_mod": alibi(torch.ones(4))}
    options: dict[str, Any] = {argument: given[argument]}
    before = runner.token_to_kv_pool.get_key_buffer(0).clone()
    with pytest.raises(UnsupportedError, match=rf"{argument}: expected None in a captured pass for {name}"):
        backend.forward(batch.q, batch.k + 1, batch.v, batch.layer, forward, **options)
    assert torch.equal(runner.token_to_kv_pool.get_key_buffer(0), before)


def test_an_implementation_that_calls_no_function_is_refused() -> None:
    batch = decode_batch([9], dtype="bfloat16", **SHAPE)
    backend = create_attention_backend("fa4", replace(batch.runner, kernel_implementation="cpu"))
    backend.prepare(batch.forward_batch)
    with pytest.raises(BadArgumentError, match=r"implementation: expected one that calls a score function, got 'cpu'"):
        backend.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch, score_mod=alibi(torch.ones(4)))
