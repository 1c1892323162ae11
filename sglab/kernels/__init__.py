"""Attention operators under their field names: contract, reference, implementations.

Every operator takes `implementation="auto"` (or "reference", "triton", …); `last_choice()` and `record_choices()` say
which one ran, on which machine, and why. Importing this package needs torch; Triton only where a Triton kernel runs.
"""

from sglab.kernels.combine import split_kv_combine
from sglab.kernels.contract import ContractError
from sglab.kernels.cutlass_mla import cutlass_mla_decode, cutlass_mla_get_workspace_size
from sglab.kernels.decode_attention import decode_attention_fwd
from sglab.kernels.extend_attention import extend_attention_fwd
from sglab.kernels.flash_mla import FlashMLASchedMeta, flash_mla_with_kvcache, get_mla_metadata
from sglab.kernels.fused_moe import fused_experts
from sglab.kernels.gated_activation import gelu_tanh_and_mul, silu_and_mul
from sglab.kernels.kv_buffer import set_mla_kv_buffer
from sglab.kernels.kv_indices import create_flashinfer_kv_indices, create_flashmla_kv_indices
from sglab.kernels.kv_splits import get_num_kv_splits
from sglab.kernels.layernorm import fused_add_rmsnorm
from sglab.kernels.merge import merge_state, merge_state_in_place, merge_state_v2, merge_states
from sglab.kernels.moe_align import moe_align_block_size
from sglab.kernels.paged_decode import batch_decode_with_paged_kv_cache
from sglab.kernels.registry import Choice, Implementation, Operator, last_choice, record_choices
from sglab.kernels.rotary import apply_rope_with_cos_sin_cache_inplace
from sglab.kernels.store_cache import store_cache
from sglab.kernels.w8a8_block_fp8 import w8a8_block_fp8_matmul

__all__ = [
    "Choice",
    "ContractError",
    "FlashMLASchedMeta",
    "Implementation",
    "Operator",
    "apply_rope_with_cos_sin_cache_inplace",
    "batch_decode_with_paged_kv_cache",
    "create_flashinfer_kv_indices",
    "create_flashmla_kv_indices",
    "cutlass_mla_decode",
    "cutlass_mla_get_workspace_size",
    "decode_attention_fwd",
    "extend_attention_fwd",
    "flash_mla_with_kvcache",
    "fused_add_rmsnorm",
    "fused_experts",
    "gelu_tanh_and_mul",
    "get_mla_metadata",
    "get_num_kv_splits",
    "last_choice",
    "merge_state",
    "merge_state_in_place",
    "merge_state_v2",
    "merge_states",
    "moe_align_block_size",
    "record_choices",
    "set_mla_kv_buffer",
    "silu_and_mul",
    "split_kv_combine",
    "store_cache",
    "w8a8_block_fp8_matmul",
]
