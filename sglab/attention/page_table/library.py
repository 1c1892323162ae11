"""One layer by FlashAttention's own package: implementation="flash_attn" of the backends over a page table."""

from __future__ import annotations

import torch

from sglab.attention.info import ran
from sglab.attention.inputs import AttentionInputs
from sglab.attention.page_table.metadata import FlashAttentionMetadata
from sglab.attention.rows import read_kv, whole_query
from sglab.engine import BadArgumentError, MLATokenToKVPool
from sglab.kernels import flash_attn_with_kvcache


def library_call(
    inputs: AttentionInputs,
    metadata: FlashAttentionMetadata,
    table: torch.Tensor,
    lens: torch.Tensor,
    page_size: int,
    num_splits: int,
    *,
    causal: bool,
    sinks: torch.Tensor | None = None,
    window: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """o [tokens, heads, v_head_dim] and the natural LSE [tokens, heads]. Nothing waits for the device.

    Args:
        table, lens: whose keys are read: the decoder's, an encoder's, or a tree's drafts.
        window: apply the layer's.

    Raises:
        BadArgumentError: no package here takes the call; it names what it would need.
    """
    layer, q = inputs.layer, whole_query(inputs)
    keys, values = (buffer.unflatten(0, (-1, page_size)) for buffer in read_kv(inputs))
    qv = None
    if isinstance(inputs.forward_batch.token_to_kv_pool, MLATokenToKVPool):  # absorbed: the latent is scored as V
        qv, q, keys = q[..., : layer.v_head_dim], q[..., layer.v_head_dim :], keys[..., layer.v_head_dim :]
    left = layer.sliding_window_size if window and not layer.is_cross_attention else -1
    try:
        o, lse = flash_attn_with_kvcache(
            q,
            keys,
            values,
            qv=qv,
            cache_seqlens=lens,
            page_table=table,
            cu_seqlens_q=metadata.cu_seqlens_q,
            max_seqlen_q=metadata.max_seq_len_q,
            softmax_scale=layer.scaling,
            causal=causal,
            window_size=(left, 0 if causal else left),
            softcap=layer.logit_cap,
            num_splits=num_splits,
            return_softmax_lse=True,
            sinks=sinks,
            implementation="flash_attn",
            check_values=False,
        )
    except ValueError as refused:
        remedy = "Use implementation='auto' or 'triton'."
        raise BadArgumentError(
            "implementation", "one that takes this call", f"'flash_attn': {refused}", remedy
        ) from None
    ran("flash_attn_with_kvcache", "flash_attn", q.device, "FlashAttention's own kernel")
    return o, lse.T
