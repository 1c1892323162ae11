"""hpc_ops: Tencent's HPC-Ops kernels for Hopper: page size 64, head dim 128, 4 or 8 query heads per KV head.

After SGLang 0.5.23 `hpc_ops_backend.py`. The page table is always as wide as the longest request there can be; eager
and captured passes read the same shape.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.capabilities import Capabilities, UnsupportedError
from sglab.attention.inputs import AttentionInputs
from sglab.attention.page_table.backend import PageTableBackend
from sglab.attention.page_table.metadata import FlashAttentionMetadata, decode_metadata, extend_metadata
from sglab.engine import ForwardBatch, ForwardMode, ModelRunner, RadixAttention

PAGE_SIZE = 64
HEAD_DIM = 128
GROUPS = (4, 8)


class HPCOpsAttnBackend(PageTableBackend):
    """The kernels have no window, no soft cap, and head_dim^-1/2 as their only scale."""

    name = "hpc_ops"
    capabilities = Capabilities(
        kinds=("mha",),
        modes=(ForwardMode.EXTEND, ForwardMode.DECODE, ForwardMode.MIXED, ForwardMode.SPLIT_PREFILL, ForwardMode.IDLE),
        graph_modes=(ForwardMode.DECODE, ForwardMode.IDLE),
        page_sizes=(PAGE_SIZE,),
        dtypes=("bfloat16",),
        kv_dtypes=("float8_e4m3fn",),
        head_dims=((HEAD_DIM, HEAD_DIM),),
    )

    def __init__(self, model_runner: ModelRunner) -> None:
        """
        Raises:
            UnsupportedError: another number of query heads per KV head.
        """
        super().__init__(model_runner)
        config = model_runner.model_config
        group = config.num_attention_heads // config.num_key_value_heads
        if group not in GROUPS:
            remedy = "Use fa3 or triton."
            raise UnsupportedError("num_heads", "4 or 8 query heads per KV head for hpc_ops", f"{group}", remedy)
        self.max_num_pages = -(-self.max_context_len // PAGE_SIZE)

    def new_metadata(self, batch: ForwardBatch) -> FlashAttentionMetadata:
        whole = replace(batch, seq_lens_cpu=None)
        if batch.forward_mode.is_decode():
            return decode_metadata(whole, self.req_to_token, PAGE_SIZE)
        made = extend_metadata(whole, self.req_to_token, PAGE_SIZE)
        assert batch.extend_seq_lens is not None
        assert batch.extend_seq_lens_cpu is not None
        made.cu_seqlens_q, made.max_seq_len_q = indptr_of(batch.extend_seq_lens), max(batch.extend_seq_lens_cpu)
        return made

    def refuse_layer(self, layer: RadixAttention) -> None:
        if abs(layer.scaling - layer.head_dim**-0.5) > 1e-8:
            expected = f"head_dim^-1/2 = {layer.head_dim**-0.5:.6g} for hpc_ops"
            raise UnsupportedError("layer.scaling", expected, f"{layer.scaling:.6g}", "Use fa3 or triton.")

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        self.refuse_layer(inputs.layer)
        return super().attend(inputs)
