"""What must never give numbers in silence: NaN and infinity, plans of another pass, graphs of other sizes."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from sglab.attention import AttentionBackend, create_attention_backend
from sglab.engine import BadArgumentError, ForwardMode, GraphBatch
from sglab.kernels import ContractError
from sglab.workbench import Batch, decode_batch, extend_batch, max_error, reference
from tests.support.attention import declared, every_backend, shape_of

EMULATED = ("triton", "wave", "cutlass_mla", "flashmla")
"""Their own kernels run on the emulator here: PyTorch's float64 stands in for them."""
GRAPHS = [pair for pair in every_backend() if declared(*pair).graph_modes]


def made(name: str, batch: Batch, **changes: Any) -> AttentionBackend:
    implementation = "reference" if name in EMULATED else "auto"
    return create_attention_backend(name, replace(batch.runner, kernel_implementation=implementation, **changes))


def attended(backend: AttentionBackend, batch: Batch) -> torch.Tensor:
    out = backend.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch)
    return out.view(len(batch.q), batch.num_heads, -1)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(("name", "kind"), every_backend())
def test_what_is_not_finite_in_a_query_shows_in_its_row_alone(name: str, kind: str, value: float) -> None:
    for batch in (decode_batch([9, 20], **shape_of(name, kind)), extend_batch([9, 20], [4, 0], **shape_of(name, kind))):
        batch.q[0, 0, 0] = value
        backend = made(name, batch)
        backend.prepare(batch.forward_batch)
        out = attended(backend, batch)
        assert out[0, 0].isnan().all()
        assert out[0, 1:].isfinite().all() and out[1:].isfinite().all()


@pytest.mark.parametrize(("name", "kind"), every_backend())
def test_keys_that_are_all_nan_give_nan_or_are_refused(name: str, kind: str) -> None:
    """A maximum that leaves NaN out would call such a row empty, and its output 0."""
    batch = decode_batch([5, 20], **shape_of(name, kind))
    keys = next(iter(batch.runner.token_to_kv_pool.named_buffers(0).values()))
    keys[batch.slots(0)] = batch.k[0] = float("nan")
    backend = made(name, batch)
    backend.prepare(batch.forward_batch)
    try:
        out = attended(backend, batch)
    except ContractError as refused:
        assert "must be finite" in str(refused)
        return
    assert out[0].isnan().all()
    assert out[1].isfinite().all()


@pytest.mark.parametrize(("name", "kind"), every_backend())
def test_a_plan_of_another_pass_is_refused(name: str, kind: str) -> None:
    batch = decode_batch([9, 20], max_context_len=256, **shape_of(name, kind))
    backend = made(name, batch)
    backend.prepare(batch.forward_batch)
    batch.extend_by_token(0)
    if not backend.plans_ahead:  # it reads the batch that it is given
        assert max_error(attended(backend, batch), reference(batch).o) <= 2.5e-2
        return
    keys = next(iter(batch.runner.token_to_kv_pool.named_buffers(0).values()))
    before = keys.clone()
    message = r"forward_batch\.seq_lens: expected \[9, 20\], as in prepare, got \[10, 20\]\. Call prepare for"
    with pytest.raises(BadArgumentError, match=message):
        attended(backend, batch)
    other = decode_batch([9], max_context_len=256, **shape_of(name, kind))
    with pytest.raises(BadArgumentError, match=r"forward_batch\.batch_size: expected 2, as in prepare, got 1"):
        attended(backend, other)
    assert torch.equal(keys, before), "nothing was written"
    backend.prepare(batch.forward_batch)
    assert max_error(attended(backend, batch), reference(batch).o) <= 2.5e-2


def test_as_many_rows_as_new_tokens() -> None:
    batch = decode_batch([9, 20], **shape_of("fa3", "mha"))
    backend = made("fa3", batch)
    backend.prepare(batch.forward_batch)
    q, k, v = (torch.cat((rows, rows)) for rows in (batch.q, batch.k, batch.v))
    with pytest.raises(BadArgumentError, match="q: expected 2 rows, one per new token of the batch, got 4"):
        backend.forward(q, k, v, batch.layer, batch.forward_batch)


@pytest.mark.parametrize(("name", "kind"), GRAPHS)
def test_graphs_of_other_sizes_are_refused(name: str, kind: str) -> None:
    batch = decode_batch([5], max_context_len=256, **shape_of(name, kind))
    backend = made(name, batch, check_metadata=False)
    backend.init_graph(4, 4)

    def decode(bs: int, rows: int | None = None) -> GraphBatch:
        count = bs if rows is None else rows
        return GraphBatch(bs, bs, ForwardMode.DECODE, torch.zeros(count, dtype=torch.int64), torch.ones(count).long())

    with pytest.raises(BadArgumentError, match=r"graph_batch\.bs: expected at most 4, as init_graph was told, got 8"):
        backend.prepare_capture(decode(8))
    with pytest.raises(BadArgumentError, match=r"graph_batch\.seq_lens: expected at least 4 entries, got 2"):
        backend.prepare_capture(decode(4, rows=2))
    backend.prepare_capture(decode(2))
    backend.prepare_replay(decode(2))
    message = r"graph_batch\.bs: expected a captured size of DECODE, .* one of \[\(2, 2\)\], got \(4, 4\)\. Pad"
    with pytest.raises(BadArgumentError, match=message):
        backend.prepare_replay(decode(4))
