"""Attention operators under their field names: contract, reference, implementations.

Every operator takes `implementation="auto"` (or "reference", "triton", …); `last_choice()` and `record_choices()` say
which one ran, on which machine, and why. Importing this package needs torch; Triton only where a Triton kernel runs.
"""

from sglab.kernels.batch_prefill import (
    batch_prefill_with_paged_kv_cache,
    batch_prefill_with_ragged_kv_cache,
    multi_item_positions,
)
from sglab.kernels.block_kv import dequantize_kv_rows, quantize_kv_rows
from sglab.kernels.block_sparse import sparse_attn_func, sparse_attn_varlen_func
from sglab.kernels.cascade import CascadeLevel, MultiLevelCascadeAttentionWrapper, cascade_attention
from sglab.kernels.combine import split_kv_combine
from sglab.kernels.contract import ContractError
from sglab.kernels.cpu_attention import decode_attention_cpu, extend_attention_cpu
from sglab.kernels.cutlass_mla import cutlass_mla_decode, cutlass_mla_get_workspace_size
from sglab.kernels.decode_attention import decode_attention_fwd
from sglab.kernels.extend_attention import extend_attention_fwd
from sglab.kernels.flash_attn import flash_attn_varlen_func, flash_attn_with_kvcache
from sglab.kernels.flash_mla import FlashMLASchedMeta, flash_mla_with_kvcache, get_mla_metadata
from sglab.kernels.fused_moe import fused_experts
from sglab.kernels.gated_activation import gelu_tanh_and_mul, silu_and_mul
from sglab.kernels.gated_delta_rule import fused_gdn_gating, gated_delta_rule, update_state_after_verify
from sglab.kernels.indexer import (
    act_quant,
    fp8_mqa_logits,
    fp8_paged_mqa_logits,
    get_index_k_scale_buffer,
    page_mqa_logits,
    set_index_k_scale_buffer,
    slot_mqa_logits,
)
from sglab.kernels.k_records import (
    dequantize_k_cache,
    dequantize_k_cache_paged,
    quantize_k_cache,
    set_mla_k_records,
)
from sglab.kernels.kv_append import (
    append_paged_kv_cache,
    append_paged_mla_kv_cache,
    apply_rope_inplace_with_kvcache,
)
from sglab.kernels.kv_buffer import set_mla_kv_buffer
from sglab.kernels.kv_copy import copy_all_layer_kv_cache
from sglab.kernels.kv_indices import create_flashinfer_kv_indices, create_flashmla_kv_indices
from sglab.kernels.kv_splits import get_num_kv_splits
from sglab.kernels.layernorm import fused_add_rmsnorm, gemma_fused_add_rmsnorm, gemma_rmsnorm, rmsnorm
from sglab.kernels.marlin import gptq_marlin_gemm
from sglab.kernels.merge import merge_state, merge_state_in_place, merge_state_v2, merge_states
from sglab.kernels.moe_align import moe_align_block_size
from sglab.kernels.paged_decode import batch_decode_with_paged_kv_cache
from sglab.kernels.qk_norm_rope import qk_norm_rope_store
from sglab.kernels.registry import Choice, Implementation, Operator, last_choice, record_choices
from sglab.kernels.rotary import apply_rope_with_cos_sin_cache_inplace
from sglab.kernels.sparse_mla import flash_mla_sparse_fwd
from sglab.kernels.store_cache import store_cache
from sglab.kernels.topk import (
    fast_topk_transform_fused,
    fast_topk_transform_ragged_fused,
    fast_topk_v2,
    transform_index_page_table_decode,
    transform_index_page_table_prefill,
)
from sglab.kernels.vertical_slash import convert_vertical_slash_indexes, convert_vertical_slash_indexes_mergehead
from sglab.kernels.w8a8_block_fp8 import w8a8_block_fp8_matmul

__all__ = [
    "CascadeLevel",
    "Choice",
    "ContractError",
    "FlashMLASchedMeta",
    "Implementation",
    "MultiLevelCascadeAttentionWrapper",
    "Operator",
    "act_quant",
    "append_paged_kv_cache",
    "append_paged_mla_kv_cache",
    "apply_rope_inplace_with_kvcache",
    "apply_rope_with_cos_sin_cache_inplace",
    "batch_decode_with_paged_kv_cache",
    "batch_prefill_with_paged_kv_cache",
    "batch_prefill_with_ragged_kv_cache",
    "cascade_attention",
    "convert_vertical_slash_indexes",
    "convert_vertical_slash_indexes_mergehead",
    "copy_all_layer_kv_cache",
    "create_flashinfer_kv_indices",
    "create_flashmla_kv_indices",
    "cutlass_mla_decode",
    "cutlass_mla_get_workspace_size",
    "decode_attention_cpu",
    "decode_attention_fwd",
    "dequantize_k_cache",
    "dequantize_k_cache_paged",
    "dequantize_kv_rows",
    "extend_attention_cpu",
    "extend_attention_fwd",
    "fast_topk_transform_fused",
    "fast_topk_transform_ragged_fused",
    "fast_topk_v2",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "flash_mla_sparse_fwd",
    "flash_mla_with_kvcache",
    "fp8_mqa_logits",
    "fp8_paged_mqa_logits",
    "fused_add_rmsnorm",
    "fused_experts",
    "fused_gdn_gating",
    "gated_delta_rule",
    "gelu_tanh_and_mul",
    "gemma_fused_add_rmsnorm",
    "gemma_rmsnorm",
    "get_index_k_scale_buffer",
    "get_mla_metadata",
    "get_num_kv_splits",
    "gptq_marlin_gemm",
    "last_choice",
    "merge_state",
    "merge_state_in_place",
    "merge_state_v2",
    "merge_states",
    "moe_align_block_size",
    "multi_item_positions",
    "page_mqa_logits",
    "qk_norm_rope_store",
    "quantize_k_cache",
    "quantize_kv_rows",
    "record_choices",
    "rmsnorm",
    "set_index_k_scale_buffer",
    "set_mla_k_records",
    "set_mla_kv_buffer",
    "silu_and_mul",
    "slot_mqa_logits",
    "sparse_attn_func",
    "sparse_attn_varlen_func",
    "split_kv_combine",
    "store_cache",
    "transform_index_page_table_decode",
    "transform_index_page_table_prefill",
    "update_state_after_verify",
    "w8a8_block_fp8_matmul",
]
