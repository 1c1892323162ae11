"""The float64 reference itself, against arithmetic written out with Python floats."""

import math

import pytest
import torch

from sglab.workbench import Batch, decode_batch, extend_batch, max_error, reference


def by_hand(batch: Batch) -> list[list[tuple[list[float], float]]]:
    """[token][head] -> (output row, natural LSE), one multiplication at a time."""
    layer, pool = batch.layer, batch.runner.token_to_kv_pool
    keys, values = (buffer.double().tolist() for buffer in pool.get_kv_buffer(0))
    out, token = [], 0
    for i, new in enumerate(batch.new_tokens):
        slots = batch.slots(i).tolist()
        for position in range(len(slots) - new, len(slots)):
            heads = []
            for h, q in enumerate(batch.q[token].double().tolist()):
                kv = h * layer.tp_k_head_num // layer.tp_q_head_num
                products = [sum(map(math.prod, zip(q, keys[s][kv], strict=True))) for s in slots[: position + 1]]
                logits = [x * layer.scaling for x in products]
                if layer.logit_cap:
                    logits = [layer.logit_cap * math.tanh(x / layer.logit_cap) for x in logits]
                total = sum(map(math.exp, logits))
                rows = [values[s][kv] for s in slots[: position + 1]]
                weights = [math.exp(x) / total for x in logits]
                row = [sum(w * r[d] for w, r in zip(weights, rows, strict=True)) for d in range(layer.v_head_dim)]
                heads.append((row, math.log(total)))
            out.append(heads)
            token += 1
    return out


@pytest.mark.parametrize(
    "batch",
    [
        decode_batch([5, 1], num_heads=4, num_kv_heads=2, kind="mha", head_dim=6, v_head_dim=4, page_size=4),
        decode_batch([3, 7], num_heads=2, kv_lora_rank=8, qk_rope_head_dim=4, page_size=2, logit_cap=1.5),
        extend_batch([6, 4], [2, 0], num_heads=2, num_kv_heads=1, kind="mha", head_dim=4, page_size=1),
    ],
)
def test_the_reference_is_the_definition(batch: Batch) -> None:
    o, lse = reference(batch)
    for token, heads in enumerate(by_hand(batch)):
        for h, (row, log_total) in enumerate(heads):
            assert o[token, h].tolist() == pytest.approx(row, abs=1e-12)
            assert float(lse[token, h]) == pytest.approx(log_total, abs=1e-12)


def test_a_window_sees_the_last_window_plus_one_tokens() -> None:
    batch = decode_batch([9], num_heads=1, kind="mha", head_dim=4, page_size=1)
    batch.layer.sliding_window_size = 2
    narrow = reference(batch).o
    keys = batch.runner.token_to_kv_pool.get_key_buffer(0)
    keys[batch.slots(0)[:6]] = 100.0
    assert torch.equal(reference(batch).o, narrow)
    keys[batch.slots(0)[6]] = 100.0
    assert not torch.equal(reference(batch).o, narrow)


def test_an_error_is_nan_where_a_value_is() -> None:
    expected = torch.zeros(2, 2)
    assert max_error(torch.tensor([[0.0, 1.0], [0.0, -3.0]]), expected) == 3.0
    assert math.isnan(max_error(torch.tensor([[0.0, float("nan")], [0.0, 0.0]]), expected))
    with pytest.raises(ValueError, match="Compare like with like"):
        max_error(torch.zeros(2), expected)
