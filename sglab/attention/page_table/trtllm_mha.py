"""trtllm_mha: TensorRT-LLM's kernels for SM100, over FlashAttention's arrays; chains only.

After SGLang 0.5.9 `trtllm_mha_backend.py`. The kernel reads [pages, kv_heads, page_size, head_dim] (the pool is viewed
so, never copied), takes bmm1_scale = k_scale · softmax scale and needs a workspace of zeros.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from sglab.attention.capabilities import CAUSAL_MODES, GRAPH_MODES, PROMPTS_SPREAD, Capabilities
from sglab.attention.page_table.backend import PageTableBackend
from sglab.attention.workspace import Workspace, shared_workspace
from sglab.engine import ForwardMode, ModelRunner

WORKSPACE_BYTES = 512 << 20


class TRTLLMHAAttnBackend(PageTableBackend):
    """SGLang's default for MHA on B200 and B300, unless drafts form a tree. There is no soft cap in the kernel."""

    name = "trtllm_mha"
    capabilities = Capabilities(
        kinds=("mha",),
        modes=(
            *CAUSAL_MODES,
            ForwardMode.TARGET_VERIFY,
            ForwardMode.DRAFT_EXTEND,
            ForwardMode.DRAFT_EXTEND_V2,
            ForwardMode.DLLM_EXTEND,
        ),
        drafts="chain",
        graph_modes=GRAPH_MODES,
        page_sizes=(16, 32, 64, 128),
        dtypes=("float16", "bfloat16"),
        kv_dtypes=("float8_e4m3fn", "nvfp4", "fp4_mx_block16"),
        sliding_window=True,
        sinks=True,
        bidirectional=True,
        bidirectional_drafts=True,
        cp=replace(
            PROMPTS_SPREAD,
            kinds=("mha",),
            page_sizes=(16, 32, 64, 128),
            kv_dtypes=("float8_e4m3fn",),
            sliding_window=True,
            sinks=True,
        ),
    )

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        self.workspace: Workspace = shared_workspace("trtllm", WORKSPACE_BYTES, model_runner.device, zeros=True)

    def kernel_view(self, buffer: torch.Tensor) -> torch.Tensor:
        """The pool as the kernel is given it: [pages, kv_heads, page_size, head_dim], without a copy."""
        return buffer.unflatten(0, (-1, self.page_size)).transpose(1, 2)
