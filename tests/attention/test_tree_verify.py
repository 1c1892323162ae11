"""TARGET_VERIFY: draft tokens see the prefix and, by the tree mask, their ancestors."""

from dataclasses import dataclass, replace

import pytest
import torch

from sglab.attention import AttentionBackend, create_attention_backend
from sglab.engine import ForwardBatch, ForwardMode, GraphBatch
from sglab.workbench import Batch, extend_batch

PARENTS = [-1, 0, 0, 1]
"""A tree of four draft tokens: 0 -> (1, 2), 1 -> 3."""
PREFIXES = [9, 20]


@dataclass
class VerifyInput:
    draft_token_num: int
    custom_mask: torch.Tensor


def ancestors() -> torch.Tensor:
    """[draft, draft] bool: itself and its ancestors."""
    seen = torch.eye(len(PARENTS), dtype=torch.bool)
    for token, parent in enumerate(PARENTS):
        if parent >= 0:
            seen[token] |= seen[parent]
    return seen


def tree_batch() -> tuple[Batch, ForwardBatch]:
    drafts = len(PARENTS)
    shape = {"kind": "mha", "num_heads": 4, "num_kv_heads": 2, "head_dim": 16, "page_size": 4, "dtype": "float32"}
    batch = extend_batch([prefix + drafts for prefix in PREFIXES], PREFIXES, max_context_len=64, **shape)
    masks = [torch.cat((torch.ones(drafts, p, dtype=torch.bool), ancestors()), 1).flatten() for p in PREFIXES]
    prefixes = torch.tensor(PREFIXES)
    forward_batch = replace(
        batch.forward_batch,
        forward_mode=ForwardMode.TARGET_VERIFY,
        seq_lens=prefixes,
        seq_lens_cpu=prefixes,
        seq_lens_sum=sum(PREFIXES),
        extend_seq_lens=None,
        extend_prefix_lens=None,
        spec_info=VerifyInput(drafts, torch.cat(masks)),
    )
    return batch, forward_batch


def expected(batch: Batch) -> torch.Tensor:
    """Each draft token as the last token of its own path, in float64."""
    keys, values = (buffer.double() for buffer in batch.runner.token_to_kv_pool.get_kv_buffer(0))
    rows = []
    for i, q in enumerate(batch.q.double().split(len(PARENTS))):
        slots, prefix = batch.slots(i), PREFIXES[i]
        for token in range(len(PARENTS)):
            path = torch.cat((slots[:prefix], slots[prefix:][ancestors()[token]]))
            k, v = (buffer[path].repeat_interleave(2, 1) for buffer in (keys, values))
            weights = (torch.einsum("hd,khd->hk", q[token], k) * batch.sm_scale).softmax(-1)
            rows.append(torch.einsum("hk,khd->hd", weights, v))
    return torch.stack(rows)


def run(backend: AttentionBackend, batch: Batch, forward_batch: ForwardBatch) -> torch.Tensor:
    return backend.forward(batch.q, batch.k, batch.v, batch.layer, forward_batch).view(-1, 4, 16)


@pytest.mark.parametrize("name", ["triton", "torch_native"])
def test_each_draft_token_sees_its_path_alone(name: str) -> None:
    batch, forward_batch = tree_batch()
    backend = create_attention_backend(name, batch.runner)
    backend.prepare(forward_batch)
    torch.testing.assert_close(run(backend, batch, forward_batch).double(), expected(batch), atol=3e-6, rtol=0)


def test_a_graph_verifies_from_its_own_mask_buffer() -> None:
    batch, forward_batch = tree_batch()
    backend = create_attention_backend("triton", batch.runner)
    assert backend.verify_mask is None
    backend.init_graph(2, 8)
    one = torch.ones(2, dtype=torch.int64)
    spec = VerifyInput(4, torch.ones(2 * 4 * 5, dtype=torch.bool))
    mode = ForwardMode.TARGET_VERIFY
    backend.prepare_capture(GraphBatch(2, 8, mode, one * 0, one, spec_info=spec))
    buffer = backend.verify_mask
    assert buffer is not None
    backend.prepare_replay(GraphBatch.of(forward_batch))
    backend.redo_verify_metadata(forward_batch.spec_info, 2)
    torch.testing.assert_close(run(backend, batch, forward_batch).double(), expected(batch), atol=3e-6, rtol=0)
    buffer.fill_(1)
    everything = run(backend, batch, forward_batch).double()
    assert not torch.allclose(everything, expected(batch), atol=1e-3), (
        "the kernel reads the buffer it was captured with"
    )


def test_other_speculative_modes_are_refused() -> None:
    batch, forward_batch = tree_batch()
    backend = create_attention_backend("triton", batch.runner)
    with pytest.raises(NotImplementedError, match=r"forward_mode: expected .* for triton, got PREBUILT"):
        backend.prepare(replace(forward_batch, forward_mode=ForwardMode.PREBUILT, spec_info=None))
