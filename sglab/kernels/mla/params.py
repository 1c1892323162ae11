"""The MLA decode kernels' parameters: one struct each, with the fields of `struct Params` in its source, in order."""

from __future__ import annotations

from dataclasses import dataclass

from sglab.gpu import TensorMap
from sglab.gpu.struct_parameter import Float32, Int32, Int64, Pointer, Struct


@dataclass(frozen=True)
class Sm100Params(Struct):
    """See csrc/kernels/sm100/mla_decode.cu."""

    q_latent: TensorMap
    q_rope: TensorMap
    kv: TensorMap
    page_table: Pointer
    page_table_stride: Int64
    page_size: Int32
    page_log2: Int32
    seq_lens: Pointer
    num_splits: Pointer
    max_splits: Int32
    batch: Int32
    out: Pointer
    out_stride_request: Int64
    out_stride_head: Int64
    lse: Pointer
    partial_out: Pointer
    partial_lse: Pointer
    partial_count: Pointer
    num_heads: Int32
    scale_log2: Float32
    lse_unit: Float32


@dataclass(frozen=True)
class Sm90Params(Struct):
    """See csrc/kernels/sm90/mla_decode.cu."""

    q_latent: TensorMap
    q_rope: TensorMap
    kv: TensorMap
    page_table: Pointer
    page_table_stride: Int64
    page_size: Int32
    page_log2: Int32
    works: Pointer
    rounds: Int32
    out: Pointer
    out_stride_request: Int64
    out_stride_head: Int64
    lse: Pointer
    partial_out: Pointer
    partial_lse: Pointer
    num_heads: Int32
    scale_log2: Float32
    lse_unit: Float32
