"""Sparse attention over an MLA pool of 656-byte records, by FlashMLA's two operators.

Decode, verification and most prompts read the records where they lie (flash_mla_with_kvcache). A prompt of many new
tokens over few keys first widens the keys into a contiguous copy (flash_mla_sparse_fwd): each key is read by many
queries. Source: SGLang 0.5.23 `dsa_backend.py`, flashmla_kv, flashmla_sparse, and flashmla_auto, which chooses.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sglab.attention.inputs import AttentionInputs
from sglab.attention.sparse.dsa_metadata import DSAMetadata, TopkTransformMethod
from sglab.engine import BadArgumentError, ForwardBatch, ForwardMode
from sglab.kernels import dequantize_k_cache_paged as widened
from sglab.kernels import devices, flash_mla_sparse_fwd, flash_mla_with_kvcache, get_mla_metadata
from sglab.kernels.k_records.layout import RECORD

PREFILL_BACKENDS = ("flashmla_auto", "flashmla_kv", "flashmla_sparse")
WIDEN_BELOW = 512
"""Keys per new token, below which flashmla_auto widens on Blackwell."""
IMPLEMENTATIONS = ("triton", "torch", "reference")


def check_prefill_backend(name: str, expected: Sequence[str] = PREFILL_BACKENDS) -> str:
    """Raises BadArgumentError for another name."""
    if name not in expected:
        remedy = "Leave it out for flashmla_auto."
        raise BadArgumentError("dsa_prefill_backend", f"one of {', '.join(expected)}", repr(name), remedy)
    return name


def method_of(batch: ForwardBatch, prefill: str) -> TopkTransformMethod:
    """RAGGED where a pass over records attends to a widened copy: plain prompts, by flashmla_sparse."""
    if batch.forward_mode is not ForwardMode.EXTEND or prefill == "flashmla_kv":
        return TopkTransformMethod.PAGED
    if prefill == "flashmla_auto":
        new = sum(batch.extend_seq_lens_cpu or ())
        blackwell = devices.capability(batch.seq_lens.device)[0] >= 10
        if not blackwell or batch.seq_lens_sum >= WIDEN_BELOW * new:
            return TopkTransformMethod.PAGED
    return TopkTransformMethod.RAGGED


def over_records(
    inputs: AttentionInputs,
    q: torch.Tensor,
    records: torch.Tensor,
    metadata: DSAMetadata,
    slots: torch.Tensor | None,
    implementation: str,
) -> torch.Tensor:
    """Attend to records where they lie.

    Args:
        q: [tokens, heads, 576].
        records: uint8 [slots, 656].
        slots: int32 [tokens, topk], −1 for none; None: all keys that a token may see.

    Returns:
        [tokens, heads, 512].
    """
    lengths = None
    if slots is None:
        slots, lengths = metadata.token_tables(), metadata.seqlens_expanded
    nothing = torch.empty((len(q), 0), dtype=torch.int32, device=q.device)
    out, _ = flash_mla_with_kvcache(
        q[:, None],
        records.view(-1, metadata.page_size, 1, RECORD),
        nothing,
        metadata.dsa_cache_seqlens_int32,
        inputs.layer.v_head_dim,
        get_mla_metadata()[0],
        None,
        inputs.layer.scaling,
        is_fp8_kvcache=True,
        indices=slots[:, None],
        attn_sink=_sinks(inputs),
        topk_length=lengths,
        implementation=operator_of(implementation),
    )
    return out[:, 0]


def over_widened(
    inputs: AttentionInputs,
    q: torch.Tensor,
    records: torch.Tensor,
    metadata: DSAMetadata,
    positions: torch.Tensor | None,
    implementation: str,
) -> torch.Tensor:
    """Attend to a contiguous copy of all requests' keys; without any prefix these are the new rows, not yet rounded.

    Args:
        positions: int [tokens, topk] in each token's request, −1 for none; None: all keys that it may see.
    """
    offset, lengths = metadata.topk_indices_offset, None
    assert offset is not None
    if metadata.page_table_1_flattened is not None:
        keys = widened(records, metadata.page_table_1_flattened)
    elif inputs.k is not None:
        keys = inputs.k if inputs.k_rope is None else torch.cat((inputs.k, inputs.k_rope), -1)
    else:
        keys = widened(records, metadata.flattened_table())
    if positions is None:
        positions = torch.arange(metadata.max_seq_len_k, device=q.device).expand(len(q), -1)
        lengths = metadata.seqlens_expanded
    rows = torch.where(positions >= 0, positions + offset[:, None], -1).to(torch.int32)
    chosen = operator_of(implementation)
    shape = inputs.layer
    keys = keys.to(q.dtype).contiguous()
    return flash_mla_sparse_fwd(
        *(q, keys, rows[:, None], shape.scaling, shape.v_head_dim),
        topk_length=lengths,
        attn_sink=_sinks(inputs),
        implementation=chosen,
    )[0]


def _sinks(inputs: AttentionInputs) -> torch.Tensor | None:
    return None if inputs.sinks is None else inputs.sinks.float()


def operator_of(implementation: str) -> str:
    """The sparse operators' implementation for a name of `attend_rows`."""
    return implementation if implementation in IMPLEMENTATIONS else "auto"
